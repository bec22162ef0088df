"""The container engine of this machine, through Docker's API; subclasses override what other engines do differently."""

from __future__ import annotations

import os
import re
import shutil
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import docker
from docker.errors import APIError, DockerException

from pytest_mlebench import defaults
from pytest_mlebench.errors import SandboxError, number
from pytest_mlebench.io.processes import LABEL
from pytest_mlebench.records.outcome import Limits
from pytest_mlebench.sandbox.dockerfile import BUILD_NETWORKS, BuildNetwork
from pytest_mlebench.sandbox.network.policy import NETWORKS, Network

DOCKER, PODMAN = "docker", "podman"
TIMEOUT = 600
"""Seconds that the engine may take to answer: removing a container with many files takes long."""
FULL_NETWORK = "mlebench-full"
_LONGEST_ERROR = 1000
ACCEPT_PRIVILEGED = "I_ACCEPT_RUNNING_PRIVILEGED_CONTAINERS"


@dataclass(frozen=True, kw_only=True)
class ContainerOptions:
    """How containers are created. ``DockerSandbox`` also takes each of these as a keyword argument.

    >>> ContainerOptions(network="none").build_network
    'full'
    """

    engine: str = DOCKER
    """The container runtime: ``docker`` or ``podman``."""
    network: Network = "llm"
    """The policy (see ``sandbox.network.policy``)."""
    allow_hosts: Iterable[str] = ()
    """Hosts that agents may reach in addition to their own."""
    runtime: str | None = None
    """``runsc`` (gVisor) must let containers open the host's Unix sockets (``--host-uds=open``)."""
    allow_privileged: bool = False
    allow_unenforced_limits: bool = False
    """Run even if the container runtime cannot enforce all limits."""
    gpus: int = 0
    """How many GPUs each run will request, checked up front."""
    gpu_ids: Sequence[str] = ()
    """The only GPUs that runs may use; empty: all GPUs of this machine."""
    shm_bytes: int = defaults.SHM_BYTES
    """The size of ``/dev/shm``, which counts as memory."""
    base_image: str | None = None
    """The image that ``mlebench-env`` is built from; None: the usual one."""
    heavy: str | None = None
    """``cpu`` or ``cuda`` adds the common machine-learning packages to ``mlebench-env``."""
    build_arguments: Mapping[str, str] | None = None
    build_network: BuildNetwork = "full"
    """What agents' Dockerfiles can reach during the build. ``mlebench-env`` is ours, and built with full access."""
    bundled_build_network: BuildNetwork | None = None
    """The build network of bundled agents; None: the same."""
    loop_disks: bool = True
    """If the storage driver has no quotas, limit disk space with a file system for each run, if possible."""
    workers: int = 1
    """How many runs share the machine."""
    limits: Limits | None = None
    """The limits that runs will request, checked up front."""

    def __post_init__(self) -> None:
        if self.network not in NETWORKS:
            raise SandboxError(f"network policy {self.network!r} must be one of {', '.join(NETWORKS)}")
        if isinstance(self.allow_hosts, str):
            raise TypeError(f"allow_hosts must be a list of hosts, not a string: [{self.allow_hosts!r}]")
        if self.build_network not in BUILD_NETWORKS:
            raise SandboxError(f"build network {self.build_network!r} must be one of {', '.join(BUILD_NETWORKS)}")
        if self.heavy not in (None, "cpu", "cuda"):
            raise SandboxError(f"heavy must be cpu, cuda or None, not {self.heavy!r}")
        number(self.shm_bytes, "shm_bytes")
        number(self.workers, "workers", least=1)
        number(self.gpus, "gpus", least=0)

    @property
    def privileged(self) -> bool:
        return self.allow_privileged or os.environ.get(ACCEPT_PRIVILEGED, "").lower() in ("1", "true", "yes")


class ContainerClient:
    """A connection to an engine, and its specific behaviour. Methods raise the docker client's errors."""

    name = DOCKER
    title = "Docker"
    follows_links = False
    """Whether the archive of a link is that of the link's target."""

    def __init__(self, client: docker.DockerClient, host: str) -> None:
        self.client = client
        self.host = host
        try:
            self.info: dict[str, Any] = dict(client.info())
        except (DockerException, OSError, TypeError, ValueError) as error:
            raise SandboxError(_no_engine(error)) from error

    def close(self) -> None:
        self.client.close()

    @property
    def unenforced(self) -> tuple[str, ...]:
        """The limits that this engine does not enforce: ``memory``, ``processors``, ``processes``, ``swap``."""
        limits = {"MemoryLimit": "memory", "SwapLimit": "swap", "CpuCfsQuota": "processors", "PidsLimit": "processes"}
        return tuple(name for key, name in limits.items() if self.info.get(key) is False)

    @property
    def why_unenforced(self) -> str:
        """The likely reason, and the remedy if there is one."""
        return "its kernel does not support it, or it is rootless without its own control groups"

    @property
    def default_runtime(self) -> str:
        return str(self.info.get("DefaultRuntime") or "")

    def check_runtime(self, runtime: str) -> None:
        """Raises SandboxError if the engine does not have this runtime."""
        runtimes = self.info.get("Runtimes") or {}
        if runtime not in runtimes:
            raise SandboxError(
                f"Docker has no runtime {runtime}, only {', '.join(sorted(runtimes))}: install it and "
                "name it in /etc/docker/daemon.json"
            )

    def create(self, image: str, name: str, labels: Mapping[str, str], settings: Mapping[str, Any]) -> None:
        """Create a container; ``settings`` are arguments of docker-py's ``containers.create``."""
        self.client.containers.create(image, name=name, labels=dict(labels), **settings)

    def full_network(self) -> str:
        """Return the network mode of containers that may reach everything except each other."""
        isolated = {"com.docker.network.bridge.enable_icc": "false"}
        provide_network(self.client, FULL_NETWORK, "full", options=isolated)
        return FULL_NETWORK


def provide_network(client: docker.DockerClient, name: str, label: str, **options: Any) -> None:
    """Create a bridge network if it is missing. Raises the docker client's errors."""
    if not client.networks.list(names=[f"^{name}$"]):
        try:
            client.networks.create(name, driver="bridge", labels={f"{LABEL}network": label}, **options)
        except APIError:  # unless another worker created it meanwhile
            if not client.networks.list(names=[f"^{name}$"]):
                raise


def is_podman(client: docker.DockerClient) -> bool:
    """Whether the engine is Podman. Raises SandboxError if it does not identify itself."""
    try:
        answer = client.version()
    except (DockerException, OSError, ValueError) as error:
        raise SandboxError(_no_engine(error)) from error
    return "Podman Engine" in str(answer)


def connect() -> docker.DockerClient:
    """Return a client of the local Docker engine. Raises SandboxError, which says how to get an engine."""
    try:
        try_socket(docker_host())
        client = docker.from_env(timeout=TIMEOUT)
        client.ping()
    except (DockerException, OSError, ValueError) as error:
        raise SandboxError(_no_engine(error)) from error
    if not str(client.api.base_url).startswith("http+docker://"):
        raise SandboxError(
            f"Docker at {client.api.base_url} is on another machine: the submission checker and the data "
            "reach a container through this machine's file system. Unset DOCKER_HOST to use the local Docker."
        )
    return client


def explain(error: Exception) -> str:
    """Return why the engine refused something, in its own words but without the request's address."""
    text = str((isinstance(error, APIError) and error.explanation) or error)
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST_ERROR else f"{text[:_LONGEST_ERROR]}…"


@contextmanager
def client_errors(action: str) -> Iterator[None]:
    """Context manager that turns an engine's error into a one-line SandboxError: the engine could not ``action``."""
    try:
        yield
    except (DockerException, OSError) as error:
        raise SandboxError(f"the container runtime could not {action}: {explain(error)}") from error


def try_socket(host: str) -> None:
    """Raises OSError if nothing listens. The docker client itself would leak the socket that it cannot connect."""
    if host.startswith("unix://"):
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(TIMEOUT)
            probe.connect(host.removeprefix("unix://"))


def docker_host() -> str:
    return os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"


def _no_engine(error: Exception) -> str:
    text = " ".join(str(error).split())
    if "Permission denied" in text:
        return (
            "this user may not use Docker: join the group docker (`sudo usermod -aG docker $USER`, then log "
            "in again), or set up rootless Docker"
        )
    cause = re.search(r"\[Errno -?\d+\] ([^()'\"]+)", text)  # the rest only names libraries
    what = f"{docker_host()}: {cause[1].strip()}" if cause else text
    return (
        f"Docker does not answer ({what}): start it (`sudo systemctl start docker`), or run agents that you trust "
        "without one (`--sandbox=local`)"
    )


def has_quota(info: dict[str, Any]) -> bool:
    """Whether the engine's storage driver might be able to limit a container's writes. Only an attempt gives certainty.

    Such a driver is overlay2 on XFS with project quotas. btrfs and zfs limit a container together with its image.
    """
    return info.get("Driver") == "overlay2" and ["Backing Filesystem", "xfs"] in (info.get("DriverStatus") or [])


def free_space(info: dict[str, Any]) -> int | None:
    """Return the free bytes where the engine stores containers; None if that is not a folder of this machine."""
    with suppress(OSError):
        return shutil.disk_usage(str(info.get("DockerRootDir") or "")).free
    return None
