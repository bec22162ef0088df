"""GPU leases: whole GPUs, or MIG instances, never two runs on one, also between sessions and users of one machine."""

from __future__ import annotations

import fcntl
import os
import random
import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from pytest_mlebench.errors import SandboxError
from pytest_mlebench.progress import Note, Reporter, silent
from pytest_mlebench.units import pluralize

_PAUSE = (0.5, 1.5)
_LISTED_GPU = re.compile(r"GPU \d+: .*\(UUID: (GPU-[\w-]+)\)")
_LISTED_INSTANCE = re.compile(r"\s+MIG (\S+)\s+Device\s+\d+: \(UUID: (MIG-[\w/-]+)\)")
_TRIES = 20


@dataclass(frozen=True)
class Gpu:
    """One GPU of this machine, or a MIG instance of one: what a run can be given as a whole.

    Its ``uuid`` names it for good, its index may change. ``parent`` is the UUID of the GPU that an instance is of.
    """

    index: int
    uuid: str
    name: str
    parent: str = ""

    @property
    def names(self) -> set[str]:
        """What users may call it: its UUID, and for an instance also its GPU, which means all instances of that."""
        return {str(self.index), self.uuid, self.parent} - {""}


def detect() -> list[Gpu]:
    """The NVIDIA GPUs that this machine's driver shows, a GPU with MIG instances as these; none without a driver."""
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
    """What ``nvidia-smi`` says of all GPUs, or these, a line of comma-separated values for each; none if it fails."""
    chosen = [f"--id={','.join(uuids)}"] if uuids else []
    return _nvidia_smi(f"--query-gpu={fields}", "--format=csv,noheader,nounits", *chosen)


def _nvidia_smi(*arguments: str) -> list[str]:
    try:
        run = subprocess.run(["nvidia-smi", *arguments], capture_output=True, text=True, timeout=60, check=True)
    except (OSError, ValueError, subprocess.SubprocessError):
        return []
    return run.stdout.splitlines()


class GpuPool:
    """The GPUs that runs may take, ``ids`` (indices or UUIDs) if given, else all of the machine's.

    A lease is a lock on a file, one for each GPU in a folder that all users of the machine share: the kernel frees it
    when its holder dies.
    """

    def __init__(self, ids: Sequence[str] = (), *, folder: Path | None = None) -> None:
        self._ids = tuple(map(str, ids))
        # Not $TMPDIR, which may differ between users, jobs and shells.
        self._folder = folder or Path(os.environ.get("MLEBENCH_GPU_LOCKS") or "/var/tmp/mlebench-gpus")

    def available(self) -> list[Gpu]:
        """Raises SandboxError for an id that no GPU has."""
        found = detect()
        if not self._ids:
            return found
        chosen = [gpu for gpu in found if gpu.names & set(self._ids)]
        unknown = [id for id in self._ids if not any(id in gpu.names for gpu in found)]
        if unknown:
            shown = ", ".join(f"{gpu.index} ({gpu.name}, {gpu.uuid})" for gpu in found) or "none"
            raise SandboxError(f"there is no GPU {', '.join(unknown)} here; there are: {shown}")
        return chosen

    def check(self, number: int) -> None:
        """Raises SandboxError if so many GPUs can never be had."""
        if number <= 0:
            return
        available = self.available()
        if not available:
            raise SandboxError(
                f"each run is to have {number} GPU{'s'[: number != 1]}, but nvidia-smi shows none: install NVIDIA's "
                "driver and container toolkit, or run with --gpus 0"
            )
        if len(available) < number:
            raise SandboxError(f"each run is to have {number} GPUs, but only {len(available)} may be used")

    @contextmanager
    def lease(self, number: int, reporter: Reporter = silent) -> Iterator[list[Gpu]]:
        """Hold so many GPUs; waits until they are free, and reports once that it waits.

        All or none: two runs that wait for two GPUs must not hold one each.
        """
        self.check(number)
        if number <= 0:
            yield []
            return
        gpus = self.available()
        reported = False
        while len(held := self._take(gpus, number)) < number:
            if not reported:
                reporter(Note(f"waiting for {number} of {pluralize(len(gpus), 'GPU')}: other runs use them"))
                reported = True
            time.sleep(random.uniform(*_PAUSE))
        try:
            yield [gpu for gpu, _ in held]
        finally:
            _release(held)

    @contextmanager
    def free(self) -> Iterator[list[Gpu]]:
        """Hold those that nobody holds just now, which may be none."""
        held = [(gpu, descriptor) for gpu in self.available() if (descriptor := self._lock(gpu)) is not None]
        try:
            yield [gpu for gpu, _ in held]
        finally:
            _release(held)

    def _take(self, gpus: list[Gpu], number: int) -> list[tuple[Gpu, int]]:
        held: list[tuple[Gpu, int]] = []
        try:
            for gpu in gpus:
                if len(held) == number:
                    break
                if (descriptor := self._lock(gpu)) is not None:
                    held.append((gpu, descriptor))
        except BaseException:
            _release(held)
            raise
        if len(held) < number:
            _release(held)
            return []
        return held

    def _lock(self, gpu: Gpu) -> int | None:
        try:
            if not self._folder.exists():
                self._folder.mkdir(parents=True, exist_ok=True)
                self._folder.chmod(0o1777)
            descriptor = _open(self._folder / f"{gpu.uuid.replace('/', '_')}.lock")
        except OSError as error:
            raise SandboxError(f"GPU leases cannot be kept in {self._folder}: {error}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return descriptor


def _open(path: Path) -> int:
    """A lock's file, made if it is not there; raises OSError.

    Nobody's link is followed, as the folder is everybody's. A file of another user is opened without O_CREAT, which
    the kernel refuses in such folders (``fs.protected_regular``).
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    for attempt in range(_TRIES):
        try:
            return os.open(path, flags)
        except FileNotFoundError:
            with suppress(FileExistsError):  # another user made it meanwhile
                descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666)
                os.fchmod(descriptor, 0o666)  # whatever the umask is
                return descriptor
        except PermissionError:  # its maker is between these two lines
            if attempt == _TRIES - 1:
                raise
            time.sleep(0.05)
    raise FileExistsError(f"{path} comes and goes")


def _release(held: list[tuple[Gpu, int]]) -> None:
    for _, descriptor in held:
        os.close(descriptor)
