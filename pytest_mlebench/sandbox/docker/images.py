"""Images, built on demand and tagged by a digest of their inputs: changed ones are rebuilt, unchanged ones reused.

The builder runs a Dockerfile's commands as root in a container, with the engine's default confinement. SECURITY.md
lists what they can reach.
"""

from __future__ import annotations

import logging
import math
import os
import re
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import docker
from docker.errors import APIError, DockerException, ImageNotFound
from urllib3.exceptions import HTTPError

from pytest_mlebench import defaults
from pytest_mlebench.agents.registry import Agent
from pytest_mlebench.errors import SandboxError, unusable
from pytest_mlebench.io.files import bundled, private_folder
from pytest_mlebench.io.processes import LABEL
from pytest_mlebench.io.progress import Reporter, Step, silent
from pytest_mlebench.io.units import format_size
from pytest_mlebench.sandbox import dockerfile
from pytest_mlebench.sandbox.contract import check_agent_folder, format_duration
from pytest_mlebench.sandbox.docker.client import (
    PODMAN,
    ContainerClient,
    ContainerOptions,
    client_errors,
    explain,
    provide_network,
)
from pytest_mlebench.sandbox.network.policy import Destination
from pytest_mlebench.sandbox.network.proxy import Proxy

NETWORK = "mlebench-build"
_REGISTRIES = (
    *("pypi.org", "files.pythonhosted.org", "download.pytorch.org", "*.download.pytorch.org"),
    *("http://deb.debian.org", "deb.debian.org", "http://security.debian.org", "security.debian.org"),
    *("http://archive.ubuntu.com", "http://security.ubuntu.com", "http://ports.ubuntu.com"),
    *("conda.anaconda.org", "repo.anaconda.com", "registry.npmjs.org", "index.crates.io", "static.crates.io"),
    *("proxy.golang.org", "sum.golang.org", "cran.r-project.org", "cloud.r-project.org", "huggingface.co"),
)
_PIP_INDEXES = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL")
"""The indexes that this machine's pip uses also count as registries."""


@contextmanager
def build_network(engine: ContainerClient, kind: str) -> Iterator[tuple[str | None, dict[str, str]]]:
    """Yield the builder's network mode, and the build arguments for the proxy."""
    if kind == "full":
        yield None, {}
        return
    podman = engine.name == PODMAN
    if kind == "none":
        # Podman's builder expects a policy instead of a mode, and uses this machine's network for any other word.
        yield ("NetworkDisabled" if podman else "none"), {}
        return
    if podman:
        raise SandboxError(
            f"Podman's builder does not support the network {kind}: use --build-network=none or --build-network=full"
        )
    indexes = (url for name in _PIP_INDEXES for url in os.environ.get(name, "").split() if "://" in url)
    allowed = dict.fromkeys(Destination.parse(text) for text in (*_REGISTRIES, *indexes))
    with Proxy(allowed, address=(_gateway(engine.client), 0)) as proxy:
        url = f"http://{proxy.address[0]}:{proxy.address[1]}"
        names = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
        yield NETWORK, {**dict.fromkeys(names, url), "NO_PROXY": "", "no_proxy": ""}


def _gateway(client: docker.DockerClient) -> str:
    """Return this machine's address in the internal network, which is created if it is missing."""
    try:
        provide_network(client, NETWORK, "build", internal=True)
        network = client.networks.get(NETWORK)
        return str(network.attrs["IPAM"]["Config"][0]["Gateway"])
    except (DockerException, OSError, LookupError) as error:
        raise SandboxError(f"the network {NETWORK} for builds cannot be created: {explain(error)}") from error


logger = logging.getLogger(__name__)

_TAIL_LINES = 40
_MAX_LINE = 1000
_FROM_STEP = re.compile(r"(?:Step|STEP) \d+/\d+ ?: FROM (?:--platform=\S+ )?(\S+)")  # Docker's, Podman's


def unavailable_base(step: str, recipe: dockerfile.Recipe) -> str:
    """Return the base image in the last step of a failed build; empty if that is not a FROM of the recipe."""
    match = _FROM_STEP.match(step)
    base = recipe.arguments.get("BASE_IMAGE", "")
    sources = [one.rest.split() for one in dockerfile.instructions(recipe.dockerfile) if one.name == "FROM"]
    if match is None or match[1] not in {base, *chain.from_iterable(sources)}:  # a RUN could print it
        return ""
    return base if match[1] == "${BASE_IMAGE}" else match[1]  # which Podman replaces


class Images:
    """The images of an engine.

    ``reporter`` gets one event for each image that is built; the builder's output is logged at level DEBUG. ``folder``
    is the source of ``mlebench-env``; None: the bundled one. ``max_bytes`` is the limit for one image.
    """

    def __init__(
        self,
        engine: ContainerClient,
        options: ContainerOptions,
        *,
        reporter: Reporter = silent,
        folder: Path | None = None,
        build_seconds: float = defaults.BUILD_SECONDS,
        build_memory: int = defaults.BUILD_MEMORY,
        max_bytes: int = defaults.IMAGE_BYTES,
    ) -> None:
        self._engine, self._client, self._options = engine, engine.client, options
        self._build_seconds, self._build_memory, self._max_bytes = build_seconds, build_memory, max_bytes
        self._folder = folder or bundled("environment")
        self._is_ours = folder is None
        base = options.base_image or dockerfile.BASE_IMAGE
        self._arguments = {"BASE_IMAGE": base, "HEAVY": options.heavy or "", **(options.build_arguments or {})}
        self._reporter = reporter

    def environment(self, base_image: str | None = None) -> str:
        """Return the tag of ``mlebench-env``, built if missing. An agent's ``base_image`` replaces the default one."""
        default = self._arguments["BASE_IMAGE"]
        # For users who build an agent's image by hand; our own builds always use the exact tag.
        latest = self._is_ours and base_image in (None, default)
        return self._provide(self._environment(base_image or default), latest=latest)

    def _environment(self, base_image: str) -> dockerfile.Recipe:
        return dockerfile.environment_recipe(self._folder, {**self._arguments, "BASE_IMAGE": base_image})

    def agent(self, agent: Agent) -> str:
        """Return an image's tag, built from the agent's folder if missing. Agents with equal inputs share an image."""
        check_agent_folder(agent)
        base = self._arguments["BASE_IMAGE"]
        dockerfile.Rules(self, [base]).check_base_image(agent)
        environment = self.environment(agent.base_image)
        recipe = self._agent(agent, environment)
        fetching = recipe.network == "full"
        try:
            dockerfile.Rules(self, (environment, base), fetching=fetching).check(recipe.dockerfile)
        except SandboxError as error:
            hint = "" if fetching else f" (with --build-network={recipe.network} the builder fetches nothing itself)"
            raise SandboxError(f"{agent.dockerfile}: {error}{hint}") from None
        image = self._provide(recipe)
        entrypoint = self._entrypoint(image)
        if entrypoint not in ([], self._entrypoint(environment)):
            raise SandboxError(
                f"agent {agent.id}: the ENTRYPOINT of its Dockerfile ({' '.join(entrypoint)}) would not run, because "
                f"the container starts {agent.start.name}: call it there, and remove the ENTRYPOINT"
            )
        return image

    def _entrypoint(self, tag: str) -> list[str]:
        return list(self.inspect(tag).get("Config", {}).get("Entrypoint") or [])

    def built(self, agent: Agent) -> int | None:
        check_agent_folder(agent)
        environment = self._environment(agent.base_image or self._arguments["BASE_IMAGE"]).tag()
        tag = self._agent(agent, environment).tag()
        return int(self.inspect(tag).get("Size") or 0) if self._has(tag) else None

    def built_environment(self) -> str | None:
        """Return the tag of ``mlebench-env``; None if it is not built. Builds nothing."""
        tag = self._environment(self._arguments["BASE_IMAGE"]).tag()
        return tag if self._has(tag) else None

    def _agent(self, agent: Agent, environment: str) -> dockerfile.Recipe:
        return dockerfile.agent_recipe(agent, environment, self.build_network_of(agent))

    def build_network_of(self, agent: Agent) -> dockerfile.BuildNetwork:
        options = self._options
        return (agent.bundled and options.bundled_build_network) or options.build_network

    def digest(self, tag: str) -> str:
        """Return the engine's digest of an image. Raises SandboxError."""
        return str(self.inspect(tag).get("Id") or "")

    def _provide(self, recipe: dockerfile.Recipe, *, latest: bool = False) -> str:
        tag = recipe.tag()
        if self._has(tag):
            return tag
        folder = Path(tempfile.gettempdir()) / f"mlebench-build-{os.getuid()}"
        try:
            private_folder(folder)
        except OSError as error:
            raise SandboxError(f"the folder for locks of builds cannot be used: {unusable(error)}") from error
        with dockerfile.one_builder(folder, tag, self._reporter):
            if not self._has(tag):  # nobody built it during the wait
                self._reporter(Step(tag, "building"))
                self._build(recipe, tag)
                if latest:
                    with client_errors(f"name image {tag}"):
                        self._client.images.get(tag).tag(recipe.name, "latest")
        return tag

    def _has(self, tag: str) -> bool:
        with client_errors(f"look for image {tag}"):
            try:
                self._client.images.get(tag)
            except ImageNotFound:
                return False
        return True

    def triggers(self, image: str) -> list[str] | None:
        """Return the ``ONBUILD`` instructions of an image; None if the engine does not have it."""
        if re.search(r"[^\w.:/@-]", image) or not self._has(image):
            return None
        return list(self.inspect(image).get("Config", {}).get("OnBuild") or [])

    def registries(self, image: str) -> list[str]:
        """Return the names of a local image in registries; none if it was built here."""
        attributes = self.inspect(image)
        if f"{LABEL}image" in ((attributes.get("Config") or {}).get("Labels") or {}):
            return []
        return [str(digest).partition("@")[0] for digest in attributes.get("RepoDigests") or ()]

    def _build(self, recipe: dockerfile.Recipe, tag: str) -> None:
        log: deque[str] = deque(maxlen=_TAIL_LINES)
        step = ""
        name = "Dockerfile.mlebench"
        deadline = time.monotonic() + self._build_seconds
        late = f"the build takes longer than {format_duration(self._build_seconds)}"
        memory = min(self._build_memory, int(self._engine.info.get("MemTotal") or self._build_memory))
        is_limited = "memory" not in self._engine.unenforced
        try:
            with tempfile.TemporaryFile() as context, build_network(self._engine, recipe.network) as (mode, proxies):
                recipe.write_context(context, name)
                messages = self._client.api.build(
                    fileobj=context,
                    custom_context=True,
                    dockerfile=name,
                    tag=tag,
                    buildargs={**recipe.arguments, **proxies},
                    labels={f"{LABEL}image": recipe.name, f"{LABEL}build-network": recipe.network},
                    network_mode=mode,
                    container_limits={"memory": memory, "memswap": memory} if is_limited else None,
                    timeout=math.ceil(self._build_seconds),  # of each read: ends a build that prints nothing
                    rm=True,
                    forcerm=True,
                    decode=True,
                )
                with closing(messages):  # ends an unfinished build, and closes its connection
                    for line in _lines(messages):
                        if time.monotonic() > deadline:
                            raise _BuildError(late)
                        if not line:
                            continue
                        log.append(line[:_MAX_LINE])
                        step = line if line.startswith(("Step ", "STEP ")) else step
                        logger.debug("%s", line[:_MAX_LINE])
        except _BuildError as error:
            log.append(str(error)[:_MAX_LINE])  # with the whole command
        except (DockerException, HTTPError, OSError, ValueError) as error:  # the folder's content may break the packing
            log.append(late if time.monotonic() > deadline else explain(error))
            if isinstance(error, APIError) and error.response is not None:
                error.response.close()  # unread, its connection would stay open
        else:
            if self._has(tag):
                return self._check_size(tag)
            log.append("the builder ended without an image")
        if base := unavailable_base(step, recipe):
            named = "FROM in its Dockerfile" if recipe.parent else "--base-image, or base_image: in config.yaml"
            raise SandboxError(
                f"image {tag} (from {recipe.folder}) does not build: image {base} is not available: {log[-1]}; "
                f"is the name right ({named})? docker pull {base}"
            )
        output = "\n".join(log)
        hint = ""
        if recipe.network != "full":
            hint = f" (its commands reach {'nothing' if recipe.network == 'none' else 'only package registries'})"
            output += "\nIf the build needs a network: --build-network=full"
        if "sudo: not found" in output or "sudo: command not found" in output:
            hint += " (there is no sudo, and none is needed: a Dockerfile's commands run as root until USER)"
        raise SandboxError(f"image {tag} (from {recipe.folder}) does not build{hint}; its log ends with:\n{output}")

    def _check_size(self, tag: str) -> None:
        size = int(self.inspect(tag).get("Size") or 0)
        if size > self._max_bytes:
            with client_errors(f"remove image {tag}"):
                self._client.images.remove(tag, force=True)
            raise SandboxError(f"image {tag} has {format_size(size)}; the limit is {format_size(self._max_bytes)}")

    def workdir(self, tag: str) -> str:
        """Return the folder in which an image's programs start. Raises SandboxError."""
        return str(self.inspect(tag)["Config"].get("WorkingDir") or "/")

    def save(self, tag: str, archive: Path) -> None:
        """Write an image as an archive. Raises SandboxError."""
        part = archive.with_name(f".{archive.name}.part")
        try:
            with client_errors(f"save image {tag}"), part.open("wb") as file:
                for block in self._client.images.get(tag).save(named=True):
                    file.write(block)
                part.replace(archive)
        finally:
            part.unlink(missing_ok=True)

    def inspect(self, tag: str) -> dict[str, Any]:
        """Return what the engine knows about an image. Raises SandboxError."""
        with client_errors(f"inspect image {tag}"):
            return dict(self._client.images.get(tag).attrs)


class _BuildError(Exception):
    """The builder reported an error, or took too long."""


def _lines(messages: Iterator[dict[str, Any]]) -> Iterator[str]:
    for message in messages:
        if "error" in message:
            raise _BuildError(str(message["error"]))
        text = message.get("stream") or message.get("status") or ""
        yield from map(str.rstrip, re.split(r"[\r\n]", str(text)))
