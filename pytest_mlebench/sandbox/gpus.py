"""GPU leases: each run gets whole GPUs or MIG instances exclusively, across all sessions and users of a machine."""

from __future__ import annotations

import errno
import fcntl
import os
import platform
import random
import re
import secrets
import socket
import stat
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import chain, repeat
from pathlib import Path

from pytest_mlebench.errors import SandboxError, reason
from pytest_mlebench.io.progress import Note, Reporter, silent
from pytest_mlebench.io.units import pluralize
from pytest_mlebench.records.outcome import Hardware
from pytest_mlebench.sandbox.limits import Machine, Watcher

_PAUSE = (0.5, 1.5)
_LISTED_GPU = re.compile(r"GPU \d+: .*\(UUID: (GPU-[\w-]+)\)")
_LISTED_INSTANCE = re.compile(r"\s+MIG (\S+)\s+Device\s+\d+: \(UUID: (MIG-[\w/-]+)\)")
_TRIES = 20


@dataclass(frozen=True)
class Gpu:
    """One GPU of this machine, or a MIG instance of one. A run gets it as a whole.

    ``uuid`` is permanent, ``index`` may change. ``parent`` is the UUID of an instance's GPU.
    """

    index: int
    uuid: str
    name: str
    parent: str = ""

    @property
    def names(self) -> set[str]:
        """The names that users may give: its index and UUID. An instance's GPU stands for all its instances."""
        return {str(self.index), self.uuid, self.parent} - {""}


def detect() -> list[Gpu]:
    """Return the NVIDIA GPUs that the driver lists, with MIG instances in place of their GPU; none without a driver."""
    rows = [[field.strip() for field in line.split(",", 2)] for line in query("index,uuid,name")]
    gpus = [Gpu(int(row[0]), row[1], row[2]) for row in rows if len(row) == 3 and row[0].isdecimal()]
    instances: dict[str, list[Gpu]] = {}
    parent: Gpu | None = None
    for line in _nvidia_smi("-L") if gpus else ():
        if match := _LISTED_GPU.match(line):
            parent = next((gpu for gpu in gpus if gpu.uuid == match[1]), None)
        elif parent is not None and (match := _LISTED_INSTANCE.match(line)):
            instance = Gpu(parent.index, match[2], f"{parent.name} MIG {match[1]}", parent.uuid)
            instances.setdefault(parent.uuid, []).append(instance)
    return [unit for gpu in gpus for unit in instances.get(gpu.uuid, [gpu])]


def query(fields: str, *uuids: str) -> list[str]:
    """Return ``nvidia-smi``'s comma-separated values, one line for each GPU, or each of these; none if it fails."""
    chosen = [f"--id={','.join(uuids)}"] if uuids else []
    return _nvidia_smi(f"--query-gpu={fields}", "--format=csv,noheader,nounits", *chosen)


def _nvidia_smi(*arguments: str) -> list[str]:
    try:
        run = subprocess.run(["nvidia-smi", *arguments], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, ValueError, subprocess.SubprocessError):
        return []
    return run.stdout.splitlines()


class GpuPool:
    """The GPUs that runs may use: ``ids`` (indices or UUIDs) if given, else all GPUs of the machine.

    A lease is a lock on a file, one per GPU, in a folder that all users of the machine share. The kernel releases it
    when its holder dies.
    """

    def __init__(self, ids: Sequence[str] = (), *, folder: Path | None = None) -> None:
        self._ids = tuple(map(str, ids))
        # Not $TMPDIR, which may differ between users, jobs and shells.
        self._folder = folder or Path(os.environ.get("MLEBENCH_GPU_LOCKS") or "/var/tmp/mlebench-gpus")

    def available(self) -> list[Gpu]:
        """Return the GPUs that runs may use. Raises SandboxError for an id that no GPU has."""
        found = detect()
        if not self._ids:
            return found
        chosen = [gpu for gpu in found if gpu.names & set(self._ids)]
        unknown = [id for id in self._ids if not any(id in gpu.names for gpu in found)]
        if unknown:
            listed = ", ".join(f"{gpu.index} ({gpu.name}, {gpu.uuid})" for gpu in found) or "none"
            raise SandboxError(f"there is no GPU {', '.join(unknown)} here; available: {listed}")
        return chosen

    def check(self, number: int) -> list[Gpu]:
        """Return the GPUs that a run with this many may get. Raises SandboxError if there can never be enough."""
        if number <= 0:
            return []
        available = self.available()
        if not available:
            raise SandboxError(
                f"each run needs {number} GPU{'s'[: number != 1]}, but nvidia-smi shows none: install NVIDIA's "
                "driver and container toolkit, or run with --gpus 0"
            )
        if len(available) < number:
            raise SandboxError(f"each run needs {number} GPUs, but only {len(available)} may be used")
        return available

    @contextmanager
    def lease(self, number: int, reporter: Reporter = silent) -> Iterator[list[Gpu]]:
        """Hold this many GPUs. Waits until they are free, and reports once that it is waiting.

        It takes all or none: two runs that wait for two GPUs must not hold one each.
        """
        gpus = self.check(number)
        reported = False
        while True:
            with ExitStack() as held:
                if len(taken := self._take(gpus, number, held)) >= number:
                    yield taken
                    return
            if not reported:
                reporter(Note(f"waiting for {number} of {pluralize(len(gpus), 'GPU')}: other runs use them"))
                reported = True
            time.sleep(random.uniform(*_PAUSE))

    @contextmanager
    def free(self) -> Iterator[list[Gpu]]:
        """Hold the GPUs that are free now, if any."""
        gpus = self.available()
        with ExitStack() as held:
            yield self._take(gpus, len(gpus), held)

    def _take(self, gpus: list[Gpu], number: int, held: ExitStack) -> list[Gpu]:
        taken: list[Gpu] = []
        for gpu in gpus:
            if len(taken) < number and (descriptor := self._lock(gpu)) is not None:
                held.callback(os.close, descriptor)
                taken.append(gpu)
        return taken

    def _lock(self, gpu: Gpu) -> int | None:
        name = f"{gpu.uuid.replace('/', '_')}.lock"
        try:
            folder = _open_folder(self._folder)
            try:
                return _lock_file(folder, name)
            finally:
                os.close(folder)
        except OSError as error:
            where = self._folder / (error.filename or "")
            raise SandboxError(f"GPU leases cannot be kept in {self._folder}: {where}: {reason(error)}") from error


def _open_folder(path: Path) -> int:
    """Open the folder of locks, and create it for all users if it is missing. Raises OSError.

    Every user may write to its parent, so links are not followed. Only a folder created here gets new permissions.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    is_new = False
    with suppress(FileExistsError):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir()
        is_new = True
    descriptor = os.open(path, flags)
    if is_new and os.fstat(descriptor).st_uid == os.geteuid():
        os.fchmod(descriptor, 0o1777)
    return descriptor


def _lock_file(folder: int, name: str) -> int | None:
    """Take a lock and return its descriptor; None if another process holds it. Raises OSError."""
    for _ in range(_TRIES):
        with ExitStack() as opened:
            descriptor = _open(folder, name)
            opened.callback(os.close, descriptor)
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, "it is not a regular file", name)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return None
            if _still_has_name(descriptor, folder, name):
                with suppress(PermissionError):  # another user's file that is not writable
                    os.utime(descriptor)  # so that no clean-up of old files removes it
                opened.pop_all()
                return descriptor
    raise FileExistsError(errno.EEXIST, "it is removed again and again", name)


def _open(folder: int, name: str) -> int:
    """Open a lock's file, and create it if it is missing. Raises OSError.

    Links are not followed, and pipes do not block. A file of another user is opened without O_CREAT, which the kernel
    refuses in such folders (``fs.protected_regular``). A new file gets its name only once every user can open it.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    with suppress(FileNotFoundError):
        return os.open(name, flags, dir_fd=folder)
    partial = f".{name}-{secrets.token_hex(6)}"
    descriptor = os.open(partial, flags | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=folder)
    try:
        os.fchmod(descriptor, 0o666)  # regardless of the umask
        with suppress(FileExistsError):  # another user created it meanwhile
            os.link(partial, name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        os.close(descriptor)
        os.unlink(partial, dir_fd=folder)
    return os.open(name, flags, dir_fd=folder)


def _still_has_name(descriptor: int, folder: int, name: str) -> bool:
    """Whether a file still has its name. Other processes do not see a lock on a removed file."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(name, dir_fd=folder, follow_symlinks=False))
    except FileNotFoundError:
        return False


class GpuUsage(Watcher):
    """Samples GPU usage while an agent runs. Does nothing for a run without GPUs.

    ``summary`` maps the UUID of each GPU to the number of ``samples``, ``utilization_mean`` and ``utilization_peak`` in
    percent, and ``memory_mean`` and ``memory_peak`` in bytes. Values that the driver does not report are omitted, and
    so are MIG instances. The first sample is taken after ``first_seconds``, later ones every ``interval_seconds``.
    """

    def __init__(self, gpus: Sequence[Gpu], *, first_seconds: float = 1.0, interval_seconds: float = 10.0) -> None:
        super().__init__()
        # For a MIG instance, the driver reports the usage of the whole GPU, not of this run alone.
        self._uuids = [gpu.uuid for gpu in gpus if not gpu.parent]
        self._pauses = chain([first_seconds], repeat(interval_seconds))
        self._seen: dict[str, tuple[list[int], list[int]]] = {}

    @property
    def summary(self) -> dict[str, dict[str, float]]:
        found: dict[str, dict[str, float]] = {}
        for uuid, seen in self._seen.items():
            for name, unit, values in zip(("utilization", "memory"), (1, 1 << 20), seen, strict=True):
                if values:
                    known = found.setdefault(uuid, {}) | {"samples": len(values)}
                    known[f"{name}_mean"] = round(sum(values) * unit / len(values), 1)
                    found[uuid] = known | {f"{name}_peak": max(values) * unit}
        return found

    def watch(self) -> None:
        while self._uuids and not self.done.wait(next(self._pauses)):
            for line in query("uuid,utilization.gpu,memory.used", *self._uuids):
                uuid, *texts = [text.strip() for text in line.split(",")]
                if uuid in self._uuids and len(texts) == 2:
                    for values, text in zip(self._seen.setdefault(uuid, ([], [])), texts, strict=True):
                        if text.isdecimal():  # else [N/A], [Not Supported], …
                            values.append(int(text))


def this_machine() -> Hardware:
    """Return this machine's hardware. GPUs are those that ``nvidia-smi`` lists."""
    machine = Machine.here()
    return Hardware(
        host=socket.gethostname(),
        cpu=_cpu_model(),
        cpus=machine.cpus,
        memory=machine.memory,
        gpus=dict(Counter(gpu.name for gpu in detect())),
    )


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, "") or platform.processor() or platform.machine()
