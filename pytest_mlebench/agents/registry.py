"""Agents as ``agents/<name>/config.yaml`` defines them: found by id, read within bounds, checked, every error one line.

An agent's folder describes the agent and grants it nothing.
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
from pytest_mlebench.io.files import AnyPath, bundled, expanded
from pytest_mlebench.io.units import format_size, pluralize
from pytest_mlebench.io.values import LOADER, load_yaml

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
        with suppress(OSError, UnicodeDecodeError):
            if found := _VERSION.search(self.dockerfile.read_text(encoding="utf-8")):
                return found[1]
        return ""

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


_KEYS = {"start", "dockerfile", "kwargs_type", "kwargs", "env_vars", "privileged", "trusted", "llm_hosts", "base_image"}
_ANCHORS = {"vars", "defaults"}
_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)*")
_IMAGE = re.compile(r"[a-z0-9][\w.\-]*(:\d+)?(/[a-z0-9][\w.\-]*)*(:[\w][\w.\-]*)?(@sha256:[0-9a-f]{64})?")
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
    """The agents that a ``config.yaml`` defines; raises AgentError that names the file and the key."""
    values = _load(file)
    if not isinstance(values, dict):
        raise AgentError(f"{file}: must be a mapping of agent ids to definitions")
    definitions = {
        id: value for id, value in values.items() if isinstance(value, dict) and "start" in value and id not in _ANCHORS
    }
    if not definitions:
        raise AgentError(f"{file}: defines no agent (a top-level key with `start` and `dockerfile`)")
    return [_Definition(f"{file}: agent {_shown(id)}", value, file).agent(str(id)) for id, value in definitions.items()]


def _load(file: Path) -> Any:
    try:
        if (size := file.stat().st_size) > _MAX_BYTES:
            raise AgentError(f"{file}: has {size:,} bytes, may have {_MAX_BYTES:,}")
        text = file.read_text(encoding="utf-8")
        _check_size(file, text)
        return load_yaml(text)
    except yaml.YAMLError as error:
        raise AgentError(f"{file}: is not YAML: {' '.join(str(error).split())}") from error
    except (OSError, ValueError, ArithmeticError) as error:
        raise AgentError(f"{file}: cannot be read: {reason(error)}") from error


def _check_size(file: Path, text: str) -> None:
    """Count nodes and levels as they are once aliases are expanded, before anything is made of them.

    Of two equal keys a reader sees the first and YAML takes the last, so there may be none.
    """
    sizes: dict[str | None, int] = {}
    open_nodes: list[_OpenNode] = []
    nodes = 0
    for event in yaml.parse(text, Loader=LOADER):
        if isinstance(event, yaml.CollectionEndEvent):
            node = open_nodes.pop()
            sizes[node.anchor] = nodes - node.before
        elif isinstance(event, yaml.NodeEvent):
            if open_nodes and (key := open_nodes[-1].repeated(event)) is not None:
                line = f" (line {event.start_mark.line + 1})" if event.start_mark else ""
                raise AgentError(f"{file}: has the key {key[:60]!r} twice{line}")
            if isinstance(event, yaml.AliasEvent) and any(node.anchor == event.anchor for node in open_nodes):
                raise AgentError(f"{file}: the alias *{event.anchor} refers to what it is part of")
            if isinstance(event, yaml.CollectionStartEvent):
                keys: set[str] | None = set() if isinstance(event, yaml.MappingStartEvent) else None
                open_nodes.append(_OpenNode(event.anchor, nodes, keys))
            nodes += sizes.get(event.anchor, 1) if isinstance(event, yaml.AliasEvent) else 1
        if len(open_nodes) > _MAX_DEPTH:
            raise AgentError(f"{file}: has more than {_MAX_DEPTH} levels")
        if nodes > _MAX_NODES:
            raise AgentError(f"{file}: has more than {_MAX_NODES:,} values, aliases expanded")


@dataclass
class _OpenNode:
    """A list or a mapping whose end is still to come; ``before``: how many nodes came before it."""

    anchor: str | None
    before: int
    keys: set[str] | None
    """None: a list."""
    at_key: bool = True

    def repeated(self, node: yaml.NodeEvent) -> str | None:
        """Take in the next node in it; returns the key that it is, if the mapping has that already."""
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
    """One agent's definition, being checked. ``where`` begins every error."""

    def __init__(self, where: str, values: Mapping[Any, Any], file: Path) -> None:
        self._where, self._values, self._file = where, values, file

    def agent(self, id: str) -> Agent:
        if extra := sorted(map(_shown, self._values.keys() - _KEYS)):
            raise AgentError(f"{self._where} has unknown keys {', '.join(extra)}; known are {', '.join(sorted(_KEYS))}")
        if not _ID.fullmatch(id) or len(id) > _MAX_ID or any(set(part) == {"."} for part in id.split("/")):
            raise AgentError(f"{self._where}: an id is made of letters, digits, '-', '_', '.', '/' before a variant")
        for key, value in self._values.items():
            self._check_kind(str(key), value)
        agents = self._file.parents[1]
        start = self._path("start", "")
        if len(start.parts) < 2:
            raise AgentError(f"{self._where}: start is {str(start)!r}, must be <folder>/<script>")
        if not (agents / start).is_file():
            what = "is a folder" if (agents / start).is_dir() else "does not exist"
            raise AgentError(f"{self._where}: start script {agents / start} {what}")
        for key, (is_right, must) in _FORMS.items():
            if key in self._values and not is_right(self._values[key]):
                raise AgentError(f"{self._where}: {key} is {_kind(self._values[key])}{must}")
        kwargs = {str(name): value for name, value in (self._values.get("kwargs") or {}).items()}
        env_vars = {str(name): value for name, value in (self._values.get("env_vars") or {}).items()}
        kwargs_type = self._values.get("kwargs_type")
        if kwargs_type not in ("argparse", "omegaconf", None) or (kwargs and kwargs_type is None):
            raise AgentError(f"{self._where}: kwargs_type is {kwargs_type!r}, must be argparse or omegaconf")
        for name, value in env_vars.items():
            if not _VARIABLE.fullmatch(name):
                raise AgentError(f"{self._where}: env_vars: {name!r} is not the name of a variable")
            if not isinstance(value, str | int | float | bool):
                raise AgentError(f"{self._where}: env_vars: {name} is {_kind(value)}, must be text or a number")
        for name, value in [*kwargs.items(), *env_vars.items()]:
            if "\0" in f"{name}{value}":
                raise AgentError(f"{self._where}: {_shown(name)} holds a zero byte")
            if (at := SECRET.sub("", str(value)).find("${{")) >= 0:
                text = SECRET.sub("", str(value))[at : at + 60]
                raise AgentError(f"{self._where}: {name}: {text!r} must be of the form ${{{{ secrets.NAME }}}}")
        for name, value in kwargs.items():
            if found := SECRET.search(str(value)):
                raise AgentError(
                    f"{self._where}: kwargs: {name} asks for the secret {found[1]}, which everybody could read in the "
                    "list of processes: ask for it in env_vars"
                )
        folder = agents / start.parts[0]
        dockerfile = agents / self._path("dockerfile", f"{self._file.parent.name}/Dockerfile")
        return Agent(
            id=id,
            folder=folder,
            start=agents / start,
            dockerfile=dockerfile,
            bundled=all(map(_comes_with_the_package, (self._file, folder, agents / start, dockerfile))),
            kwargs_type=kwargs_type,
            kwargs=kwargs,
            env_vars={name: str(value) for name, value in env_vars.items()},
            privileged=self._values.get("privileged", False),
            trusted=self._values.get("trusted", False),
            llm_hosts=tuple(self._values.get("llm_hosts") or ()),
            base_image=self._values.get("base_image"),
        )

    def _path(self, key: str, default: str) -> PurePosixPath:
        """A file below the folder of all agents, also once links are followed."""
        value = self._values.get(key) or default
        agents = self._file.parents[1]
        if not isinstance(value, str):
            raise AgentError(f"{self._where}: {key} is {_kind(value)}, must be a path from the agents' folder")
        path = PurePosixPath(value)
        if path.is_absolute() or ".." in path.parts or not value.isprintable() or len(value) > _MAX_PATH:
            raise AgentError(
                f"{self._where}: {key} is {value!r:.100}, must be a path inside the agents' folder {agents}"
            )
        folder = agents / path.parts[0] if path.parts else agents
        if _leaves(agents / path, folder):
            raise AgentError(f"{self._where}: {key} {value!r:.100} is a link that leaves the agent's folder {folder}")
        return path

    def _check_kind(self, key: str, value: Any) -> None:
        """That a value is text, a number, a truth value, nothing, or a list or mapping of such."""
        if isinstance(value, dict):
            for name, entry in value.items():
                self._check_kind(f"{key}.{_shown(name)}", entry)
        elif isinstance(value, list):
            for entry in value:
                self._check_kind(key, entry)
        elif isinstance(value, int) and not -_MAX_INTEGER < value < _MAX_INTEGER:
            raise AgentError(f"{self._where}: {key} is a number of more than 64 bits: write it in quotes")
        elif not isinstance(value, str | int | float | None):
            raise AgentError(f"{self._where}: {key} is a {type(value).__name__}: write it in quotes, as text")


def _are_texts(value: Any) -> bool:
    return value is None or (isinstance(value, list) and all(isinstance(entry, str) for entry in value))


def _is_image(value: Any) -> bool:
    return value is None or (isinstance(value, str) and _IMAGE.fullmatch(value) is not None)


_FORMS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "kwargs": (lambda value: isinstance(value, dict | None), "; kwargs and env_vars must be mappings"),
    "env_vars": (lambda value: isinstance(value, dict | None), "; kwargs and env_vars must be mappings"),
    "privileged": (lambda value: isinstance(value, bool), ", must be true or false, without quotes"),
    "trusted": (lambda value: isinstance(value, bool), ", must be true or false, without quotes"),
    "llm_hosts": (_are_texts, ", must be a list of texts: [api.example.com]"),
    "base_image": (_is_image, ", must name an image: debian:trixie-slim"),
}


def _shown(key: Any) -> str:
    """A key in one line, whatever is in it."""
    try:
        text = str(key)
    except ValueError:  # a number of thousands of digits
        return "of a huge number"
    return text if text.isprintable() and len(text) <= _MAX_ID else ascii(text[:_MAX_ID])


def _kind(value: Any) -> str:
    kinds = {str: "the text", list: "a list", dict: "a mapping", bool: "the truth value"}
    kind = next((word for kind, word in kinds.items() if isinstance(value, kind)), "the value")
    return f"{kind} {value!r:.60}"


def _leaves(path: Path, folder: Path) -> bool:
    """Whether a path leads out of a folder, once links are followed, or nowhere, as links in a circle do."""
    try:
        end = path.resolve()
    except (OSError, RuntimeError):  # in a circle: a RuntimeError before Python 3.13, and then the link itself
        return True
    return end.is_symlink() or not end.is_relative_to(folder.resolve())


def _comes_with_the_package(path: Path) -> bool:
    return path.resolve().is_relative_to(bundled("agents").resolve())


def _check_line_ends(agent: Agent) -> None:
    """Raise AgentError for a start script with Windows line ends, which bash takes as part of a line's last word."""
    with suppress(OSError), agent.start.open("rb") as file:
        if file.readline(_MAX_BYTES).endswith(b"\r\n"):
            raise AgentError(
                f"agent {agent.id}: {agent.start} has Windows line ends (CR LF), with which it writes files of other "
                f"names, if it runs at all: sed -i 's/\\r$//' {agent.start}"
            )


def check_folder(agent: Agent) -> None:
    """Raises AgentError if a link in the agent's folder leads out of it: it would take other files along."""
    folder = agent.folder
    files = size = 0
    for place, folders, names in os.walk(folder):
        depth = len(Path(place).relative_to(folder).parts)
        for path in (Path(place, name) for name in (*folders, *names)):
            try:
                about = path.lstat()
            except OSError as error:
                raise AgentError(f"agent {agent.id}: {path} cannot be read: {reason(error)}") from error
            if path.is_symlink() and _leaves(path, folder):
                raise AgentError(f"agent {agent.id}: {path} is a link that leaves the agent's folder: copy it")
            if not (stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode) or stat.S_ISLNK(about.st_mode)):
                raise AgentError(f"agent {agent.id}: {path} is neither a file nor a folder nor a link: remove it")
            files += 1
            size += about.st_size if stat.S_ISREG(about.st_mode) else 0  # not its blocks: what reads it gets the zeros
            if files > _MAX_FILES or size > _MAX_FOLDER_BYTES or depth > _MAX_FOLDER_DEPTH:
                raise AgentError(
                    f"agent {agent.id}: its folder {folder} is too large: it may have {_MAX_FILES:,} files, "
                    f"{format_size(_MAX_FOLDER_BYTES)} and {_MAX_FOLDER_DEPTH} levels; let the Dockerfile fetch more"
                )
    _check_line_ends(agent)
    for name, file in (("start", agent.start), ("dockerfile", agent.dockerfile)):
        if name == "start" and _leaves(file, folder):
            raise AgentError(f"agent {agent.id}: its start script {file} lies outside of its folder {folder}")
        if file.exists() and not file.is_file():
            raise AgentError(f"agent {agent.id}: {file} is not a file; remove it, or name another {CONFIG} {name}")


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
