"""Finding agents by id."""

from __future__ import annotations

from pathlib import Path

from pytest_mlebench._paths import bundled
from pytest_mlebench.agents.config import read_config
from pytest_mlebench.agents.definition import CONFIG, Agent
from pytest_mlebench.catalog.catalogue import unknown
from pytest_mlebench.errors import UsageError

_OWN = f"An agent of your own is a folder NAME with a {CONFIG} that names it; --agents-dir=DIR adds the folder it is in"


class AgentRegistry:
    """The agents below folders of the form ``agents/<name>/config.yaml``; later folders win.

    Raises UsageError for a folder that holds none.
    """

    def __init__(self, *folders: Path) -> None:
        self._files = [file for folder in folders for file in _configs(folder)]

    def load(self) -> dict[str, Agent]:
        """All agents by id; raises AgentError that names the file and the key."""
        return {agent.id: agent for file in self._files for agent in read_config(file)}

    def __getitem__(self, id: str) -> Agent:
        """Raises UsageError with close matches for an unknown id."""
        name = id.split("/")[0]
        own = [file for file in self._files if file.parent.name == name] or self._files
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


def default_agents(*folders: Path) -> AgentRegistry:
    """The agents that come with the package, and those of ``folders``, which win."""
    return AgentRegistry(bundled("agents"), *folders)


def parse_agent_ids(registry: AgentRegistry, ids: list[str]) -> list[Agent]:
    """The agents of these ids, each once; raises UsageError for an unknown one."""
    if not all(ids):
        raise UsageError("an agent's id is empty")
    return [registry[id] for id in dict.fromkeys(ids)]
