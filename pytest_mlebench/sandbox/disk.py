"""A limit on what a container writes, where nothing keeps one: look every few seconds, stop what is over."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType

from pytest_mlebench.io.units import format_size

_INTERVAL = 0.25
_UNMEASURED = 3
_SHARE = 0.1
"""At most this share of the time is spent on looking: where there are many files, looking takes long."""

_NEARLY_FULL = 5 << 30
_TIMES = 20


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
    """For a run without a limit: calls ``stop`` when the engine's disk is nearly full and this run filled much of it.

    That is when less is free than a twentieth of what the run wrote, and less than 5 GiB: the run that wrote most is
    stopped first, and one that would have fitted goes on. ``free`` gives the bytes that are free, None if unknown.
    """

    def __init__(
        self, free: Callable[[], int | None], written: Callable[[], int | None], stop: Callable[[], None]
    ) -> None:
        super().__init__(0, written, stop)
        self._free = free

    def look(self) -> bool:
        free = self._free()
        if free is not None and free < _NEARLY_FULL:  # only then: to measure what was written takes long
            size = self._written() or 0
            if free * _TIMES < size:
                left = format_size(free)
                self.full = f"{format_size(size)} written, and only {left} are left for all runs; --disk sets a limit"
        return bool(self.full)
