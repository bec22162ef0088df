"""Agents as ``agents/<name>/config.yaml`` defines them, in MLE-bench's format, and what the user grants to them.

An agent's folder describes the agent and grants it nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from pytest_mlebench.errors import AgentError
from pytest_mlebench.io.units import pluralize

CONFIG = "config.yaml"
MIN_SECRET = 8
"""Characters that a secret has at least: shorter values cannot be kept out of records without damaging them."""
SECRET = re.compile(r"\$\{\{\s*secrets\.([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")

_ASKS = re.compile(r"\bUNTIL\b|\bask\.sh\b")
_VERSION = re.compile(r"^ARG VERSION=(\S+)", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Agent:
    """A scaffold with a model, as one top-level key of a ``config.yaml`` defines it.

    ``start`` and ``dockerfile`` are paths. ``env_vars`` may hold ``${{ secrets.NAME }}``; ``launch`` fills in the
    values. A definition grants nothing: ``trusted``, ``llm_hosts`` and secrets are what the agent asks for, and
    ``Permissions`` are what it gets. ``bundled`` agents come with the package, which permits what they ask for, but
    keys. ``base_image`` is what its ``mlebench-env`` is built from; None: the usual one.

    >>> from pytest_mlebench import default_agents
    >>> agent = default_agents()["react/dev"]
    >>> agent.kwargs["model"], agent.secret_names, agent.trusted
    ('gpt-5.6-luna', ('OPENAI_API_KEY',), False)
    """

    id: str
    folder: Path
    start: Path
    dockerfile: Path
    kwargs_type: Literal["argparse", "omegaconf"] | None = None
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    env_vars: Mapping[str, str] = field(default_factory=dict)
    privileged: bool = False
    trusted: bool = False
    llm_hosts: tuple[str, ...] = ()
    base_image: str | None = None
    bundled: bool = False

    @property
    def secret_names(self) -> tuple[str, ...]:
        """The names of all secrets that the definition asks for."""
        return tuple(sorted({name for text in self.env_vars.values() for name in SECRET.findall(text)}))

    @property
    def version(self) -> str:
        """The version of the agent's program: the line ``ARG VERSION=…`` of its Dockerfile; empty without one."""
        try:
            found = _VERSION.search(self.dockerfile.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError):
            return ""
        return found[1] if found else ""

    @property
    def models(self) -> tuple[str, ...]:
        """The models that its arguments name: those of ``model`` and of keys that end with ``.model``."""
        named = (str(value) for name, value in self.kwargs.items() if name.rpartition(".")[2] == "model")
        return tuple(dict.fromkeys(named))

    @property
    def may_ask_models(self) -> bool:
        """Whether its definition speaks of anything that may be a language model: a secret, a host or a URL."""
        return bool(self.secret_names or self.llm_hosts) or any("://" in value for value in self.env_vars.values())

    @property
    def reads_until(self) -> bool:
        """Whether a file of its folder may heed ``--until``: has ``UNTIL`` in it, or ``ask.sh``, which does."""
        for file in self.folder.iterdir():
            with suppress(OSError, UnicodeDecodeError):
                if file.is_file() and _ASKS.search(file.read_text(encoding="utf-8")):
                    return True
        return False

    def launch(self, environment: Mapping[str, str] | None = None) -> Launch:
        """What starting the agent takes, with the values of its secrets from ``environment``; by default it gets none.

        Raises AgentError that names every secret that is not there.
        """
        environment = environment or {}
        wanted = self.secret_names
        if missing := sorted(name for name in wanted if not environment.get(name)):
            names, values = ", ".join(missing), " ".join(f"{name}=…" for name in missing)
            raise AgentError(f"agent {self.id} needs {names} in the environment: export {values}")

        for name in wanted:
            if (length := len(environment[name])) < MIN_SECRET:
                raise AgentError(
                    f"agent {self.id}: the secret {name} has {pluralize(length, 'character')}, must have at least "
                    f"{MIN_SECRET}: shorter ones cannot be kept out of logs. If it is no secret, write it in {CONFIG}"
                )

        def fill(value: str) -> str:
            return SECRET.sub(lambda match: environment[match[1]], value)

        if self.kwargs_type == "omegaconf":
            arguments = [f"{key}={value}" for key, value in self.kwargs.items()]
        else:
            arguments = [word for key, value in self.kwargs.items() for word in (f"--{key}", str(value))]
        return Launch(
            arguments=tuple(arguments),
            environment={key: fill(value) for key, value in self.env_vars.items()},
            secrets=frozenset(environment[name] for name in wanted),
        )

    def describe(self) -> dict[str, Any]:
        """The definition for a record: secrets stay names."""
        return {
            "id": self.id,
            "kwargs_type": self.kwargs_type,
            "kwargs": dict(self.kwargs),
            "env_vars": dict(self.env_vars),
            "privileged": self.privileged,
            "trusted": self.trusted,
            "llm_hosts": list(self.llm_hosts),
            **({"base_image": self.base_image} if self.base_image else {}),
        }


@dataclass(frozen=True, kw_only=True)
class Launch:
    """Arguments for an agent's start script, its variables, and the secret values among them (never to be logged)."""

    arguments: tuple[str, ...] = field(default=(), repr=False)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: frozenset[str] = field(default=frozenset(), repr=False)


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
        for grant in fields(self):
            given = getattr(self, grant.name)
            names = () if isinstance(given, str) else tuple(dict.fromkeys(given))
            if isinstance(given, str) or not all(isinstance(name, str) for name in names):
                raise TypeError(f"{grant.name} must be a list of strings, not {given!r}")
            object.__setattr__(self, grant.name, names)

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
