"""Agent definitions in MLE-bench's format: ``agents/<name>/config.yaml``."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml

from pytest_mlebench.catalog.catalogue import unknown
from pytest_mlebench.errors import AgentError, UsageError

CONFIG = "config.yaml"
_SECRET = re.compile(r"\$\{\{\s*secrets\.([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")
_KEYS = {"start", "dockerfile", "kwargs_type", "kwargs", "env_vars", "privileged", "trusted", "llm_hosts"}
_ANCHORS = {"vars", "defaults"}


@dataclass(frozen=True, kw_only=True)
class Agent:
    """A scaffold with a model, as one top-level key of a ``config.yaml`` defines it.

    ``start`` and ``dockerfile`` are paths. ``kwargs`` and ``env_vars`` may hold ``${{ secrets.NAME }}``; ``launch``
    puts the values in. ``trusted`` agents may run without a container, ``llm_hosts`` are all that the default network
    policy lets an agent reach.
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

    def launch(self, environment: Mapping[str, str] = os.environ) -> Launch:
        """What starting the agent takes, with secrets from the environment.

        Raises AgentError that names every secret that is not set.
        """
        wanted = {name for text in self._texts() for name in _SECRET.findall(text)}
        if missing := sorted(name for name in wanted if not environment.get(name)):
            raise AgentError(f"agent {self.id} needs {', '.join(missing)}: set in the environment and start again")

        def fill(value: Any) -> str:
            return _SECRET.sub(lambda match: environment[match[1]], str(value))

        if self.kwargs_type == "omegaconf":
            arguments = [f"{key}={fill(value)}" for key, value in self.kwargs.items()]
        else:
            arguments = [word for key, value in self.kwargs.items() for word in (f"--{key}", fill(value))]
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
        }

    def _texts(self) -> Iterator[str]:
        yield from map(str, self.kwargs.values())
        yield from self.env_vars.values()


@dataclass(frozen=True, kw_only=True)
class Launch:
    """Arguments for an agent's start script, its variables, and the secret values among them (never to be logged)."""

    arguments: tuple[str, ...] = field(default=(), repr=False)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: frozenset[str] = field(default=frozenset(), repr=False)


class AgentRegistry:
    """The agents below folders of the form ``agents/<name>/config.yaml``; later folders win."""

    def __init__(self, *folders: Path) -> None:
        self._files = [file for folder in folders for file in sorted(folder.glob(f"*/{CONFIG}"))]

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
        raise unknown("agent", id, self.load())


def read_config(file: Path) -> list[Agent]:
    """The agents that a ``config.yaml`` defines; raises AgentError."""
    try:
        values = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise AgentError(f"{file}: cannot be read: {error}") from error
    if not isinstance(values, dict):
        raise AgentError(f"{file}: must be a mapping of agent ids to definitions")
    definitions = {
        id: value for id, value in values.items() if isinstance(value, dict) and "start" in value and id not in _ANCHORS
    }
    if not definitions:
        raise AgentError(f"{file}: defines no agent (a top-level key with `start` and `dockerfile`)")
    return [_agent(str(id), value, file) for id, value in definitions.items()]


def _agent(id: str, values: Mapping[str, Any], file: Path) -> Agent:
    where = f"{file}: agent {id}"
    if extra := sorted(map(str, values.keys() - _KEYS)):
        raise AgentError(f"{where} has unknown keys {', '.join(extra)}")
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)*", id):
        raise AgentError(f"{where}: an id is made of letters, digits, '-', '_', '.', and '/' before a variant")
    agents = file.parents[1]
    start = agents / str(values["start"])
    if not start.is_file():
        raise AgentError(f"{where}: start script {start} does not exist")
    kwargs, env_vars = values.get("kwargs") or {}, values.get("env_vars") or {}
    if not isinstance(kwargs, dict) or not isinstance(env_vars, dict):
        raise AgentError(f"{where}: kwargs and env_vars must be mappings")
    kwargs_type = values.get("kwargs_type")
    if kwargs_type not in ("argparse", "omegaconf", None) or (kwargs and kwargs_type is None):
        raise AgentError(f"{where}: kwargs_type is {kwargs_type!r}, must be argparse or omegaconf")
    return Agent(
        id=id,
        folder=agents / Path(str(values["start"])).parts[0],
        start=start,
        dockerfile=agents / str(values.get("dockerfile") or f"{file.parent.name}/Dockerfile"),
        kwargs_type=kwargs_type,
        kwargs={str(key): value for key, value in kwargs.items()},
        env_vars={str(key): str(value) for key, value in env_vars.items()},
        privileged=bool(values.get("privileged", False)),
        trusted=bool(values.get("trusted", False)),
        llm_hosts=tuple(map(str, values.get("llm_hosts") or ())),
    )


def parse_agent_ids(registry: AgentRegistry, ids: list[str]) -> list[Agent]:
    """The agents of these ids, each once; raises UsageError for an unknown one."""
    if not all(ids):
        raise UsageError("an agent's id is empty")
    return [registry[id] for id in dict.fromkeys(ids)]
