"""Images, built on demand and tagged by what they are made from: a change rebuilds, an unchanged one costs nothing."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import docker
from docker.errors import APIError, DockerException, ImageNotFound
from docker.utils.build import create_archive, exclude_paths
from filelock import FileLock, Timeout

from pytest_mlebench.agents.definition import Agent
from pytest_mlebench.catalog.catalogue import bundled
from pytest_mlebench.errors import SandboxError
from pytest_mlebench.sandbox.owner import LABEL

ENVIRONMENT = "mlebench-env"
BASE_IMAGE = "debian:bookworm-slim"
PLACES = {
    "SUBMISSION_DIR": "/home/submission",
    "LOGS_DIR": "/home/logs",
    "CODE_DIR": "/home/code",
    "AGENT_DIR": "/home/agent",
}
"""The build arguments that every agent's Dockerfile may count on."""

Progress = Callable[[str], None]
_TAIL_LINES = 40
_IGNORED = ["**/__pycache__", "**/*.pyc", ".git"]
_FROM = re.compile(
    rf"^(\s*FROM\s+(?:--platform=\S+\s+)?){ENVIRONMENT}(?::latest)?(?=\s|$)", re.IGNORECASE | re.MULTILINE
)
_DEFAULT_DOCKERFILE = f"FROM {ENVIRONMENT}\nARG AGENT_DIR\nCOPY . ${{AGENT_DIR}}\n"
# The agent may write everywhere below its home, also over what its Dockerfile, as root, put there. As this is done in
# the image and not when a container starts, the entry point needs no right to change owners.
_OWNED_BY_AGENT = """
USER root
RUN ["/usr/bin/find", "/home", "-path", "/home/data", "-prune", "-o", "!", "-user", "nonroot", \
"-exec", "/bin/chown", "-h", "nonroot:nonroot", "{}", "+"]
"""


@dataclass(frozen=True, kw_only=True)
class _Recipe:
    """All that an image is made from."""

    name: str
    folder: Path
    dockerfile: str
    arguments: Mapping[str, str]
    parent: str = ""

    def files(self) -> list[str]:
        """What the builder gets, as paths relative to the folder."""
        ignore = self.folder / ".dockerignore"
        patterns = ignore.read_text(encoding="utf-8").splitlines() if ignore.is_file() else []
        patterns = [line.strip() for line in patterns if line.strip() and not line.lstrip().startswith("#")]
        return sorted(exclude_paths(str(self.folder), [*_IGNORED, *patterns]) - {".dockerignore"})

    def tag(self) -> str:
        digest = hashlib.sha256()

        def add(*parts: str | bytes) -> None:
            for part in parts:
                content = part.encode() if isinstance(part, str) else part
                digest.update(f"{len(content)}:".encode() + content)

        add(self.dockerfile, self.parent, *(f"{key}={value}" for key, value in sorted(self.arguments.items())))
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
        return f"{self.name}:{digest.hexdigest()[:16]}"

    def write_context(self, file: IO[bytes], dockerfile: str) -> None:
        # The builder reads its Dockerfile, and then leaves out what it is told to ignore.
        own = [(".dockerignore", f".dockerignore\n{dockerfile}\n"), (dockerfile, self.dockerfile)]
        create_archive(str(self.folder), self.files(), file, extra_files=own)
        file.seek(0)


class Images:
    """The images of an engine.

    ``heavy`` adds the common machine-learning packages to the environment. ``progress`` is given the builder's lines.
    """

    def __init__(
        self,
        client: docker.DockerClient,
        *,
        base_image: str = BASE_IMAGE,
        heavy: bool = False,
        arguments: Mapping[str, str] | None = None,
        progress: Progress = lambda line: None,
        folder: Path | None = None,
    ) -> None:
        self._client = client
        self._folder = folder or bundled("environment")
        self._is_ours = folder is None
        self._arguments = {
            "BASE_IMAGE": base_image,
            "INSTALL_HEAVY_DEPENDENCIES": str(heavy).lower(),
            **(arguments or {}),
        }
        self._progress = progress

    def environment(self) -> str:
        """The tag of ``mlebench-env``, built if it is not there; raises SandboxError with the end of the log."""
        recipe = _Recipe(
            name=ENVIRONMENT,
            folder=self._folder,
            dockerfile=_read(self._folder / "Dockerfile"),
            arguments=self._arguments,
        )
        # For those who build an agent's image by hand; we ourselves always mean this very environment.
        return self._provide(recipe, also=f"{ENVIRONMENT}:latest" if self._is_ours else "")

    def agent(self, agent: Agent) -> str:
        """The tag of the agent's image, built if it is not there; raises SandboxError with the end of the log.

        The build's context is the agent's folder; agents of one folder and Dockerfile share an image.
        """
        environment = self.environment()
        text = _read(agent.dockerfile) if agent.dockerfile.is_file() else _DEFAULT_DOCKERFILE
        # `FROM mlebench-env` means this environment, whatever another session calls the latest.
        recipe = _Recipe(
            name=f"mlebench-agent-{re.sub(r'[^a-z0-9]+', '-', agent.folder.name.lower()).strip('-') or 'x'}",
            folder=agent.folder,
            dockerfile=_FROM.sub(lambda match: match[1] + environment, text) + _OWNED_BY_AGENT,
            arguments=PLACES,
            parent=environment,
        )
        return self._provide(recipe)

    def digest(self, tag: str) -> str:
        """The engine's own digest of an image; raises SandboxError."""
        try:
            return str(self._client.images.get(tag).id)
        except (DockerException, OSError) as error:
            raise SandboxError(f"the Docker engine does not tell the digest of {tag}: {error}") from error

    def _provide(self, recipe: _Recipe, also: str = "") -> str:
        tag = recipe.tag()
        if self._has(tag):
            return tag
        with _lock(tag, self._progress):
            if not self._has(tag):  # nobody built it while we waited
                self._progress(f"building {tag}")
                self._build(recipe, tag)
                if also:
                    self._client.images.get(tag).tag(also)
        return tag

    def _has(self, tag: str) -> bool:
        try:
            self._client.images.get(tag)
        except ImageNotFound:
            return False
        except (DockerException, OSError) as error:
            raise SandboxError(f"the Docker engine does not tell whether it has the image {tag}: {error}") from error
        return True

    def _build(self, recipe: _Recipe, tag: str) -> None:
        log: deque[str] = deque(maxlen=_TAIL_LINES)
        name = "Dockerfile.mlebench"
        try:
            with tempfile.TemporaryFile() as context:
                recipe.write_context(context, name)
                messages = self._client.api.build(
                    fileobj=context,
                    custom_context=True,
                    dockerfile=name,
                    tag=tag,
                    buildargs=dict(recipe.arguments),
                    labels={f"{LABEL}image": recipe.name},
                    rm=True,
                    forcerm=True,
                    decode=True,
                )
                for line in _lines(messages):
                    log.append(line)
                    self._progress(line)
        except _BuildError as error:
            log.append(str(error))
        except (APIError, DockerException, OSError) as error:
            log.append(str(error))
        else:
            if self._has(tag):
                return
            log.append("the builder ended and left no image")
        shown = "\n".join(log)
        raise SandboxError(f"image {tag} (from {recipe.folder}) does not build; the end of the build's log:\n{shown}")


class _BuildError(Exception):
    """What the builder says went wrong."""


def _lines(messages: Iterator[dict[str, Any]]) -> Iterator[str]:
    for message in messages:
        if "error" in message:
            raise _BuildError(str(message["error"]))
        text = message.get("stream") or message.get("status") or ""
        yield from (line.rstrip() for line in re.split(r"[\r\n]+", str(text)) if line.strip())


def _read(dockerfile: Path) -> str:
    try:
        return dockerfile.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SandboxError(f"{dockerfile} cannot be read: {error}") from error


@contextmanager
def _lock(tag: str, progress: Progress) -> Iterator[None]:
    """One builder at a time for each image on this machine; it is freed when its holder dies."""
    folder = Path(tempfile.gettempdir()) / f"mlebench-build-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    lock = FileLock(folder / f"{tag.replace(':', '-')}.lock")
    try:
        lock.acquire(blocking=False)
    except Timeout:
        progress(f"waiting for another process that builds {tag}")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
