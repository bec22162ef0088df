"""Finding agents by id."""

from __future__ import annotations

from pathlib import Path

from pytest_mlebench.agents.config import read_config
from pytest_mlebench.agents.definition import CONFIG, Agent
from pytest_mlebench.catalog.catalogue import unknown
from pytest_mlebench.errors import UsageError, expect
from pytest_mlebench.io.paths import AnyPath, bundled, expanded
from pytest_mlebench.io.units import pluralize

_OWN = f"An agent of your own is a folder NAME with a {CONFIG} that names it; --agents-dir=DIR adds the folder it is in"


class AgentRegistry:
    """The agents below folders of the form ``agents/<name>/config.yaml``; later folders win.

    Raises UsageError for a folder that holds none.

    >>> agents = default_agents()
    >>> agents["baseline"].trusted
    True
    >>> [id for id in agents.load() if id.startswith("dummy")]
    ['dummy', 'dummy/online']
    """

    def __init__(self, *folders: AnyPath) -> None:
        self.files = [file for folder in folders for file in _configs(expanded(folder))]

    def __repr__(self) -> str:
        return f"<AgentRegistry of {pluralize(len(self.files), 'agent folder')}>"

    def load(self) -> dict[str, Agent]:
        """All agents by id; raises AgentError that names the file and the key."""
        return {agent.id: agent for file in self.files for agent in read_config(file)}

    def __getitem__(self, id: str) -> Agent:
        """Raises UsageError with close matches for an unknown id."""
        expect(id, str, "an agent's id", "as in default_agents()['baseline']")
        name = id.split("/")[0]
        own = [file for file in self.files if file.parent.name == name] or self.files
        for file in reversed(own):
            for agent in read_config(file):
                if agent.id == id:
                    return agent
        raise unknown("agent", id, self.load(), advice=_OWN)


def _configs(folder: Path) -> list[Path]:
    if found := sorted(folder.glob(f"*/{CONFIG}")):
        return found
    if (folder / CONFIG).is_file():
        raise UsageError(f"agents folder {folder} is an agent's own folder: name the folder that it is in")
    raise UsageError(f"agents folder {folder} holds no agent, which is a folder with {CONFIG}")


def default_agents(*folders: AnyPath) -> AgentRegistry:
    """The agents that come with the package, and those of ``folders``, which win.

    >>> default_agents()["aide"].llm_hosts
    ('api.openai.com',)
    """
    return AgentRegistry(bundled("agents"), *folders)


def parse_agent_ids(registry: AgentRegistry, ids: list[str]) -> list[Agent]:
    """The agents of these ids, each once; raises UsageError for an unknown one."""
    if not all(ids):
        raise UsageError("an agent's id is empty")
    return [registry[id] for id in dict.fromkeys(ids)]
