"""What images are made from, whatever builds them: a recipe has a tag by which a finished image is found again."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from docker.utils.build import create_archive, exclude_paths
from filelock import FileLock, Timeout

from pytest_mlebench.agents.definition import Agent
from pytest_mlebench.errors import SandboxError, reason
from pytest_mlebench.io.progress import Reporter, Step
from pytest_mlebench.sandbox.wiring import CONTAINER_DIRS

ENVIRONMENT = "mlebench-env"
BASE_IMAGE = "debian:bookworm-slim"

BuildNetwork = Literal["none", "registries", "full"]
BUILD_NETWORKS: tuple[BuildNetwork, ...] = ("none", "registries", "full")
_IGNORED = ["**/__pycache__", "**/*.pyc", ".git"]
_FROM = re.compile(
    rf"^(\s*FROM\s+(?:--platform=\S+\s+)?){ENVIRONMENT}(?::latest)?(?=\s|$)", re.IGNORECASE | re.MULTILINE
)
_DEFAULT_DOCKERFILE = f"FROM {ENVIRONMENT}\nARG AGENT_DIR\nCOPY . ${{AGENT_DIR}}\n"
# The agent may write everywhere below its home, also over what its Dockerfile, as root, put there. As this is done in
# the image and not when a container starts, the entry point needs no right to change owners.
# Agents made for MLE-bench make their folders themselves, with a `mkdir` that fails where there is one already: these
# are there at the end, whatever the Dockerfile did. Each run's user has a number of its own, so the group may do what
# the user may; what others may not read, such as keys, is left alone.
OWNED_BY_AGENT = f"""
USER root
RUN ["/bin/mkdir", "-p", {", ".join(f'"{folder}"' for folder in CONTAINER_DIRS.values())}]
RUN ["/usr/bin/find", "/", "-xdev", "-path", "/home/data", "-prune", "-o", "(", "-path", "/home", "-o", \
"-path", "/home/*", ")", "!", "-user", "nonroot", "-exec", "/bin/chown", "-h", "nonroot:nonroot", "{{}}", "+", ",", \
"(", "-user", "nonroot", "!", "-uid", "0", "-o", "-path", "/home/*", ")", "!", "-type", "l", "-perm", "-o=r", "!", \
"-perm", "-g=w", "-exec", "/bin/chmod", "g+rwX", "{{}}", "+"]
"""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """All that an image is made from."""

    name: str
    folder: Path
    dockerfile: str
    arguments: Mapping[str, str]
    parent: str = ""
    network: BuildNetwork = "full"

    @property
    def origin_of_base(self) -> str:
        """Where a user may have named the image that it is built from."""
        return "FROM in its Dockerfile" if self.parent else "--base-image, or base_image: in config.yaml"

    def files(self) -> list[str]:
        """What the builder gets, as paths relative to the folder."""
        ignore = self.folder / ".dockerignore"
        patterns = ignore.read_text(encoding="utf-8").splitlines() if ignore.is_file() else []
        patterns = [line.strip() for line in patterns if line.strip() and not line.lstrip().startswith("#")]
        return sorted(exclude_paths(str(self.folder), [*_IGNORED, *patterns]) - {".dockerignore"})

    def tag(self) -> str:
        """Raises SandboxError for a folder that cannot be packed, whatever is in it."""
        try:
            return self._tag()
        except (OSError, ValueError, re.error) as error:
            raise SandboxError(f"{self.folder} cannot be packed for the builder: {reason(error)}") from error

    def _tag(self) -> str:
        digest = hashlib.sha256()

        def add(*parts: str | bytes) -> None:
            for part in parts:
                content = os.fsencode(part) if isinstance(part, str) else part
                digest.update(f"{len(content)}:".encode() + content)

        add(
            self.dockerfile,
            self.parent,
            self.network,
            *(f"{key}={value}" for key, value in sorted(self.arguments.items())),
        )
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
        # The builder reads its Dockerfile, then leaves out what .dockerignore lists.
        own = [(".dockerignore", f".dockerignore\n{dockerfile}\n"), (dockerfile, self.dockerfile)]
        create_archive(str(self.folder), self.files(), file, extra_files=own)
        file.seek(0)


def environment_recipe(folder: Path, arguments: Mapping[str, str]) -> Recipe:
    """How ``mlebench-env`` is made from its folder; raises SandboxError for a Dockerfile that cannot be read."""
    dockerfile = _read(folder / "Dockerfile")
    return Recipe(name=ENVIRONMENT, folder=folder, dockerfile=dockerfile, arguments=arguments)


def agent_recipe(agent: Agent, environment: str, network: BuildNetwork) -> Recipe:
    """How an agent's image is made on ``environment``, the tag of ``mlebench-env``; raises SandboxError."""
    text = _read(agent.dockerfile) if agent.dockerfile.is_file() else _DEFAULT_DOCKERFILE
    # `FROM mlebench-env` means this environment, whatever another session calls the latest.
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
        return dockerfile.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SandboxError(f"{dockerfile} cannot be read: {reason(error)}") from error


@contextmanager
def one_builder(folder: Path, tag: str, reporter: Reporter) -> Iterator[None]:
    """One builder at a time for each image, by a lock in ``folder``; it is freed when its holder dies."""
    folder.mkdir(mode=0o700, exist_ok=True)
    lock = FileLock(folder / f"{tag.replace(':', '-')}.lock")
    try:
        lock.acquire(blocking=False)
    except Timeout:
        reporter(Step(tag, "waiting for another process that builds it"))
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
