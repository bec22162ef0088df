"""A container that runs one agent, or tests an image: how it is confined, started, stopped, emptied and removed.

Each run has its own mounts, user id and disk, so that runs do not share tables of the kernel. SECURITY.md lists these,
and what runs do share. A runtime with its own kernel (gVisor, Kata) separates terminals by itself.
"""

from __future__ import annotations

import base64
import json
import logging
import math
import os
import secrets
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from docker.errors import APIError, DockerException, NotFound
from docker.types import DeviceRequest, DriverConfig, LogConfig, Mount, Ulimit

from pytest_mlebench import defaults
from pytest_mlebench.errors import SandboxError
from pytest_mlebench.io.files import bundled
from pytest_mlebench.io.processes import LABEL, owned_prefix, owner_labels, sigterm_interrupts
from pytest_mlebench.io.progress import Note, Reporter
from pytest_mlebench.records.outcome import Limits
from pytest_mlebench.sandbox.contract import format_duration
from pytest_mlebench.sandbox.docker.client import PODMAN, ContainerClient, client_errors, free_space
from pytest_mlebench.sandbox.gpus import Gpu
from pytest_mlebench.sandbox.limits import TEST_SECONDS, DiskWatcher, oom_events, oom_kills
from pytest_mlebench.sandbox.seccomp import profile as seccomp_profile
from pytest_mlebench.sandbox.wiring import DATA

INIT = "/opt/mlebench/init.py"
USERS = range(0x70000000, 0x7FFFFFFF)
"""User ids that neither distributions nor systemd assign to users or containers. A run's id is not predictable."""
_TERMINALS = 128
_OWN_KERNEL = ("runsc", "kata")


def create_mount_sources(folder: Path, public: Path) -> None:
    """Create what a run's mounts need in its folder."""
    # A mount's options cannot contain every path: `:` and `,` are separators, and the length is limited.
    (folder / "data").symlink_to(public.resolve())
    (folder / "nothing").mkdir()
    shutil.copyfile(bundled("environment") / "init.py", folder / "init.py")
    for path in (folder / "init.py", folder / "nothing"):
        path.chmod(0o755)


def shared_data(public: Path) -> Mount:
    """Return a plain mount of the data, for use if overlays are not possible."""
    return Mount(DATA, str(public.resolve()), type="bind", read_only=True)


def run_mounts(folder: Path, runtime: str) -> Sequence[Mount]:
    """Return the mounts of ``create_mount_sources`` and of terminals.

    They are anonymous volumes, which are removed with the container.
    """
    mounts = [_volume(DATA, "overlay", f"ro,lowerdir={folder}/data:{folder}/nothing")]
    if not any(name in runtime for name in _OWN_KERNEL):
        options = f"nosuid,noexec,newinstance,ptmxmode=0666,mode=0620,gid=5,max={_TERMINALS}"
        mounts.append(_volume("/dev/pts", "devpts", options))
    return mounts


def _volume(target: str, kind: str, options: str) -> Mount:
    driver = DriverConfig("local", {"type": kind, "device": kind, "o": options})
    return Mount(target, None, type="volume", no_copy=True, driver_config=driver)


PREFIX = "mlebench-disk-"
_PROGRAMS = ("mkfs.ext4", "mount", "umount")
_METADATA_SHARE, _METADATA_BYTES = 0.03, 2 << 20
"""Overhead of a file system without a journal."""
_BYTES_PER_INODE, _MIN_INODES = 16384, 4096
_NOT_BOUND = {"dev", "proc", "sys"}
_MAX_OPTIONS = 4000
"""Maximum bytes of a mount's options: slightly less than a page."""


def layers(image: dict[str, Any]) -> list[Path]:
    """Return the local folders of an image's layers, top first; empty if a disk cannot be limited this way."""
    if os.geteuid() != 0 or not Path("/dev/loop-control").exists() or not all(map(shutil.which, _PROGRAMS)):
        return []
    driver = image.get("GraphDriver") or {}
    data = driver.get("Data") or {}
    if driver.get("Name") not in ("overlay2", "overlay") or not data.get("UpperDir"):
        return []
    folders = [_short(Path(text)) for text in (data["UpperDir"], *(data.get("LowerDir") or "").split(":")) if text]
    fits = sum(len(str(folder)) + 1 for folder in folders) < _MAX_OPTIONS - 300
    return folders if fits and all(folder.is_dir() for folder in folders) else []


def _short(layer: Path) -> Path:
    """Return the engine's short path of a layer, because the length of a mount's options is limited."""
    with suppress(OSError):
        short = layer.parents[1] / "l" / (layer.parent / "link").read_text().strip()
        if short.samefile(layer):
            return short
    return layer


@contextmanager
def limited_disk(limit: int, image_layers: Sequence[Path], volumes: Sequence[str]) -> Iterator[list[Mount]]:
    """Yield mounts that give a container a disk of ``limit`` bytes. ``volumes`` are paths that its image declares.

    The disk is a file system in a sparse file. An overlay, with the image's layers below and the disk on top, is
    mounted over every folder of the container, whose own layer is read-only. So the kernel enforces the limit, and
    nothing is copied.
    """
    folder = Path(tempfile.mkdtemp(prefix=owned_prefix(PREFIX), dir="/var/tmp"))
    try:
        disk, root = folder / "disk", folder / "root"
        disk.mkdir()
        root.mkdir()
        file = folder / "disk.img"
        with file.open("wb") as image:
            image.truncate(int(limit * (1 + _METADATA_SHARE)) + _METADATA_BYTES)
        inodes = max(_MIN_INODES, limit // _BYTES_PER_INODE)
        options = ["-O", "^has_journal", "-E", "nodiscard,lazy_itable_init=1", "-m", "0", "-N", str(inodes)]
        _run("mkfs.ext4", "-q", "-F", *options, str(file))
        _run("mount", "-o", "loop,nodev,nosuid,noatime", str(file), str(disk))
        (disk / "upper").mkdir()
        (disk / "work").mkdir()
        lower = ":".join(map(str, image_layers))
        overlay = f"lowerdir={lower},upperdir={disk}/upper,workdir={disk}/work"
        _run("mount", "-t", "overlay", "-o", f"nodev,nosuid,{overlay}", "overlay", str(root))
        shutil.copystat(image_layers[0], disk / "upper")
        for volume in volumes:
            _make_folder(root, volume)
        names = [f"/{path.name}" for path in root.iterdir() if path.is_dir() and not path.is_symlink()]
        targets = dict.fromkeys([*(name for name in names if name[1:] not in _NOT_BOUND), *volumes])
        yield [Mount(target, f"{root}{target}", type="bind") for target in targets]
    finally:
        remove_disk(folder)


def _make_folder(root: Path, volume: str) -> None:
    """Create the folder of a volume declared by a Dockerfile. Raises SandboxError for a path that could lead elsewhere.

    The engine mounts it into the container, and would follow the image's links to any place on this machine.
    """
    path = root
    names = volume.removeprefix("/").split("/")
    if not volume.startswith("/") or any(name in ("", ".", "..") for name in names) or names[0] in _NOT_BOUND:
        raise SandboxError(
            f"the image's VOLUME {volume!r} is not a plain path: write it without dots and double slashes"
        )
    for name in names:
        path /= name
        if path.is_symlink():
            raise SandboxError(f"the image's VOLUME {volume!r} leads through a link: name the folder itself")
        try:
            path.mkdir(exist_ok=True)
        except OSError as error:
            raise SandboxError(f"the image's VOLUME {volume!r} cannot be a folder: {error.strerror}") from error


def remove_disk(folder: Path) -> None:
    """Unmount and remove a disk, whatever state it is in."""
    for mounted in ("root", "disk"):
        if (folder / mounted).is_mount():
            try:
                _run("umount", str(folder / mounted))
            except SandboxError:
                with suppress(SandboxError):
                    _run("umount", "--lazy", str(folder / mounted))
    if not any((folder / mounted).is_mount() for mounted in ("root", "disk")):
        shutil.rmtree(folder, ignore_errors=True)


def _run(*command: str) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    except subprocess.CalledProcessError as error:
        raise SandboxError(f"a run's disk cannot be created: {command[0]}: {error.stderr.strip()}") from error
    except (OSError, subprocess.SubprocessError) as error:
        raise SandboxError(f"a run's disk cannot be created: {error}") from error


logger = logging.getLogger(__name__)

_MODE_LINK = 1 << 27
"""The bit that marks a link in Go's file modes."""
HARNESS = "/opt/mlebench/private/harness"

# The first process needs these to hand over the home, to switch to the agent's user, and to signal its processes. The
# agent itself has none, and `no-new-privileges` prevents it from gaining any.
_CAPABILITIES = ["SETUID", "SETGID", "CHOWN", "KILL"]


def configuration(
    limits: Limits,
    *,
    own: Sequence[Mount],
    sockets: Path,
    network_mode: str,
    gpus: Sequence[Gpu],
    runtime: str | None,
    privileged: bool,
    shm_bytes: int,
    disk: Sequence[Mount] = (),
) -> dict[str, Any]:
    """Return the arguments of ``containers.create`` that confine an agent.

    ``own`` are the mounts of the data and of other things that belong to the run. ``disk``, if given, holds everything
    that the run may write.
    """
    return {
        **_confined(limits, gpus, runtime, privileged=privileged),
        # Always ours, whatever entry point the image has.
        "entrypoint": ["/usr/bin/python3", "-I", INIT],
        "user": "root",
        "hostname": "sandbox",
        # A HEALTHCHECK of the image would run next to the first process, as root.
        "healthcheck": {"test": ["NONE"]},
        "network_mode": network_mode,
        # All are read-only except the disk: the agent's files are collected from the container when it has ended.
        "mounts": [
            *disk,
            *own,
            Mount(HARNESS, str(sockets), type="bind", read_only=True),
            Mount(INIT, str(sockets.parent / "init.py"), type="bind", read_only=True),
        ],
        "read_only": bool(disk),
        "shm_size": shm_bytes,
        "cap_add": [] if privileged else _CAPABILITIES,
    }


def _confined(limits: Limits, gpus: Sequence[Gpu], runtime: str | None, *, privileged: bool = False) -> dict[str, Any]:
    """Return the arguments of ``containers.create`` for an agent, or a test of its image, with the same confinement."""
    confined: dict[str, Any] = {
        "command": [],
        "pids_limit": limits.processes,
        "ulimits": [Ulimit(name="core", soft=0, hard=0)],
        # The output goes only to our log, which is bounded.
        "log_config": LogConfig(type="none"),
    }
    if limits.memory is not None:
        confined |= {"mem_limit": limits.memory, "memswap_limit": limits.memory}  # equal values: no swap
    if limits.cpus is not None:
        confined["nano_cpus"] = int(limits.cpus * 1e9)
    if limits.disk is not None:  # takes effect at once, not only at the next check
        confined["ulimits"].append(Ulimit(name="fsize", soft=limits.disk, hard=limits.disk))
    if runtime:
        confined["runtime"] = runtime
    if gpus:
        confined["device_requests"] = [DeviceRequest(device_ids=[gpu.uuid for gpu in gpus], capabilities=[["gpu"]])]
    if privileged:
        return confined | {"privileged": True}
    return confined | {"cap_drop": ["ALL"], "security_opt": ["no-new-privileges", f"seccomp={seccomp_profile()}"]}


class Container:
    """One container from creation to removal. Every method raises SandboxError if the engine fails."""

    def __init__(self, engine: ContainerClient, name: str) -> None:
        self.name = name
        self._engine = engine
        self._client = engine.client
        self._output: threading.Thread | None = None
        self._stream: Any = None
        self._log_error: OSError | None = None
        self.has_quota = False
        self._oom_events: Path | None = None

    def create(self, image: str, settings: Mapping[str, Any], labels: Mapping[str, str], *, quota: int | None) -> None:
        """Create it. ``quota`` (bytes) limits what it writes, if the storage driver can (see ``has_quota``)."""
        self._created = time.time()
        with _engine("create"):
            if quota is not None:
                try:
                    limited = {**settings, "storage_opt": {"size": str(quota)}}
                    self._engine.create(image, self.name, labels, limited)
                    self.has_quota = True
                    return
                except APIError as error:
                    if "storage-opt" not in str(error) and "quota" not in str(error):
                        raise
            self._engine.create(image, self.name, labels, settings)

    def start(self, write: Callable[[bytes], object]) -> None:
        """Start it. ``write`` receives all its output, from the first byte."""
        with _engine("start"):
            stream = self._client.api.attach(self.name, stdout=True, stderr=True, stream=True, logs=False)
            self._stream = stream
            self._output = threading.Thread(target=self._copy, args=(stream, write), daemon=True)
            self._output.start()
            self._client.api.start(self.name)
        with suppress(OSError, ValueError, SandboxError):
            self._oom_events = oom_events(int(self.state()["Pid"]))

    def _copy(self, stream: Iterator[bytes], write: Callable[[bytes], object]) -> None:
        with suppress(DockerException, OSError, ValueError):  # the engine closed the stream
            for block in stream:
                if self._log_error is None:  # otherwise keep reading: a full pipe would block the agent
                    try:
                        write(block)
                    except OSError as error:
                        self._log_error = error

    def alive(self) -> bool:
        return bool(self.state()["Running"])

    def state(self) -> dict[str, Any]:
        with _engine("inspect"):
            state: dict[str, Any] = self._client.api.inspect_container(self.name)["State"]
            return state

    def wait(self, seconds: float) -> int:
        """Wait for it to end. Returns its exit status. Raises SandboxError if it takes longer."""
        deadline = time.monotonic() + seconds
        while self._output is not None and self._output.is_alive():
            if time.monotonic() > deadline:
                raise SandboxError(f"container {self.name} did not end within {format_duration(seconds)}")
            self._output.join(1)  # in short steps, so that signal handlers can run in between
        with _engine("wait for"):
            left = max(1, math.ceil(deadline - time.monotonic()))
            return int(self._client.api.wait(self.name, timeout=left)["StatusCode"])

    def written(self) -> int | None:
        """Return the bytes that it holds in addition to its image; None if the engine cannot measure them.

        If a path is too long, Docker returns -1, and Podman an error.
        """
        with suppress(DockerException, OSError):
            for entry in self._client.api.containers(all=True, size=True, filters={"name": f"^/?{self.name}$"}):
                size = int(entry.get("SizeRw") or 0)
                return size if size >= 0 else None
            return 0
        return None if self._engine.name == PODMAN else 0

    def disk_watcher(self, limit: int | None, share: int | None) -> DiskWatcher:
        free = partial(free_space, self._engine.info)
        return DiskWatcher(self.written, free, self.kill, limit=limit, share=share)

    def oom_kills(self) -> int | None:
        if self._oom_events is None:
            return None
        with suppress(OSError, ValueError, KeyError):
            return oom_kills(self._oom_events)
        # Once the container has ended, its control group is gone, but the engine reports what it saw.
        return int(bool(self.state().get("OOMKilled")))

    def was_stopped_from_outside(self) -> bool:
        """Whether anyone else stopped or removed it through the engine."""
        try:
            self._client.api.inspect_container(self.name)
            window = {"since": int(self._created), "until": int(time.time()) + 1}
            filters = json.dumps({"container": [self.name]})
            # The client's own method waits without a time limit.
            with self._get("events", {**window, "filters": filters}) as response:
                response.raise_for_status()
                events = [json.loads(line) for line in response.iter_lines() if line]
            return any(event["Action"] in ("kill", "stop", "destroy", "pause", "restart") for event in events)
        except (DockerException, OSError, ValueError, LookupError, TypeError):
            return True

    def kill(self) -> None:
        with suppress(DockerException, OSError):
            self._client.api.kill(self.name)

    def finish_output(self) -> None:
        if self._output is not None:
            self._output.join(30)
            _close(self._stream)
        if self._log_error is not None:
            raise SandboxError(f"the agent's output could not be written: {self._log_error}")

    @contextmanager
    def archive(self, path: str) -> Iterator[Iterator[bytes]]:
        """Yield a tar stream of a path, which need not be read to its end; empty if the container has no such path.

        Raises SandboxError if the engine cannot read it.
        """
        # The client's own method is not used, because its stream cannot be closed: the engine would keep reading, and
        # the container stay locked, for hours if an agent created a file of terabytes.
        with _engine("read"), self._get(f"containers/{self.name}/archive", {"path": path}) as response:
            if response.status_code == 404:
                yield iter(())
                return
            response.raise_for_status()
            if self._engine.follows_links and _is_link(response.headers.get("X-Docker-Container-Path-Stat", "")):
                raise SandboxError("a link")
            yield response.iter_content(1 << 20)

    def _get(self, path: str, parameters: Mapping[str, Any]) -> Any:
        api = self._client.api
        url = f"{api.base_url}/v{api.api_version}/{path}"
        return api.get(url, params=parameters, stream=True, timeout=api.timeout)

    def close(self) -> None:
        """Close its output, even if it was not read to its end."""
        if self._stream is not None:
            _close(self._stream)

    def remove(self) -> None:
        try:
            self._client.api.remove_container(self.name, force=True, v=True)
        except NotFound:
            pass
        except (DockerException, OSError) as error:
            logger.warning("container %s could not be removed (`mlebench clean` will): %s", self.name, error)


def _is_link(described: str) -> bool:
    """Whether the engine describes a path as a link, or in a way that cannot be parsed."""
    try:
        return bool(int(json.loads(base64.b64decode(described))["mode"]) & _MODE_LINK)
    except (ValueError, LookupError, TypeError, RecursionError):
        return True


def _close(stream: Any) -> None:
    """Close a stream of the client, and the response around it, which the client leaves open."""
    with suppress(OSError, AttributeError):
        stream.close()
    with suppress(OSError, AttributeError):
        stream._response.close()


def _engine(what: str) -> AbstractContextManager[None]:
    return client_errors(f"{what} a container")


_PROGRAM = ("/opt/agent/bin/python", "-u", "/opt/mlebench/check.py")
_MAX_LINE, _MAX_LINES = 1000, 1000
"""Bytes of a line, and lines, that are reported of a self-test: the image's programs may print anything."""


def run_self_test(
    engine: ContainerClient,
    image: str,
    *arguments: str,
    limits: Limits,
    share: int | None = None,
    gpus: Sequence[Gpu] = (),
    runtime: str | None = None,
    reporter: Reporter,
    program: Sequence[str] = _PROGRAM,
    seconds: float = TEST_SECONDS,
) -> None:
    """Test an image, and report each line of output. Raises SandboxError, which names what failed.

    ``limits`` are those of a run, and ``share`` is its share of the disk.
    """
    container = Container(engine, f"mlebench-check-{secrets.token_hex(6)}")
    lines = _Lines(reporter)
    with ExitStack() as stack:
        stack.enter_context(sigterm_interrupts())
        stack.callback(container.remove)
        stack.callback(container.close)
        settings = {
            **_confined(limits, gpus, runtime),
            "entrypoint": [*program, *arguments],
            "user": "nonroot",
            "network_mode": "none",
            "shm_size": defaults.SHM_BYTES,
        }
        container.create(image, settings, owner_labels() | {f"{LABEL}keep": "false"}, quota=None)
        container.start(lines.write)
        with container.disk_watcher(limits.disk, share) as disk:
            status = container.wait(seconds)
        container.finish_output()
    if disk.full:
        raise SandboxError(f"image {image}: its self-test filled the disk: {disk.full}")
    if status:
        raise SandboxError(f"image {image}: {lines.last or f'its self-test exited with status {status} and no output'}")
    reporter(Note(lines.last))


class _Lines:
    """Receives output in blocks, and reports whole lines. The last line is held back, as it may be the verdict."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._line = b""
        self._reported = 0
        self.last = ""

    def write(self, block: bytes) -> None:
        *ended, rest = (self._line + block).split(b"\n")
        self._line = rest[:_MAX_LINE]
        for part in ended:
            line = part[:_MAX_LINE].decode(errors="replace").rstrip()
            if line and self.last and self._reported < _MAX_LINES:
                self._reporter(Note(self.last))
                self._reported += 1
            self.last = line or self.last
