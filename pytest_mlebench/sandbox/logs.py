"""An agent's output on its way to ``run.log``: bounded, without secrets, readable while the agent runs."""

from __future__ import annotations

import os
from pathlib import Path

from pytest_mlebench.sandbox.redaction import Redactor

_HEAD_SHARE = 4
_LONGEST_SPAN = 1 << 20
"""A secret that repeats itself without end is not waited for."""
TAIL_SUFFIX = ".tail"
"""What is added to a log's name for the file of its end, while it is written and too large to be kept whole."""


class LogWriter:
    """Appends bytes to a file until it is full, then keeps the newest in a second file; ``close`` joins the two.

    Of ``max_bytes`` a quarter is the head of the output, the rest its tail. Secrets are masked, also where they are
    split between two writes.
    """

    def __init__(self, path: Path, max_bytes: int, redactor: Redactor | None = None) -> None:
        self._path = path
        self._tail_path = path.with_name(path.name + TAIL_SUFFIX)
        self._head_left = max(1, max_bytes // _HEAD_SHARE)
        self._tail_bytes = max(1, max_bytes - self._head_left)
        self._redactor = redactor or Redactor()
        self._pending = b""
        self._head = path.open("wb", buffering=0)
        self._tail = bytearray()
        self._dropped = 0
        self._unwritten = 0

    def write(self, data: bytes) -> None:
        """Take some of the output."""
        self._pending += data
        ready = len(self._pending) - self._redactor.overlap
        for start, end in self._redactor.spans(self._pending):
            if start < ready < end:  # it may continue in the next block
                ready = start
                if end - start > _LONGEST_SPAN:
                    self._store(self._redactor.bytes(self._pending[:end]))
                    self._pending, ready = self._pending[end:], 0
                break
        if ready > 0:
            self._store(self._redactor.bytes(self._pending[:ready]))
            self._pending = self._pending[ready:]

    def close(self) -> None:
        """Write what is left; the file is complete afterwards. May be called again."""
        if self._head.closed:
            return
        self._store(self._redactor.bytes(self._pending))
        self._pending = b""
        self._trim()
        if self._dropped:
            self._head.write(b"\n[... %d bytes left out ...]\n" % self._dropped)
        self._head.write(bytes(self._tail))
        self._head.close()
        self._tail_path.unlink(missing_ok=True)

    def _store(self, data: bytes) -> None:
        now, later = data[: self._head_left], data[self._head_left :]
        if now:
            self._head.write(now)
            self._head_left -= len(now)
        if later:
            self._tail += later
            self._unwritten += len(later)
            if len(self._tail) > 2 * self._tail_bytes:
                self._trim()
            if self._unwritten >= min(self._tail_bytes, 1 << 20):  # so that one can watch, without writing each line
                self._show_tail()

    def _show_tail(self) -> None:
        self._unwritten = 0
        new = self._tail_path.with_suffix(".new")
        new.write_bytes(self._tail[-self._tail_bytes :])
        new.replace(self._tail_path)

    def _trim(self) -> None:
        excess = len(self._tail) - self._tail_bytes
        if excess > 0:
            del self._tail[:excess]
            self._dropped += excess


def tail(path: Path, lines: int = 30, max_bytes: int = 1 << 14) -> str:
    """The last lines of a log, for a message; empty where there is none."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - max_bytes))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])
