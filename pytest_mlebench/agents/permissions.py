"""What the user grants to agents. An agent's folder describes the agent and grants it nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields

from pytest_mlebench.agents.definition import Agent
from pytest_mlebench.errors import AgentError
from pytest_mlebench.io.units import pluralize


@dataclass(frozen=True, kw_only=True)
class Permissions:
    """What the user permits agents, by name. The default permits nothing.

    ``allow_secrets`` names environment variables; agents that ask for one get its real value. ``allow_hosts`` lists
    hosts that agents may reach, as ``host``, ``host:port`` or a URL. ``trust_agents`` lists ids of agents that may run
    without isolation; an id does not include the agent's variants.

    >>> Permissions(allow_secrets=["WANDB_API_KEY"]).allow_secrets
    ('WANDB_API_KEY',)
    """

    allow_secrets: Iterable[str] = ()
    allow_hosts: Iterable[str] = ()
    trust_agents: Iterable[str] = ()

    def __post_init__(self) -> None:
        for field in fields(self):
            given = getattr(self, field.name)
            names = () if isinstance(given, str) else tuple(dict.fromkeys(given))
            if isinstance(given, str) or not all(isinstance(name, str) for name in names):
                raise TypeError(f"{field.name} must be a list of strings, not {given!r}")
            object.__setattr__(self, field.name, names)

    def check_secrets(self, agent: Agent, replaced: Iterable[str] = ()) -> None:
        """Raise AgentError for secrets that an agent asks for and was not granted.

        ``replaced`` are the names of those for which the gateway gives it a token of the run.
        """
        if missing := sorted({*agent.secret_names} - {*replaced, *self.allow_secrets}):
            options = " ".join(f"--allow-secret={name}" for name in missing)
            raise AgentError(
                f"agent {agent.id} asks for the {pluralize(len(missing), 'secret')} {', '.join(missing)}, which you "
                f"have not granted: {options} gives it the real value (in Python: "
                f"Permissions(allow_secrets={missing!r}))"
            )

    def trusts(self, agent: Agent) -> bool:
        """Whether an agent may run without isolation: bundled ones may where their definition says so."""
        return agent.id in self.trust_agents or (agent.bundled and agent.trusted)

    def to_json(self) -> dict[str, list[str]]:
        return {name: list(given) for name, given in asdict(self).items() if given}
