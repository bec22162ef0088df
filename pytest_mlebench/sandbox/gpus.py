"""GPU leases: whole GPUs, never two runs on one, also between invocations and users of one machine."""

from __future__ import annotations

import fcntl
import os
import random
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


@dataclass(frozen=True)
class Gpu:
    """One GPU of this machine; its ``uuid`` names it for good, its index may change."""

    index: int
    uuid: str
    name: str


def detect() -> list[Gpu]:
    """The NVIDIA GPUs that this machine's driver shows; none where there is no driver."""
    command = ["nvidia-smi", "--query-gpu=index,uuid,name", "--format=csv,noheader"]
    try:
        output = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    rows = [[field.strip() for field in line.split(",", 2)] for line in output.splitlines() if line.count(",") >= 2]
    return [Gpu(int(index), uuid, name) for index, uuid, name in rows if index.isdecimal()]


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
        chosen = [gpu for gpu in found if {str(gpu.index), gpu.uuid} & set(self._ids)]
        unknown = [id for id in self._ids if not any(id in (str(gpu.index), gpu.uuid) for gpu in found)]
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
            # Nobody's link is followed: the folder is everybody's.
            path = self._folder / f"{gpu.uuid}.lock"
            descriptor = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
            with suppress(PermissionError):  # its maker has done it already
                os.fchmod(descriptor, 0o666)
        except OSError as error:
            raise SandboxError(f"GPU leases cannot be kept in {self._folder}: {error}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return descriptor


def _release(held: list[tuple[Gpu, int]]) -> None:
    for _, descriptor in held:
        os.close(descriptor)
