"""Finds and validates agents, as ``agents/<name>/config.yaml`` defines them. Every error is one line.

An agent's folder describes the agent, but cannot give it permissions.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import yaml

from pytest_mlebench.catalog.catalogue import unknown
from pytest_mlebench.errors import AgentError, UsageError, expect, reason
from pytest_mlebench.io.files import AnyPath, bundled, expanded, read_regular
from pytest_mlebench.io.units import format_size, pluralize
from pytest_mlebench.io.values import LOADER, load_yaml

CONFIG = "config.yaml"
MIN_SECRET = 8
"""Minimum length of a secret. Shorter values cannot be removed from records without damaging them."""
SECRET = re.compile(r"\$\{\{\s*secrets\.([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")

_ASKS = re.compile(r"\bUNTIL\b|\bask\.sh\b")
_VERSION = re.compile(r"^ARG VERSION=(\S+)", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Agent:
    """A scaffold with a model, as one top-level key of a ``config.yaml`` defines it.

    ``start`` and ``dockerfile`` are paths. ``env_vars`` may contain ``${{ secrets.NAME }}``; ``launch`` fills in the
    values. ``trusted``, ``llm_hosts`` and secrets are requests: ``Permissions`` decides what the agent gets.
    ``bundled`` agents come with the package, and get what they request, except for keys. ``base_image`` is the image
    that its ``mlebench-env`` is built from; None for the default.

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
        """The names of all secrets that the definition requests."""
        return tuple(sorted({name for text in self.env_vars.values() for name in SECRET.findall(text)}))

    @property
    def version(self) -> str:
        """The version of the agent's program, from the line ``ARG VERSION=…`` of its Dockerfile; empty without it."""
        with suppress(OSError, ValueError):
            if found := _VERSION.search(read_regular(self.dockerfile, _MAX_BYTES)):
                return found[1]
        return ""

    @property
    def models(self) -> tuple[str, ...]:
        """The models in its arguments: the values of ``model`` and of keys that end with ``.model``."""
        named = (str(value) for name, value in self.kwargs.items() if name.rpartition(".")[2] == "model")
        return tuple(dict.fromkeys(named))

    @property
    def may_ask_models(self) -> bool:
        """Whether its definition has anything that may refer to a language model: a secret, a host or a URL."""
        return bool(self.secret_names or self.llm_hosts) or any("://" in value for value in self.env_vars.values())

    @property
    def reads_until(self) -> bool:
        """Whether a file in its folder may support ``--until``: it contains ``UNTIL``, or ``ask.sh``, which does."""
        for file in self.folder.iterdir():
            with suppress(OSError, ValueError):
                if _ASKS.search(read_regular(file, _MAX_BYTES)):
                    return True
        return False

    def launch(self, environment: Mapping[str, str] | None = None) -> Launch:
        """Return the arguments and variables to start the agent, with the secrets from ``environment`` (default: none).

        Raises an AgentError that names the missing secrets, or a secret that is too short.
        """
        environment = environment or {}
        names = self.secret_names
        if missing := sorted(name for name in names if not environment.get(name)):
            values = " ".join(f"{name}=…" for name in missing)
            raise AgentError(f"agent {self.id} needs {', '.join(missing)} in the environment: export {values}")

        for name in names:
            if (length := len(environment[name])) < MIN_SECRET:
                raise AgentError(
                    f"agent {self.id}: the secret {name} has {pluralize(length, 'character')}, but needs at least "
                    f"{MIN_SECRET}: shorter ones cannot be kept out of logs. If it is not secret, write it in {CONFIG}"
                )

        if self.kwargs_type == "omegaconf":
            arguments = [f"{key}={value}" for key, value in self.kwargs.items()]
        else:
            arguments = [word for key, value in self.kwargs.items() for word in (f"--{key}", str(value))]
        return Launch(
            arguments=tuple(arguments),
            environment={
                key: SECRET.sub(lambda match: environment[match[1]], value) for key, value in self.env_vars.items()
            },
            secrets=frozenset(environment[name] for name in names),
        )

    def describe(self) -> dict[str, Any]:
        """Return the definition for a record, with secrets only by name."""
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
    """Arguments and variables for an agent's start script, and the secret values in them (never log these)."""

    arguments: tuple[str, ...] = field(default=(), repr=False)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: frozenset[str] = field(default=frozenset(), repr=False)


@dataclass(frozen=True, kw_only=True)
class Permissions:
    """The user's permissions for agents. The default permits nothing.

    ``allow_secrets`` names environment variables; agents that request one get its real value. ``allow_hosts`` lists
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
        """Raise AgentError if an agent requests secrets that were not granted.

        ``replaced`` are the names of secrets that the gateway replaces with a token of the run.
        """
        if missing := sorted({*agent.secret_names} - {*replaced, *self.allow_secrets}):
            options = " ".join(f"--allow-secret={name}" for name in missing)
            raise AgentError(
                f"agent {agent.id} requests the secret{'s' * (len(missing) > 1)} {', '.join(missing)}, which you "
                f"have not granted: {options} gives it the real value (in Python: "
                f"Permissions(allow_secrets={missing!r}))"
            )

    def trusts(self, agent: Agent) -> bool:
        """Return whether an agent may run without isolation. Bundled ones may if their definition says so."""
        return agent.id in self.trust_agents or (agent.bundled and agent.trusted)

    def to_json(self) -> dict[str, list[str]]:
        return {name: list(given) for name, given in asdict(self).items() if given}


_KEYS = {"start", "dockerfile", "kwargs_type", "kwargs", "env_vars", "privileged", "trusted", "llm_hosts", "base_image"}
_ANCHORS = {"vars", "defaults"}
_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)*")
_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
IMAGE = re.compile(
    rf"(?P<repository>{_PART}(?::[0-9]+(?=/))?(?:/{_PART})*)(?::\w[\w.-]{{0,127}})?(?:@sha256:[0-9a-f]{{64}})?",
    re.ASCII,
)
"""The name of an image: Docker's grammar of references, without the other digests and upper-case hosts."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MAX_ID = 200
_MAX_PATH = 200
_MAX_INTEGER = 1 << 64
_MAX_BYTES = 1 << 20
_MAX_NODES = 20_000
_MAX_DEPTH = 20
_MAX_FILES = 20_000
_MAX_FOLDER_BYTES = 1 << 30
_MAX_FOLDER_DEPTH = 50


def read_config(file: Path) -> list[Agent]:
    """Return the agents that a ``config.yaml`` defines. Raises an AgentError that names the file and the key."""
    values = _load(file)
    if not isinstance(values, dict):
        raise AgentError(f"{file}: must be a mapping of agent ids to definitions")
    definitions = {
        id: value for id, value in values.items() if isinstance(value, dict) and "start" in value and id not in _ANCHORS
    }
    if not definitions:
        raise AgentError(f"{file}: defines no agent (a top-level key with `start` and `dockerfile`)")
    return [_Definition(f"{file}: agent {_plain(id)}", value, file).agent(str(id)) for id, value in definitions.items()]


def _load(file: Path) -> Any:
    try:
        text = read_regular(file, _MAX_BYTES)
        _check_size(file, text)
        return load_yaml(text)
    except yaml.YAMLError as error:
        raise AgentError(f"{file}: is not YAML: {' '.join(str(error).split())}") from error
    except (OSError, ValueError, ArithmeticError) as error:
        raise AgentError(f"{file}: cannot be read: {reason(error)}") from error


def _check_size(file: Path, text: str) -> None:
    """Limit the nodes and levels of a file, with aliases expanded, before it is parsed into objects.

    Also reject duplicate keys: a reader sees the first, but YAML takes the last.
    """
    sizes: dict[str | None, int] = {}
    open_nodes: list[_OpenNode] = []
    nodes = 0
    for event in yaml.parse(text, Loader=LOADER):
        if isinstance(event, yaml.CollectionEndEvent):
            node = open_nodes.pop()
            sizes[node.anchor] = nodes - node.before
        elif isinstance(event, yaml.NodeEvent):
            if open_nodes and (key := open_nodes[-1].duplicate(event)) is not None:
                line = f" (line {event.start_mark.line + 1})" if event.start_mark else ""
                raise AgentError(f"{file}: has the key {key[:60]!r} twice{line}")
            if isinstance(event, yaml.AliasEvent) and any(node.anchor == event.anchor for node in open_nodes):
                raise AgentError(f"{file}: the alias *{event.anchor} refers to a value that contains it")
            if isinstance(event, yaml.CollectionStartEvent):
                keys: set[str] | None = set() if isinstance(event, yaml.MappingStartEvent) else None
                open_nodes.append(_OpenNode(event.anchor, nodes, keys))
            nodes += sizes.get(event.anchor, 1) if isinstance(event, yaml.AliasEvent) else 1
        if len(open_nodes) > _MAX_DEPTH:
            raise AgentError(f"{file}: has more than {_MAX_DEPTH} levels")
        if nodes > _MAX_NODES:
            raise AgentError(f"{file}: has more than {_MAX_NODES:,} values with aliases expanded")


@dataclass
class _OpenNode:
    """A list or mapping that has not ended yet. ``before`` is the number of nodes before it."""

    anchor: str | None
    before: int
    keys: set[str] | None
    """None for a list."""
    at_key: bool = True

    def duplicate(self, node: yaml.NodeEvent) -> str | None:
        """Add the next node. Returns its key if the mapping already has it."""
        if self.keys is None:
            return None
        is_key, self.at_key = self.at_key, not self.at_key
        if not is_key or not isinstance(node, yaml.ScalarEvent) or node.value == "<<":
            return None
        key: str = node.value
        found = key if key in self.keys else None
        self.keys.add(key)
        return found


class _Definition:
    """Validates one agent's definition. Every error begins with ``where``."""

    def __init__(self, where: str, values: Mapping[Any, Any], file: Path) -> None:
        self._where, self._values, self._file = where, values, file

    def agent(self, id: str) -> Agent:
        if extra := sorted(map(_plain, self._values.keys() - _KEYS)):
            raise AgentError(f"{self._where} has unknown keys {', '.join(extra)}; known: {', '.join(sorted(_KEYS))}")
        if not _ID.fullmatch(id) or len(id) > _MAX_ID or any(set(part) == {"."} for part in id.split("/")):
            form = f"an id consists of up to {_MAX_ID} letters, digits, '-', '_', '.', '/' before a variant"
            raise AgentError(f"{self._where}: {form}")
        for key, value in self._values.items():
            self._check_type(str(key), value)
        agents = self._file.parents[1]
        start = self._path("start", "")
        if len(start.parts) < 2:
            raise AgentError(f"{self._where}: start must be <folder>/<script>, not {str(start)!r}")
        if not (agents / start).is_file():
            what = "is a folder" if (agents / start).is_dir() else "does not exist"
            raise AgentError(f"{self._where}: start script {agents / start} {what}")
        for key, (is_valid, expected) in _FORMS.items():
            if key in self._values and not is_valid(self._values[key]):
                raise AgentError(f"{self._where}: {key} must be {expected}, not {_described(self._values[key])}")
        kwargs = {str(name): value for name, value in (self._values.get("kwargs") or {}).items()}
        env_vars = {str(name): value for name, value in (self._values.get("env_vars") or {}).items()}
        kwargs_type = self._values.get("kwargs_type")
        if kwargs_type not in ("argparse", "omegaconf", None) or (kwargs and kwargs_type is None):
            raise AgentError(f"{self._where}: kwargs_type must be argparse or omegaconf, not {kwargs_type!r}")
        for name, value in env_vars.items():
            if not _VARIABLE.fullmatch(name):
                raise AgentError(f"{self._where}: env_vars: {name!r} is not a valid variable name")
            if not isinstance(value, str | int | float | bool):
                raise AgentError(f"{self._where}: env_vars: {name} must be a string or number, not {_described(value)}")
        for name, value in [*kwargs.items(), *env_vars.items()]:
            if "\0" in f"{name}{value}":
                raise AgentError(f"{self._where}: {_plain(name)} contains a NUL character")
            if (at := SECRET.sub("", str(value)).find("${{")) >= 0:
                text = SECRET.sub("", str(value))[at : at + 60]
                raise AgentError(f"{self._where}: {name}: {text!r} must be of the form ${{{{ secrets.NAME }}}}")
        for name, value in kwargs.items():
            if found := SECRET.search(str(value)):
                raise AgentError(
                    f"{self._where}: kwargs: {name} requests the secret {found[1]}, which would be visible in the "
                    "list of processes: request it in env_vars"
                )
        folder = agents / start.parts[0]
        dockerfile = agents / self._path("dockerfile", f"{self._file.parent.name}/Dockerfile")
        return Agent(
            id=id,
            folder=folder,
            start=agents / start,
            dockerfile=dockerfile,
            bundled=all(map(_is_bundled, (self._file, folder, agents / start, dockerfile))),
            kwargs_type=kwargs_type,
            kwargs=kwargs,
            env_vars={name: str(value) for name, value in env_vars.items()},
            privileged=self._values.get("privileged", False),
            trusted=self._values.get("trusted", False),
            llm_hosts=tuple(self._values.get("llm_hosts") or ()),
            base_image=self._values.get("base_image"),
        )

    def _path(self, key: str, default: str) -> PurePosixPath:
        """Return the path of a file in the agents' folder. Raises AgentError if it leaves the agent's folder."""
        value = self._values.get(key) or default
        agents = self._file.parents[1]
        if not isinstance(value, str):
            raise AgentError(f"{self._where}: {key} must be a path in the agents' folder, not {_described(value)}")
        path = PurePosixPath(value)
        if path.is_absolute() or ".." in path.parts or not value.isprintable() or len(value) > _MAX_PATH:
            raise AgentError(
                f"{self._where}: {key} must be a path inside the agents' folder {agents}, not {value!r:.100}"
            )
        folder = agents / path.parts[0] if path.parts else agents
        if _leads_outside(agents / path, folder):
            raise AgentError(f"{self._where}: {key} {value!r:.100} is a link that leaves the agent's folder {folder}")
        return path

    def _check_type(self, key: str, value: Any) -> None:
        """Raise AgentError unless a value is a string, number, boolean, null, or a list or mapping of these."""
        if isinstance(value, dict):
            for name, entry in value.items():
                self._check_type(f"{key}.{_plain(name)}", entry)
        elif isinstance(value, list):
            for entry in value:
                self._check_type(key, entry)
        elif isinstance(value, int) and not -_MAX_INTEGER < value < _MAX_INTEGER:
            raise AgentError(f"{self._where}: {key} is a number with more than 64 bits: write it in quotes")
        elif not isinstance(value, str | int | float | None):
            raise AgentError(f"{self._where}: {key} is a {type(value).__name__}: write it in quotes, as a string")


def _are_strings(value: Any) -> bool:
    return value is None or (isinstance(value, list) and all(isinstance(entry, str) for entry in value))


def _is_image(value: Any) -> bool:
    return value is None or (isinstance(value, str) and IMAGE.fullmatch(value) is not None)


_FORMS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "kwargs": (lambda value: isinstance(value, dict | None), "a mapping"),
    "env_vars": (lambda value: isinstance(value, dict | None), "a mapping"),
    "privileged": (lambda value: isinstance(value, bool), "true or false without quotes"),
    "trusted": (lambda value: isinstance(value, bool), "true or false without quotes"),
    "llm_hosts": (_are_strings, "a list of strings, such as [api.example.com]"),
    "base_image": (_is_image, "the name of an image, such as debian:trixie-slim"),
}


def _plain(key: Any) -> str:
    """Return a key as one printable line."""
    try:
        text = str(key)
    except ValueError:  # a number of thousands of digits
        return "a huge number"
    return text if text.isprintable() and len(text) <= _MAX_ID else ascii(text[:_MAX_ID])


def _described(value: Any) -> str:
    kinds = {str: "the string", list: "the list", dict: "the mapping", bool: "the boolean"}
    kind = next((name for kind, name in kinds.items() if isinstance(value, kind)), "the value")
    return f"{kind} {value!r:.60}"


def _leads_outside(path: Path, folder: Path) -> bool:
    """Return whether a path leads out of a folder after links are resolved, or is a cycle of links."""
    try:
        target = path.resolve()
    except (OSError, RuntimeError):  # a cycle, before Python 3.13; later versions return the link itself
        return True
    return target.is_symlink() or not target.is_relative_to(folder.resolve())


def _is_bundled(path: Path) -> bool:
    return path.resolve().is_relative_to(bundled("agents").resolve())


def _check_line_ends(agent: Agent) -> None:
    """Raise AgentError for a start script with Windows line endings, which bash appends to the last word of a line."""
    with suppress(OSError), agent.start.open("rb") as file:
        if file.readline(_MAX_BYTES).endswith(b"\r\n"):
            raise AgentError(
                f"agent {agent.id}: {agent.start} has Windows line endings (CR LF), so it may fail or write files "
                f"with wrong names: sed -i 's/\\r$//' {agent.start}"
            )


def check_folder(agent: Agent) -> None:
    """Raise AgentError if the agent's folder is too large, or has special files or links that would add other files."""
    folder = agent.folder
    files = size = 0
    for parent, folders, names in os.walk(folder):
        depth = len(Path(parent).relative_to(folder).parts)
        for path in (Path(parent, name) for name in (*folders, *names)):
            try:
                status = path.lstat()
            except OSError as error:
                raise AgentError(f"agent {agent.id}: {path} cannot be read: {reason(error)}") from error
            if path.is_symlink() and _leads_outside(path, folder):
                raise AgentError(f"agent {agent.id}: {path} is a link that leaves the agent's folder: copy it")
            if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode) or stat.S_ISLNK(status.st_mode)):
                raise AgentError(f"agent {agent.id}: {path} is neither a file nor a folder nor a link: remove it")
            files += 1
            size += status.st_size if stat.S_ISREG(status.st_mode) else 0  # not its blocks: copies may not be sparse
            if files > _MAX_FILES or size > _MAX_FOLDER_BYTES or depth > _MAX_FOLDER_DEPTH:
                raise AgentError(
                    f"agent {agent.id}: its folder {folder} is too large: the limits are {_MAX_FILES:,} files, "
                    f"{format_size(_MAX_FOLDER_BYTES)} and {_MAX_FOLDER_DEPTH} levels; fetch more in the Dockerfile"
                )
    _check_line_ends(agent)
    for name, file in (("start", agent.start), ("dockerfile", agent.dockerfile)):
        if name == "start" and _leads_outside(file, folder):
            raise AgentError(f"agent {agent.id}: its start script {file} is outside of its folder {folder}")
        if file.exists() and not file.is_file():
            raise AgentError(f"agent {agent.id}: {file} is not a file; remove it, or name another {CONFIG} {name}")


_HINT = f"Your own agent is a folder NAME with a {CONFIG} that defines it; --agents-dir=DIR adds its parent folder"


class AgentRegistry:
    """The agents in folders of the form ``agents/<name>/config.yaml``; later folders take precedence.

    Raises UsageError for a folder without agents.

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
        """Return all agents by id. Raises an AgentError that names the file and the key."""
        return {agent.id: agent for file in self.files for agent in read_config(file)}

    def __getitem__(self, id: str) -> Agent:
        """Return an agent. Raises UsageError with close matches if its id is unknown."""
        expect(id, str, "an agent's id", "as in default_agents()['baseline']")
        for file in reversed(self.files):
            for agent in read_config(file) if _may_define(file, id) else ():
                if agent.id == id:
                    return agent
        raise unknown("agent", id, self.load(), advice=_HINT)


def _may_define(file: Path, id: str) -> bool:
    """Whether a file mentions an id; if it cannot be read, whether its folder has the id's name."""
    try:
        return id in read_regular(file, _MAX_BYTES)
    except (OSError, ValueError):
        return file.parent.name == id.split("/")[0]


def _configs(folder: Path) -> list[Path]:
    if found := sorted(folder.glob(f"*/{CONFIG}")):
        return found
    if (folder / CONFIG).is_file():
        raise UsageError(f"agents folder {folder} is an agent's own folder: give its parent folder")
    raise UsageError(f"agents folder {folder} has no agent (a folder with {CONFIG})")


def default_agents(*folders: AnyPath) -> AgentRegistry:
    """Return the agents that come with the package, and those of ``folders``, which take precedence.

    >>> default_agents()["aide"].llm_hosts
    ('api.openai.com',)
    """
    return AgentRegistry(bundled("agents"), *folders)


def parse_agent_ids(registry: AgentRegistry, ids: list[str]) -> list[Agent]:
    """Return the agents with these ids, without duplicates. Raises UsageError for an unknown id."""
    if not all(ids):
        raise UsageError("an agent's id is empty")
    return [registry[id] for id in dict.fromkeys(ids)]
