"""Podman, through its Docker-compatible API, and through its own API for what that lacks (runtimes, CDI devices).

If no service listens, one is started for the lifetime of this process. It ends by itself some seconds after its last
connection, so a killed session leaves none behind. ``open_client`` opens Podman or Docker.
"""

from __future__ import annotations

import atexit
import os
import resource
import shutil
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import docker
from docker.errors import APIError, DockerException

from pytest_mlebench.errors import SandboxError
from pytest_mlebench.io.processes import owned_prefix
from pytest_mlebench.sandbox.contract import PODMAN_FOLDER
from pytest_mlebench.sandbox.docker.client import (
    DOCKER,
    PODMAN,
    TIMEOUT,
    ContainerClient,
    connect,
    docker_host,
    explain,
    is_podman,
    try_socket,
)

_API = "v4.0.0/libpod"
_IDLE_SECONDS = 10
"""A service started here ends this long after its last connection."""
_START_SECONDS = 60
_MAX_RLIMIT = 1 << 20
_CPU_PERIOD = 100_000
_RESOURCES = {"memory": "memory", "cpu": "processors", "pids": "processes"}
"""Limits by the control group that enforces them."""
_EVENTS = (
    "GET /v1.41/events?filters=%7B%22container%22%3A%5B%22mlebench-nothing%22%5D%7D HTTP/1.1\r\nHost: podman\r\n\r\n"
)
"""A request that is answered only when a container of this name does something, so its connection stays open."""


class PodmanClient(ContainerClient):
    name = PODMAN
    title = "Podman"
    follows_links = True

    def __init__(self, client: docker.DockerClient, host: str, *, service: _Service | None = None) -> None:
        super().__init__(client, host)
        self._service = service
        self._api = client.api
        self._url = f"{client.api.base_url}/{_API}"
        self._host_info = self._ask("info")["host"]

    def close(self) -> None:
        super().close()
        if self._service is not None:
            self._service.close()

    @property
    def rootless(self) -> bool:
        return bool(self._host_info["security"]["rootless"])

    @cached_property
    def unenforced(self) -> tuple[str, ...]:
        groups = self._host_info.get("cgroupControllers") or []
        if self.rootless and self._host_info.get("cgroupVersion") == "v1":
            groups = []  # any groups belong to root
        return tuple(limit for group, limit in _RESOURCES.items() if group not in groups)

    @property
    def why_unenforced(self) -> str:
        if not self.rootless:
            return "its control groups lack them"
        if self._host_info.get("cgroupVersion") == "v1":
            return "rootless Podman needs control groups of version 2 (or run as root)"
        return "no control groups are delegated to this user (`loginctl enable-linger`, systemd's Delegate=yes)"

    @property
    def default_runtime(self) -> str:
        return str((self._host_info.get("ociRuntime") or {}).get("name") or "")

    def better_runtime(self, wanted: str | None) -> str | None:
        """Return the runtime that containers need instead of this service's; None if it has the right one.

        crun rejects version 1 of control groups, even next to version 2; runc accepts it.
        """
        if wanted:
            return wanted if Path(wanted).name != self.default_runtime else None
        crun_fails = self.default_runtime == "crun" and self._host_info.get("cgroupVersion") == "v1"
        return "runc" if crun_fails and shutil.which("runc") else None

    def check_runtime(self, runtime: str) -> None:
        """Do nothing: the runtime was chosen together with the service, see ``open_podman``."""

    def create(self, image: str, name: str, labels: Mapping[str, str], settings: Mapping[str, Any]) -> None:
        specification = _specification(settings, self._rlimits())
        for group, limit in _RESOURCES.items():
            if limit in self.unenforced:  # Podman would refuse the container
                specification["resource_limits"].pop(group, None)
        self._ask("containers/create", {"image": image, "name": name, "labels": dict(labels), **specification})

    def full_network(self) -> str:
        # Each container gets its own network: on a bridge, containers could reach each other.
        for mode in ("pasta", "slirp4netns"):
            if shutil.which(mode):
                return mode
        raise SandboxError("--network=full needs slirp4netns or pasta for Podman: install one of them")

    def _ask(self, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Send a request to Podman's own API. Raises APIError, or SandboxError for an invalid answer."""
        send = self._api.get if body is None else self._api.post
        content: dict[str, Any] = {} if body is None else {"json": body}
        with send(f"{self._url}/{path}", timeout=self._api.timeout, **content) as response:
            try:
                answer = response.json()
            except ValueError:
                answer = None
            if response.status_code >= 400:
                what = answer.get("message") or answer.get("cause") if isinstance(answer, dict) else response.reason
                raise APIError(f"{response.status_code} for {path}", response=response, explanation=str(what))
        if not isinstance(answer, dict):
            raise SandboxError(f"the Podman service gave no valid answer to {path}")
        return answer

    def _rlimits(self) -> list[dict[str, Any]]:
        """Return limits for containers. Podman's default of a million files and processes may exceed its own limits."""
        limits = []
        for kind, number in (("nofile", resource.RLIMIT_NOFILE), ("nproc", resource.RLIMIT_NPROC)):
            known = [_MAX_RLIMIT, resource.getrlimit(number)[1]]
            with suppress(OSError, ValueError):
                known += [resource.prlimit(self._server, number)[1]] if self._server else []
            if kind == "nproc":  # as Podman itself does
                with suppress(OSError, ValueError):
                    known.append(int(Path("/proc/sys/kernel/pid_max").read_text()))
            least = min(limit for limit in known if limit != resource.RLIM_INFINITY)
            limits.append({"type": kind, "soft": least, "hard": least})
        return limits

    @cached_property
    def _server(self) -> int:
        """The id of the process that listens; 0 if unknown."""
        with suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
            probe.connect(self.host.removeprefix("unix://"))
            peer = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            return int(struct.unpack("3i", peer)[0])
        return 0


def _specification(settings: Mapping[str, Any], rlimits: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Convert those arguments of docker-py's ``containers.create`` that we use to Podman's own API."""
    requested = [
        {"type": limit["Name"], "soft": limit["Soft"], "hard": limit["Hard"]} for limit in settings.get("ulimits", ())
    ]
    resources: dict[str, Any] = {"pids": {"limit": settings["pids_limit"]}}
    if memory := settings.get("mem_limit"):
        resources["memory"] = {"limit": memory, "swap": settings["memswap_limit"]}
    if nano := settings.get("nano_cpus"):
        resources["cpu"] = {"period": _CPU_PERIOD, "quota": max(1000, nano * _CPU_PERIOD // 10**9)}
    security = settings.get("security_opt", ())
    seccomp = next((text.removeprefix("seccomp=") for text in security if text.startswith("seccomp=")), "")
    devices = [id for request in settings.get("device_requests", ()) for id in request["DeviceIDs"] or ()]
    return {
        "entrypoint": settings["entrypoint"],
        "command": settings["command"],
        "user": settings["user"],
        "hostname": settings.get("hostname", ""),
        "healthconfig": {"Test": ["NONE"]},
        "netns": {"nsmode": settings["network_mode"]},
        **_mounts(settings.get("mounts", ())),
        "read_only_filesystem": settings.get("read_only", False),
        "resource_limits": resources,
        "shm_size": settings["shm_size"],
        "r_limits": [*rlimits, *requested],
        "log_configuration": {"driver": "none"},
        "privileged": settings.get("privileged", False),
        "cap_drop": settings.get("cap_drop", []),
        "cap_add": settings.get("cap_add", []),
        "no_new_privileges": "no-new-privileges" in security,
        **({"seccomp_profile_path": str(_seccomp_file(seccomp))} if seccomp else {}),
        "devices": [{"path": f"nvidia.com/gpu={id}"} for id in devices],
        "init": False,
        "umask": "0022",
    }


def _mounts(mounts: Sequence[Mapping[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    plain: list[dict[str, Any]] = []
    overlays: list[dict[str, Any]] = []
    for mount in mounts:
        target = mount["Target"]
        driver = ((mount.get("VolumeOptions") or {}).get("DriverConfig") or {}).get("Options") or {}
        if not driver:
            options = ["rbind", "rprivate", "ro" if mount.get("ReadOnly") else "rw"]
            plain.append({"type": "bind", "source": mount["Source"], "destination": target, "options": options})
        elif (kind := driver["type"]) == "overlay":
            # Podman's own overlays are writable, but no change reaches the data below.
            lower = driver["o"].partition("lowerdir=")[2].partition(":")[0]
            overlays.append({"destination": target, "source": lower, "options": []})
        else:
            options = driver["o"].split(",")
            plain.append({"type": kind, "source": kind, "destination": target, "options": options})
    return {"mounts": plain, "overlay_volumes": overlays}


_seccomp_files: dict[str, Path] = {}


def _seccomp_file(profile: str) -> Path:
    """Write a profile to a file, because Podman reads it from one while it creates a container."""
    if profile not in _seccomp_files or not _seccomp_files[profile].exists():
        _seccomp_files[profile] = _create_folder() / "seccomp.json"
        _seccomp_files[profile].write_text(profile)
    return _seccomp_files[profile]


def _create_folder() -> Path:
    """Create a folder for the lifetime of this process. Later sessions and ``mlebench clean`` remove leftover ones."""
    folder = Path(tempfile.mkdtemp(prefix=owned_prefix(PODMAN_FOLDER), dir="/tmp"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def open_podman(runtime: str | None = None) -> PodmanClient:
    """Connect to this user's Podman service, or start one. Raises SandboxError, which says how to get it.

    A service has one runtime for all its containers, so one is started if the running one has the wrong runtime.
    """
    host = os.environ.get("CONTAINER_HOST", "")
    if host and not host.startswith("unix://"):
        raise SandboxError(
            f"the Podman service at {host} is on another machine: the submission checker and the data reach a "
            "container through this machine's file system. Unset CONTAINER_HOST to use the local one."
        )
    listening = host or _listening()
    engine = _connect(listening) if listening else _start_engine(runtime)
    better = engine.better_runtime(runtime)
    if better is None:
        return engine
    has = engine.default_runtime
    engine.close()
    if host:
        raise SandboxError(
            f"the Podman service at {host} runs containers with {has}, not {better}: start it with "
            f"`podman --runtime {better} system service`, or unset CONTAINER_HOST"
        )
    return _start_engine(better)


def _start_engine(runtime: str | None) -> PodmanClient:
    service = _Service(runtime)
    try:
        return _connect(service.host, service)
    except BaseException:
        service.close()
        raise


def _connect(host: str, service: _Service | None = None) -> PodmanClient:
    try:
        try_socket(host)
        client = docker.DockerClient(base_url=host, timeout=TIMEOUT)
        client.ping()
        if not is_podman(client):
            raise SandboxError(f"what answers at {host} is not Podman: unset CONTAINER_HOST, or use --sandbox=docker")
        return PodmanClient(client, host, service=service)
    except (DockerException, OSError, LookupError, TypeError, ValueError) as error:
        raise SandboxError(f"no Podman service answers at {host}: {explain(error)}") from error


def _listening() -> str:
    """Return where this user's service listens already; empty if none does."""
    folder = "/run" if os.geteuid() == 0 else os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    path = f"{folder}/podman/podman.sock"
    try:
        try_socket(f"unix://{path}")
    except OSError:
        return ""
    return f"unix://{path}"


class _Service:
    """``podman system service`` for this process."""

    def __init__(self, runtime: str | None) -> None:
        if shutil.which("podman") is None:
            raise SandboxError(
                "there is no Podman on this machine: install it (`sudo apt install podman`), or run agents that you "
                "trust without it (`--sandbox=local`)"
            )
        self._folder = _create_folder()
        path = self._folder / "podman.sock"
        self.host = f"unix://{path}"
        self._log = self._folder / "log"
        options = [] if runtime is None else [f"--runtime={runtime}"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                ["podman", *options, "system", "service", f"--time={_IDLE_SECONDS}", self.host],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._folder,  # where conmon leaves a file `oom` for a container that ran out of memory
                start_new_session=True,  # Ctrl-C must not end it, because we still need it then
            )
        atexit.register(self.close)
        self._connection = socket.socket(socket.AF_UNIX)
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                self._connection.connect(str(path))
                break
            except OSError as error:
                if self._process.poll() is None and time.monotonic() < deadline:
                    time.sleep(0.05)
                    continue
                text = " ".join(self._log.read_text(errors="replace").split())[-500:]
                self.close()
                raise SandboxError(f"`podman system service` does not start: {text or error}") from error
        self._connection.sendall(_EVENTS.encode())

    def close(self) -> None:
        atexit.unregister(self.close)
        self._connection.close()
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


def open_client(kind: str = DOCKER, runtime: str | None = None) -> ContainerClient:
    """Open the engine ``docker`` or ``podman`` of this machine, for containers with this runtime or the default one.

    Raises SandboxError, which says how to get it.
    """
    if kind == PODMAN:
        return open_podman(runtime)
    if kind != DOCKER:
        raise SandboxError(f"engine {kind!r} must be {DOCKER} or {PODMAN}")
    client = connect()
    if is_podman(client):
        raise SandboxError(f"the program at {docker_host()} is Podman: use it with --sandbox=podman")
    return ContainerClient(client, docker_host())
