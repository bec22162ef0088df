"""The limits of runs: a fair share of the machine for each, and a look at the disk where nothing keeps a limit."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from types import TracebackType
from typing import Any

from pytest_mlebench.errors import SandboxError
from pytest_mlebench.io.units import format_size, pluralize
from pytest_mlebench.records.outcome import Limits

_INTERVAL = 0.25
_UNMEASURED = 3
_SHARE = 0.1
"""At most this share of the time is spent on looking: where there are many files, looking takes long."""

_NEARLY_FULL = 5 << 30
_TIMES = 20
_SHARED = 0.9


def disk_share(free: int | None, workers: int) -> int | None:
    """What each of ``workers`` runs without a limit may write to a disk with ``free`` bytes; None if that is unknown.

    >>> disk_share(100 << 30, 4) == int(22.5 * (1 << 30))
    True
    """
    return None if free is None else max(_NEARLY_FULL, int(free * _SHARED) // workers)


class DiskWatcher:
    """Calls ``stop`` once ``written`` (bytes, or None if it cannot be measured) is over the limit; a context manager.

    Between two looks an agent may write more than its limit; how much more depends on the disk. What cannot be measured
    three times in a row counts as too much: no honest agent makes paths that the engine cannot follow. ``full`` says in
    words what was found.
    """

    def __init__(self, limit: int, written: Callable[[], int | None], stop: Callable[[], None]) -> None:
        self.limit = limit
        self.full = ""
        self._unmeasured = 0
        self._written, self._stop = written, stop
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> DiskWatcher:
        self._thread.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._done.set()
        self._thread.join()

    def look(self) -> bool:
        """Whether the limit is reached."""
        size = self._written()
        self._unmeasured = 0 if size is not None else self._unmeasured + 1
        if self._unmeasured >= _UNMEASURED and not self.full:
            self.full = "the space in use cannot be measured, as paths are too long"
        elif size is not None and size > self.limit and not self.full:
            self.full = f"{format_size(size)} written, the limit is {format_size(self.limit)}"
        return bool(self.full)

    def _watch(self) -> None:
        pause = _INTERVAL
        while not self._done.wait(pause):
            start = time.monotonic()
            if self.look():
                self._stop()
                return
            pause = max(_INTERVAL, (time.monotonic() - start) / _SHARE)


class FreeSpaceWatcher(DiskWatcher):
    """For a run without a limit: calls ``stop`` when it wrote more than its share, or filled much of a full disk.

    A disk is full when less is free than a twentieth of what the run wrote, and less than 5 GiB: the run that wrote
    most is stopped first, and one that would have fitted goes on. ``free`` gives the bytes that are free, None if
    unknown.
    """

    def __init__(
        self,
        free: Callable[[], int | None],
        written: Callable[[], int | None],
        stop: Callable[[], None],
        *,
        share: int | None = None,
    ) -> None:
        super().__init__(share or 0, written, stop)
        self._free, self._share = free, share
        self._free_at_start = free() or 0

    def look(self) -> bool:
        free = self._free()
        if free is None:
            return False
        taken = self._free_at_start - free
        # Only then, because it takes long to measure what was written.
        if free < _NEARLY_FULL or (self._share is not None and taken > self._share):
            size = self._written() or 0
            if self._share is not None and size > self._share:
                share = format_size(self._share)
                self.full = f"{format_size(size)} written, and its share of the disk is {share}; --disk sets a limit"
            elif free * _TIMES < size:
                left = format_size(free)
                self.full = f"{format_size(size)} written, and only {left} are left for all runs; --disk sets a limit"
        return bool(self.full)


_KEPT_MEMORY, _KEPT_MEMORY_SHARE = 1 << 30, 0.1
"""Of the memory, at least so much stays with the harness, which grades and collects."""
_KEPT_CPUS_SHARE = 0.05
_LEAST_MEMORY = 32 << 20


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Processors, and memory in bytes, that all runs of this machine share."""

    cpus: int
    memory: int


def apply(limits: Limits, machine: Machine, *, workers: int = 1) -> Limits:
    """The limits with a fair share of ``machine`` for each of ``workers`` runs where they say nothing.

    Raises SandboxError for limits that cannot be, or that are beyond the machine.
    """
    for name, value in (("--time-limit", limits.time_limit), ("--cpus", limits.cpus)):
        if value is not None and not (value > 0 and math.isfinite(value)):
            raise SandboxError(f"{name} is {value:g}, must be more than 0")
    for name, size in (("--memory", limits.memory), ("--disk", limits.disk), ("processes", limits.processes)):
        if size is not None and size <= 0:
            raise SandboxError(f"{name} is {size}, must be more than 0")
    if limits.cpus is not None and limits.cpus > machine.cpus:
        raise SandboxError(f"--cpus is {limits.cpus:g}, but this machine has {pluralize(machine.cpus, 'processor')}")
    if limits.memory is not None and limits.memory > machine.memory:
        available = format_size(machine.memory)
        raise SandboxError(f"--memory is {format_size(limits.memory)}, but this machine has {available}")
    if limits.memory is not None and limits.memory < _LEAST_MEMORY:
        least = format_size(_LEAST_MEMORY)
        raise SandboxError(f"--memory is {format_size(limits.memory)}, must be at least {least}")
    kept = max(_KEPT_MEMORY, int(machine.memory * _KEPT_MEMORY_SHARE))
    memory = max(_LEAST_MEMORY, (machine.memory - min(kept, machine.memory // 2)) // workers)
    cpus = math.floor(machine.cpus * (1 - _KEPT_CPUS_SHARE) / workers * 100) / 100
    return replace(
        limits,
        memory=memory if limits.memory is None else limits.memory,
        cpus=max(0.01, cpus) if limits.cpus is None else limits.cpus,
    )


def describe(limits: Limits) -> dict[str, Any]:
    """The limits that applied, for a run's record; what is not there was unlimited."""
    return {name: value for name, value in asdict(limits).items() if value is not None}
