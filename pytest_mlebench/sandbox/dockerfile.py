"""Dockerfiles: what they may use (the agent's folder and base images), and the recipes of images.

A Dockerfile comes from an agent, so it is checked here before it is built. Anything that builders could parse
differently, and anything not listed here, is rejected with its line. If a build's network is limited, the container
runtime itself must not fetch anything either: its downloads ignore the network of the build's containers.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal, Protocol

from docker.utils.build import Pattern, PatternMatcher, create_archive
from docker.utils.fnmatch import translate

from pytest_mlebench.agents.registry import IMAGE, Agent
from pytest_mlebench.errors import SandboxError, reason
from pytest_mlebench.io.files import read_regular
from pytest_mlebench.io.locks import hold_lock
from pytest_mlebench.io.progress import Reporter
from pytest_mlebench.sandbox.wiring import CONTAINER_DIRS

_ESCAPE = re.compile(r"#[ \t]*escape[ \t]*=[ \t]*([`\\])[ \t]*", re.IGNORECASE)
_DIRECTIVE = re.compile(r"#\s*(?P<name>\w+)\s*=\s*(?P<value>.*)")
_ODD = re.compile(r"[^\S\t ]|[\x00-\x08\x0e-\x1f\x7f-\x9f]")
"""Control characters, and white space other than tabs and spaces. Builders disagree on which of it they strip."""
_SYNTAX = re.compile(r"(docker\.io/)?docker/dockerfile(:[\w.-]+)?")
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})")
_ARGUMENT = re.compile(r"""([A-Za-z_]\w*)(?:=("[^"'\\]*"|'[^"'\\]*'|[^"'\\]*))?""", re.ASCII)
_STAGE = re.compile(r"[A-Za-z][\w.-]*", re.ASCII)
_HERE_DOCUMENT = re.compile(r"""(?<![<\w])\d*<<-?["']?[A-Za-z_]|(?<!\S)\d*<<-?\s*[^\s<]*["'\\`#]""")
"""Also one whose end would be a comment here, or continue on the next line, but not ``1 << 2``."""
_MAX_NAME = 500
_REGISTRIES = ("docker.io", "ghcr.io", "quay.io", "gcr.io", "mcr.microsoft.com", "nvcr.io", "public.ecr.aws")
_TRANSPORTS = ("containers-storage", "dir", "docker", "docker-archive", "docker-daemon", "oci", "oci-archive", "sif")
"""Prefixes (before a colon) that make Podman's builder look for an image in local files."""
_FLAGS = {
    "FROM": ("--platform",),
    "COPY": ("--from", "--chown", "--chmod", "--link", "--exclude", "--parents"),
    "ADD": ("--chown", "--chmod", "--link", "--exclude", "--checksum", "--keep-git-dir"),
    "RUN": ("--mount",),
    "HEALTHCHECK": ("--interval", "--timeout", "--start-period", "--start-interval", "--retries"),
}
_MOUNT_OPTIONS = frozenset("type from source src target dst destination ro rw readonly readwrite size".split())
_INSTRUCTIONS = frozenset(
    "ADD ARG CMD COPY ENTRYPOINT ENV EXPOSE FROM HEALTHCHECK LABEL MAINTAINER ONBUILD RUN SHELL STOPSIGNAL USER VOLUME "
    "WORKDIR".split()
)


class LocalImages(Protocol):
    """What the container runtime knows about its local images."""

    def triggers(self, image: str) -> Sequence[str] | None:
        """Return the ``ONBUILD`` instructions of an image; None if there is no such local image."""

    def registries(self, image: str) -> Collection[str]:
        """Return the names of a local image in registries; none if it was built on this machine."""


@dataclass(frozen=True)
class Instruction:
    """One instruction: its name in capitals, the rest with continuation lines joined, and its first line's number."""

    name: str
    rest: str
    line: int


def instructions(text: str) -> Iterator[Instruction]:
    lines = _lines(text)
    escape, whole, start = _escape(lines), "", 0
    for number, line in enumerate(lines, 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        start = start if whole else number
        ended = line.rstrip()
        if ended.endswith(escape):
            whole += ended.removesuffix(escape)
            continue
        yield _instruction(whole + line, start)
        whole = ""
    if whole.strip():
        yield _instruction(whole, start)


def _lines(text: str) -> list[str]:
    """Split lines as builders do. Python's ``splitlines`` splits at more characters."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")


def _escape(lines: Sequence[str]) -> str:
    match = _ESCAPE.fullmatch(lines[0])
    return match[1] if match else "\\"


def _instruction(text: str, line: int) -> Instruction:
    name, _, rest = text.strip().replace("\t", " ").partition(" ")
    return Instruction(name.upper(), rest.strip(), line)


@dataclass
class Rules:
    """What Dockerfiles may use. ``own`` are images allowed by name. ``fetching``: the container runtime may fetch."""

    images: LocalImages
    own: Collection[str] = ()
    fetching: bool = True

    def check(self, text: str) -> None:
        """Check a Dockerfile. Raises SandboxError with the line of the first violation."""
        _check_lines(_lines(text))
        checking = _Checking(self)
        for instruction in instructions(text):
            try:
                checking.check(instruction)
            except SandboxError as error:
                raise SandboxError(f"line {instruction.line}: {error}") from None

    def check_base_image(self, agent: Agent) -> None:
        """Raises SandboxError if an agent may not be built from the base image that it names."""
        if agent.base_image and not agent.bundled:  # bundled agents may use any base image
            try:
                _Checking(self).check_image(agent.base_image, "base_image")
            except SandboxError as error:
                raise SandboxError(f"agent {agent.id}: {error}") from None


def _check_lines(lines: Sequence[str]) -> None:
    """Raises SandboxError for a line that builders could join to others, or split, in different ways."""
    escape = _escape(lines)
    for number, line in enumerate(lines, 1):
        problem = ""
        if not line.lstrip(" \t").startswith("#"):
            problem = _odd_character(line)
            if line.rstrip().endswith(escape * 2):
                problem = f"it ends with {escape * 2}, which not every builder joins with the next line: remove it"
        elif match := _DIRECTIVE.fullmatch(line.strip()):
            name = match["name"].lower()
            if name == "syntax" and not _SYNTAX.fullmatch(match["value"]):
                problem = f"syntax={match['value']!r:.200} would make another program parse this file: remove it"
            if name == "escape" and not (number == 1 and _ESCAPE.fullmatch(line)):
                problem = "builders read this escape directive differently: use `# escape=` and a character on line 1"
        if problem:
            raise SandboxError(f"line {number}: {problem}")


def _odd_character(text: str) -> str:
    match = _ODD.search(text)
    return f"builders read the character {match[0]!r} differently: remove it" if match else ""


@dataclass
class _Checking:
    """The state while one Dockerfile is checked, from top to bottom."""

    rules: Rules
    stages: int = 0
    stage: str = ""
    """The name of the last stage. Until it is complete, this means an image."""
    names: set[str] = field(default_factory=lambda: {"scratch"})
    """What is not an image: the names of complete stages. Docker ignores their case, Podman does not."""
    arguments: dict[str, str] = field(default_factory=dict)
    """Build arguments before the first ``FROM``. Only these apply in a ``FROM``."""

    def check(self, instruction: Instruction) -> None:
        name, rest = instruction.name, instruction.rest
        if name not in _INSTRUCTIONS:
            raise SandboxError(f"{name[:50]!r} is not an instruction of a Dockerfile")
        if not self.stages and name not in ("ARG", "FROM"):
            raise SandboxError(f"there must be a FROM before {name}")
        if name in ("RUN", "COPY", "ADD") and _HERE_DOCUMENT.search(rest):
            raise SandboxError(f"{name} has a here-document, which not every builder supports: COPY a file instead")
        flags, words = _words(rest)
        for flag in flags:
            if flag.partition("=")[0] not in _FLAGS.get(name, ()):
                raise SandboxError(f"{name} {flag!r:.200} is not supported")
            if re.search(r"""["'\\`]""", flag):  # builders may find its end, and other flags, after a space
                raise SandboxError(f"{name} {flag!r:.200}: write it without quotes and escapes")
        match name:
            case "FROM":
                self._check_stage(words)
            case "ARG" if not self.stages:
                self._check_arguments(words)
            case "COPY":
                for flag in flags:
                    if flag.startswith("--from"):
                        self._check_from(flag.partition("=")[2], "COPY")
            case "RUN":
                for flag in flags:
                    self._check_mount(flag.partition("=")[2])
            case "ADD":
                if not self.rules.fetching:
                    _check_add(words)
            case "ONBUILD":
                self._check_trigger(_instruction(rest, instruction.line))

    def _check_arguments(self, words: Sequence[str]) -> None:
        for word in words:
            match = _ARGUMENT.fullmatch(word)
            if match is None or match[1] in self.arguments:
                raise SandboxError(f"ARG {word!r:.200} before FROM must be a new NAME, or NAME=VALUE without spaces")
            self.arguments[match[1]] = match[2] or ""

    def _check_trigger(self, instruction: Instruction) -> None:
        if instruction.name in ("FROM", "ONBUILD"):
            raise SandboxError(f"ONBUILD {instruction.name} is not supported by any builder")
        self.check(instruction)

    def _check_stage(self, words: Sequence[str]) -> None:
        if len(words) not in (1, 3) or (len(words) == 3 and words[1].upper() != "AS"):
            raise SandboxError("FROM takes an image, or an image AS a name")
        if words[2:] and not _STAGE.fullmatch(words[2]):
            raise SandboxError(f"FROM … AS {words[2]!r:.200}: the name of a stage has letters, digits and any of _.-")
        self.names |= {self.stage} if self.stage else set()
        if len(words[0]) > _MAX_NAME:  # its variables may be long
            raise SandboxError(f"FROM {words[0]!r:.100}: an image's name has at most {_MAX_NAME} characters")
        image = _VARIABLE.sub(lambda match: self._value(match[1] or match[2]), words[0])
        if image not in self.names:
            self.check_image(image, "FROM")
        self.stages += 1
        self.stage = words[2] if words[2:] else ""

    def _value(self, name: str) -> str:
        value = self.arguments.get(name, "")
        if not value or '"' in value or "'" in value:
            raise SandboxError(f"FROM ${name}: write the image's name out, or add ARG {name}=… before it")
        return value

    def _check_from(self, image: str, what: str) -> None:
        if image.isdecimal():
            if image not in map(str, range(self.stages - 1)):
                raise SandboxError(f"{what}: {image:.20} is not the number of a stage that is complete here")
        elif image not in self.names:
            self.check_image(image, what)

    def _check_mount(self, options: str) -> None:
        given = [option.partition("=")[::2] for option in options.split(",")]
        values = dict(given)
        unknown = not values.keys() <= _MOUNT_OPTIONS or len(values) < len(given)
        if unknown or values.get("type", "bind") not in ("bind", "tmpfs"):
            raise SandboxError(f"RUN --mount={options!r:.200}: only files of this build can be mounted")
        if "from" in values:
            self._check_from(values["from"], "RUN --mount")

    def check_image(self, image: str, what: str) -> None:
        is_listed = image in self.rules.own
        match = IMAGE.fullmatch(image)
        repository = _full_name(match["repository"]) if match else ""
        in_files = match is not None and match["repository"] in _TRANSPORTS
        if not is_listed and (in_files or repository.partition("/")[0] not in _REGISTRIES):
            raise SandboxError(f"{what}: {image!r:.200} is not the name of an image in a public registry")
        triggers = self.rules.images.triggers(image)
        if triggers is None and not (is_listed or self.rules.fetching):
            raise SandboxError(f"{what}: there is no local image {image!r:.200}: docker pull it first")
        known = map(_full_name, self.rules.images.registries(image) if triggers is not None else [repository])
        if not is_listed and repository not in known:
            raise SandboxError(
                f"{what}: the image {image!r:.200} was built on this machine, but a build may only use the agent's "
                "folder and base images"
            )
        for trigger in triggers or ():
            try:
                if problem := _odd_character(trigger):
                    raise SandboxError(problem)
                _Checking(self.rules, stages=1)._check_trigger(_instruction(trigger, 0))
            except SandboxError as error:
                raise SandboxError(f"{error} (an ONBUILD of {image!r:.200})") from None


def _check_add(words: Sequence[str]) -> None:
    words = json_strings(" ".join(words)) or words
    for source in words[:-1]:
        if re.search(r"""["'\\$`]|^\[""", source):
            raise SandboxError(f"ADD {source!r:.200}: write the file's name out, without variables and quotes")
    for word in words:  # the last one too: builders do not agree on what is a list
        if ":/" in word or word.startswith("git@"):
            raise SandboxError(f"ADD {word!r:.200}: download it in a RUN, or put it into the agent's folder")


def _full_name(repository: str) -> str:
    first, _, rest = repository.partition("/")
    if not rest:
        return f"docker.io/library/{first}"
    if "." in first or ":" in first or first == "localhost":
        return f"docker.io/{rest if '/' in rest else f'library/{rest}'}" if first == "docker.io" else repository
    return f"docker.io/{repository}"


def _words(rest: str) -> tuple[list[str], list[str]]:
    words = rest.split()
    flags = []
    while words and words[0].startswith("--"):
        flags.append(words.pop(0))
    return flags, words


def json_strings(text: str) -> list[str] | None:
    """Return the strings of a JSON list; None for anything else."""
    if not text.startswith("["):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, list) and all(isinstance(word, str) for word in found) else None


ENVIRONMENT = "mlebench-env"
BASE_IMAGE = "debian:bookworm-slim"

BuildNetwork = Literal["none", "registries", "full"]
BUILD_NETWORKS: tuple[BuildNetwork, ...] = ("none", "registries", "full")
_MAX_BYTES = 1 << 16
"""Of a Dockerfile or .dockerignore."""
_MAX_PATTERNS = 200
"""In a .dockerignore: each file is matched with each pattern."""
_IGNORED = ["**/__pycache__", "**/*.pyc", ".git"]
_INCLUDED = ["!Dockerfile", "!.dockerignore"]
_ANY_FOLDERS, _ANY_NAME = "(.*/)?", "[^/]*"
"""What docker translates ** and * to."""
_FROM = re.compile(
    rf"^([ \t]*FROM[ \t]+(?:--platform=\S+[ \t]+)?){ENVIRONMENT}(?::latest)?(?=\s|$)", re.IGNORECASE | re.MULTILINE
)
_DEFAULT_DOCKERFILE = f"FROM {ENVIRONMENT}\nARG AGENT_DIR\nCOPY . ${{AGENT_DIR}}\n"
# The agent may write everywhere below its home, even over files that its Dockerfile put there as root. This is done in
# the image, not when a container starts, so the entry point needs no right to change owners.
# Agents for MLE-bench create their folders themselves, with a `mkdir` that fails if one exists. So the folders are
# created last, whatever the Dockerfile did. Each run has its own user id, so the group gets the user's permissions.
# Files that others may not read, such as keys, are left alone.
OWNED_BY_AGENT = f"""
USER root
RUN ["/bin/mkdir", "-p", {", ".join(f'"{folder}"' for folder in CONTAINER_DIRS.values())}]
RUN ["/usr/bin/find", "/", "-xdev", "-path", "/home/data", "-prune", "-o", "(", "-path", "/home", "-o", \
"-path", "/home/*", ")", "!", "-user", "nonroot", "-exec", "/bin/chown", "-h", "nonroot:nonroot", "{{}}", "+", ",", \
"(", "-user", "nonroot", "!", "-uid", "0", "-o", "-path", "/home/*", ")", "!", "-type", "l", "-perm", "-o=r", "!", \
"-perm", "-g=w", "-exec", "/bin/chmod", "g+rwX", "{{}}", "+"]
"""


class _Pattern(Pattern):
    """A pattern of .dockerignore that matches as docker's, but whose time does not grow exponentially with wildcards.

    What follows a wildcard only matches at its first place. The next wildcard of the same kind matches everything that
    follows another place, so the result is the same.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        *blocks, last = translate(self.cleaned_pattern.lower())[1:-1].split(_ANY_FOLDERS)
        if any(block and not block.endswith("/") for block in blocks):
            raise ValueError(f".dockerignore: {text!r:.100}: write a / before **")
        *names, end = last.split(_ANY_NAME)
        regex = "".join(f"(?>(?:.*?/)??{_first(block)})" for block in blocks[1:])
        if blocks:
            regex = f"{_first(blocks[0])}{regex}{_ANY_FOLDERS}"
        if names:
            end = f"{_first(_ANY_NAME.join(names))}{_ANY_NAME}{end}"
        self._regex = re.compile(f"{regex}{end}$")

    def match(self, filepath: str) -> bool:
        return self._regex.match(filepath.lower()) is not None


def _first(block: str) -> str:
    name, *others = block.split(_ANY_NAME)
    return name + "".join(f"(?>[^/]*?{other})" for other in others)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Everything that an image is built from."""

    name: str
    folder: Path
    dockerfile: str
    arguments: Mapping[str, str]
    parent: str = ""
    network: BuildNetwork = "full"
    builder: str = ""
    """The program that builds the image, if it is part of the tag."""

    def files(self) -> list[str]:
        """Return the files for the builder, as paths relative to the folder. Raises ValueError for a pattern."""
        try:
            text = read_regular(self.folder / ".dockerignore", _MAX_BYTES, follow_links=False)
        except FileNotFoundError:
            text = ""
        except (OSError, ValueError) as error:
            raise ValueError(f".dockerignore: {reason(error)}") from error
        patterns = [line for line in map(str.strip, text.splitlines()) if line and not line.startswith("#")]
        if len(patterns) > _MAX_PATTERNS:
            raise ValueError(f".dockerignore has {len(patterns)} patterns; the limit is {_MAX_PATTERNS}")
        matcher = PatternMatcher([])
        matcher.patterns = [one for one in map(_Pattern, [*_IGNORED, *patterns, *_INCLUDED]) if one.dirs]
        return sorted(set(matcher.walk(str(self.folder))) - {".dockerignore"})

    def tag(self) -> str:
        """Return the image's tag, with a digest of its inputs. Raises SandboxError if the folder cannot be packed."""
        digest = hashlib.sha256()

        def add(*parts: str | bytes) -> None:
            for part in parts:
                content = os.fsencode(part) if isinstance(part, str) else part
                digest.update(f"{len(content)}:".encode() + content)

        add(self.dockerfile, self.parent, self.network, *filter(None, [self.builder]))
        add(*(f"{key}={value}" for key, value in sorted(self.arguments.items())))
        try:
            for name in self.files():
                path = self.folder / name
                if path.is_symlink():
                    add(name, "link", str(path.readlink()))
                elif path.is_file():
                    add(name, "program" if path.stat().st_mode & 0o111 else "file")
                    with path.open("rb") as file:
                        add(hashlib.file_digest(file, "sha256").digest())
                else:
                    add(name, "folder")
        except (OSError, ValueError, re.error) as error:
            raise SandboxError(f"{self.folder} cannot be packed for the builder: {reason(error)}") from error
        return f"{self.name}:{digest.hexdigest()[:16]}"

    def write_context(self, file: IO[bytes], dockerfile: str) -> None:
        # The builder reads its Dockerfile, then excludes what .dockerignore lists.
        added = [(".dockerignore", f".dockerignore\n{dockerfile}\n"), (dockerfile, self.dockerfile)]
        create_archive(str(self.folder), self.files(), file, extra_files=added)
        file.seek(0)


def environment_recipe(folder: Path, arguments: Mapping[str, str]) -> Recipe:
    """Return the recipe of ``mlebench-env`` from its folder. Raises SandboxError if its Dockerfile cannot be read."""
    dockerfile = _read(folder / "Dockerfile")
    return Recipe(name=ENVIRONMENT, folder=folder, dockerfile=dockerfile, arguments=arguments)


def agent_recipe(agent: Agent, environment: str, network: BuildNetwork) -> Recipe:
    """Return the recipe of an agent's image on ``environment``, the tag of ``mlebench-env``. Raises SandboxError."""
    text = _read(agent.dockerfile) if agent.dockerfile.is_file() else _DEFAULT_DOCKERFILE
    # `FROM mlebench-env` means this environment, even if another session tags a different one as the latest.
    return Recipe(
        name=f"mlebench-agent-{re.sub(r'[^a-z0-9]+', '-', agent.folder.name.lower()).strip('-') or 'x'}",
        folder=agent.folder,
        dockerfile=_FROM.sub(lambda match: match[1] + environment, text) + OWNED_BY_AGENT,
        arguments=CONTAINER_DIRS,
        parent=environment,
        network=network,
    )


def _read(dockerfile: Path) -> str:
    try:
        return read_regular(dockerfile, _MAX_BYTES).removeprefix("\ufeff")
    except (OSError, ValueError) as error:
        raise SandboxError(f"{dockerfile} cannot be read: {reason(error)}") from error


def one_builder(folder: Path, tag: str, reporter: Reporter) -> AbstractContextManager[None]:
    """Allow one builder at a time for each image, by a lock in ``folder``. It is released even if its holder dies."""
    return hold_lock(folder / f"{tag.replace(':', '-')}.lock", "builds", tag, reporter)
