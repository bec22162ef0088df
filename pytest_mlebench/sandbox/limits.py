"""The limits of runs: fair shares, watchers for limits that nothing else enforces, and how a run ended."""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

from pytest_mlebench.errors import SandboxError
from pytest_mlebench.io.units import format_size, pluralize
from pytest_mlebench.records.outcome import Ending, Limits, SandboxAccount
from pytest_mlebench.sandbox.contract import Execution, Task, format_duration

_ROOT = Path("/sys/fs/cgroup")
_NO_LIMIT = 1 << 60
"""Version 1 of control groups expresses "no limit" as a number near the largest."""


def oom_events(pid: int, root: Path = _ROOT) -> Path | None:
    """Return the file that counts the out-of-memory kills in a process's control group; None if there is none."""
    for folder in _memory_groups(pid, root):
        for name in ("memory.events", "memory.oom_control"):
            if (folder / name).exists():
                return folder / name
        return None
    return None


def oom_kills(events: Path) -> int:
    """Return the number of out-of-memory kills. Raises OSError, ValueError or KeyError if it cannot be read."""
    return int(dict(line.split() for line in events.read_text().splitlines())["oom_kill"])


def memory_limit(pid: int, root: Path = _ROOT) -> int | None:
    """Return the bytes that the control groups of a process may use; None without a limit, as in a login session."""
    found = []
    for folder in _memory_groups(pid, root):
        for name in ("memory.max", "memory.limit_in_bytes"):
            with suppress(OSError, ValueError):  # no such file, or "max"
                found.append(int((folder / name).read_text()))
    return min((limit for limit in found if limit < _NO_LIMIT), default=None)


def delegated(root: Path = _ROOT) -> bool:
    """Whether the user's systemd may create version 2 groups that limit memory, processors and processes.

    Only true for a process in a login session, whose groups stay in the same slice. A batch job has its own group,
    which no process may leave.
    """
    slice_ = f"user.slice/user-{os.getuid()}.slice"
    with suppress(OSError):
        ours = any(line.startswith(f"0::/{slice_}/") for line in Path("/proc/self/cgroup").read_text().splitlines())
        controllers = (root / slice_ / f"user@{os.getuid()}.service/cgroup.controllers").read_text().split()
        return ours and {"memory", "cpu", "pids"} <= set(controllers)
    return False


def _memory_groups(pid: int, root: Path) -> Iterator[Path]:
    """Yield the folder of a process's memory group, then those of its parent groups."""
    with suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            base = root if not controllers else root / "memory"
            if (controllers and "memory" not in controllers.split(",")) or not (base / path.lstrip("/")).is_dir():
                continue
            folder = base / path.lstrip("/")
            if not controllers and not (base / "cgroup.controllers").exists():
                continue  # version 1, next to an empty version 2
            yield from (folder, *(parent for parent in folder.parents if parent.is_relative_to(base)))
            return


TEST_SECONDS = 2 * 3600.0
"""Time limit for the self-test of an image."""

_INTERVAL = 0.25
_MAX_UNMEASURED = 3
_MEASURING_SHARE = 0.1
"""Maximum share of time spent on measuring, which is slow if there are many files."""

_NEARLY_FULL = 5 << 30
_FULL_RATIO = 20
_SHARED = 0.9
_RESERVE = 1 << 30


def disk_share(free: int | None, workers: int) -> int | None:
    """Return the bytes that each of ``workers`` unlimited runs may write to a disk with ``free`` bytes; None: unknown.

    >>> disk_share(100 << 30, 4) == int(22.5 * (1 << 30))
    True
    """
    return None if free is None else max(_NEARLY_FULL, int(free * _SHARED) // workers)


class Watcher(AbstractContextManager[Any]):
    """Runs ``watch`` in its own thread during the block. ``done`` is set at the block's end."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self._thread = threading.Thread(target=self.watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.done.set()
        self._thread.join()

    @abstractmethod
    def watch(self) -> None:
        """Watch, and return soon after ``done`` is set."""


class DiskWatcher(Watcher):
    """Calls ``stop`` if a run writes too much, or if its disk is nearly full. ``full`` then says why, in words.

    ``written`` returns the bytes that the run wrote, ``free`` those left on the disk; None if unknown.

    With a ``limit``, too much is more than that. Between two checks, an agent may exceed it; by how much depends on the
    disk. Three failed measurements in a row also count as too much: no honest agent creates paths that the container
    runtime cannot follow.

    Without a limit, too much is more than ``share``, or much of a full disk: less than 5 GiB, and less than a twentieth
    of what the run wrote, is free. So the run that wrote most is stopped first, and smaller runs continue.

    ``written`` misses volumes and deleted files that are open. So every run is stopped if less than 1 GiB of the disk,
    or half of what was free at the start, is left.
    """

    def __init__(
        self,
        written: Callable[[], int | None],
        free: Callable[[], int | None],
        stop: Callable[[], None],
        *,
        limit: int | None = None,
        share: int | None = None,
    ) -> None:
        super().__init__()
        self.full = ""
        self._written, self._free, self._stop = written, free, stop
        self._limit, self._share = limit, share
        self._unmeasured = 0
        self._free_at_start = free() or 0

    def look(self) -> bool:
        """Measure. Returns whether the run must be stopped."""
        free = self._free()
        if self._limit is not None:
            self._check_limit(self._limit)
        elif free is not None:
            self._check_share(free)
        return self._is_used_up(free)

    def _check_limit(self, limit: int) -> None:
        size = self._written()
        self._unmeasured = 0 if size is not None else self._unmeasured + 1
        if self._unmeasured >= _MAX_UNMEASURED:
            self.full = "the space in use cannot be measured, because paths are too long"
        elif size is not None and size > limit:
            self.full = f"{format_size(size)} written, the limit is {format_size(limit)}"

    def _check_share(self, free: int) -> None:
        # Measure what was written only if it may matter, because it takes long.
        if free < _NEARLY_FULL or (self._share is not None and self._free_at_start - free > self._share):
            size = self._written() or 0
            if self._share is not None and size > self._share:
                share = format_size(self._share)
                self.full = f"{format_size(size)} written, and its share of the disk is {share}; --disk sets a limit"
            elif free * _FULL_RATIO < size:
                left = format_size(free)
                self.full = f"{format_size(size)} written, and only {left} are left for all runs; --disk sets a limit"

    def _is_used_up(self, free: int | None) -> bool:
        if free is not None and free < min(_RESERVE, self._free_at_start // 2) and not self.full:
            self.full = f"only {format_size(free)} of the disk are left, which ends every run without its own disk"
        return bool(self.full)

    def watch(self) -> None:
        next_at = 0.0
        while not self.done.wait(_INTERVAL):
            start = time.monotonic()
            if self._is_used_up(self._free()) if start < next_at else self.look():
                self._stop()
                return
            if start >= next_at:
                next_at = start + (time.monotonic() - start) / _MEASURING_SHARE


_RESERVED_MEMORY, _RESERVED_MEMORY_SHARE = 1 << 30, 0.1
"""Memory reserved for the harness, which grades and collects: the larger of these, but at most half the machine's."""
_RESERVED_CPUS_SHARE = 0.05
_MIN_MEMORY = 32 << 20


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Processors, and memory in bytes, that all runs on this machine share."""

    cpus: int
    memory: int

    @classmethod
    def here(cls) -> Machine:
        """Return this machine, with the processors that this process may use."""
        cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return cls(cpus=cpus, memory=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def apply(limits: Limits, machine: Machine | None = None, *, workers: int = 1) -> Limits:
    """Return the limits, with unset ones as a fair share of ``machine`` (None: this one) for each of ``workers`` runs.

    Raises SandboxError for limits that are invalid, or that exceed the machine.
    """
    machine = machine or Machine.here()
    for name, value in (("--time-limit", limits.time_limit), ("--cpus", limits.cpus)):
        if value is not None and not (value > 0 and math.isfinite(value)):
            raise SandboxError(f"{name} must be a finite number above 0, not {value:g}")
    for name, size in (("--memory", limits.memory), ("--disk", limits.disk), ("processes", limits.processes)):
        if size is not None and size <= 0:
            raise SandboxError(f"{name} must be above 0, not {size}")
    if limits.cpus is not None and limits.cpus > machine.cpus:
        raise SandboxError(f"--cpus is {limits.cpus:g}, but this machine has {pluralize(machine.cpus, 'processor')}")
    if limits.memory is not None:
        given = f"--memory is {format_size(limits.memory)}"
        if limits.memory > machine.memory:
            raise SandboxError(f"{given}, but this machine has {format_size(machine.memory)}")
        if limits.memory < _MIN_MEMORY:
            raise SandboxError(f"{given}, but a run needs at least {format_size(_MIN_MEMORY)}")
    reserved = max(_RESERVED_MEMORY, int(machine.memory * _RESERVED_MEMORY_SHARE))
    memory = max(_MIN_MEMORY, (machine.memory - min(reserved, machine.memory // 2)) // workers)
    cpus = math.floor(machine.cpus * (1 - _RESERVED_CPUS_SHARE) / workers * 100) / 100
    return replace(
        limits,
        memory=memory if limits.memory is None else limits.memory,
        cpus=max(0.01, cpus) if limits.cpus is None else limits.cpus,
    )


def assigned_processors(task: Task) -> list[int]:
    """Return the processors that the agent may use; empty for all. Workers of one session use different ones."""
    usable, number = sorted(os.sched_getaffinity(0)), task.limits.cpus
    if number is None or number >= len(usable):
        return []
    count = max(1, math.ceil(number))
    first = count * int("".join(filter(str.isdigit, task.labels.get("worker", ""))) or 0)
    return [usable[(first + k) % len(usable)] for k in range(count)]


def describe(limits: Limits) -> dict[str, Any]:
    """Return the limits that applied, for a run's record. Unlimited ones are omitted."""
    return {name: value for name, value in asdict(limits).items() if value is not None}


_MEMORY_ERRORS = ("MemoryError", "Cannot allocate memory", "std::bad_alloc")


@dataclass(frozen=True, kw_only=True)
class RunEnd:
    """Everything that a sandbox knows about how an agent ended.

    ``lost``: the end was not observed, because the container's first process died too. No agent can kill that process,
    so a lost end without another explanation is not the agent's fault, and has no ending.
    """

    exit_code: int | None = None
    signal: str | None = None
    oom_kills: int = 0
    """Processes that the kernel killed for memory."""
    time_limit: float | None = None
    """Seconds, if the time limit ended the agent."""
    out_of_memory: str = ""
    """A description, if the sandbox stopped the agent for memory, or one of its processes was refused memory."""
    disk_full: str = ""
    lost: bool = False

    @property
    def is_unexplained(self) -> bool:
        return self.lost and self.time_limit is None and not self.oom_kills and not self.disk_full

    def with_clues(self, limits: Limits, log_tail: str, *, memory: bool = False) -> RunEnd:
        """Add what the limits and the end of the log suggest about a failure.

        ``memory``: count a failed allocation in the log as out of memory, if the kernel kills no process for it.
        """
        if self.exit_code == 0:
            return self
        disk_full, out_of_memory = self.disk_full, self.out_of_memory
        if limits.disk is not None and not disk_full:
            too_large = self.signal == "SIGXFSZ" or self.exit_code == 128 + signal.SIGXFSZ
            if too_large or "File too large" in log_tail:
                disk_full = f"a file grew over the limit of {format_size(limits.disk)}"
            elif "No space left on device" in log_tail:
                disk_full = f"the limit is {format_size(limits.disk)}"
        if memory and limits.memory is not None and any(word in log_tail for word in _MEMORY_ERRORS):
            out_of_memory = out_of_memory or f"a process asked for more than {format_size(limits.memory)}"
        return replace(self, disk_full=disk_full, out_of_memory=out_of_memory)

    def judge(self) -> tuple[Ending, str]:
        """Return the ending, and further details in words."""
        if self.time_limit is not None:
            limit = format_duration(self.time_limit) if self.time_limit >= 60 else f"{self.time_limit:g} s"
            return Ending.TIMED_OUT, self._with_kills(f"stopped after {limit}")
        if self.disk_full:
            return Ending.CRASHED, self._with_kills(f"disk full: {self.disk_full}")
        if self.out_of_memory:
            return Ending.OUT_OF_MEMORY, self._with_kills(self.out_of_memory)
        if self.exit_code == 0:
            return Ending.FINISHED, self._with_kills("")
        if self.oom_kills:
            return Ending.OUT_OF_MEMORY, self._with_kills(self._how())
        return Ending.CRASHED, self._how()

    def execution(self, seconds: float, sandbox: SandboxAccount) -> Execution:
        ending, detail = self.judge()
        return Execution(
            ending=ending,
            seconds=seconds,
            exit_code=self.exit_code,
            signal=self.signal,
            detail=detail,
            sandbox=sandbox,
        )

    def _how(self) -> str:
        if self.lost:
            return "the container's first process was killed too"
        if self.signal:
            return f"killed by {self.signal}"
        code = self.exit_code or 0
        try:  # as a shell reports it
            name = signal.Signals(code - 128).name
        except ValueError:
            return f"exit code {code}"
        return f"exit code {code} (a process of the agent was killed by {name})"

    def _with_kills(self, text: str) -> str:
        if not self.oom_kills:
            return text
        number = "a process was" if self.oom_kills == 1 else f"{self.oom_kills} processes were"
        return "; ".join(filter(None, [text, f"{number} killed for memory"]))
