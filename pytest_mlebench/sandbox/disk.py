"""A limit on what a container writes, where the storage driver has none: look every few seconds, stop what is over."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

_INTERVAL = 1.0
_SHARE = 0.1
"""At most this share of the time is spent on looking: where there are many files, looking takes long."""


def has_quota(info: dict[str, Any]) -> bool:
    """Whether the engine's storage driver may be able to limit what a container writes; it says for sure when asked.

    That is overlay2 on XFS with project quotas. What btrfs and zfs limit is a container together with its image.
    """
    return info.get("Driver") == "overlay2" and ["Backing Filesystem", "xfs"] in (info.get("DriverStatus") or [])


class DiskWatcher:
    """Calls ``stop`` once what ``written`` tells (bytes) is over the limit; use it as a context manager.

    Between two looks an agent may write more than its limit: how much more, the disk's speed decides. ``full`` says in
    words what was found.
    """

    def __init__(self, limit: int, written: Callable[[], int], stop: Callable[[], None]) -> None:
        self.limit = limit
        self.full = ""
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
        if size > self.limit and not self.full:
            self.full = f"{size:,} bytes written, the limit is {self.limit:,}"
        return bool(self.full)

    def _watch(self) -> None:
        pause = _INTERVAL
        while not self._done.wait(pause):
            start = time.monotonic()
            if self.look():
                self._stop()
                return
            pause = max(_INTERVAL, (time.monotonic() - start) / _SHARE)
