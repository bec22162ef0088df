"""Exclusive use of a folder among threads, processes, and hosts that share its file system."""

from __future__ import annotations

import errno
import json
import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from filelock import BaseFileLock, FileLock, SoftFileLease, Timeout

from pytest_mlebench.errors import DataError

LEASE_SECONDS = 60.0
_NO_FLOCK = {errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK}
_POLL_SECONDS = 0.2


class LockHeld(DataError):
    """Somebody else holds the lock; the text says who."""


@contextmanager
def hold(path: Path, doing: str, waiting: Callable[[str], None] | None = None) -> Iterator[None]:
    """Hold the lock of this path. ``doing`` tells others why they wait: "prepares spaceship-titanic".

    While somebody else holds it, ``waiting`` is told who, again when that changes; without it LockHeld is raised.

    What makes a lock stale depends on the file system. Where flock works (local ones, NFS version 4) the kernel, or the
    server once the client's lease has run out, drops the lock as its process dies: there is no stale lock, and the
    file, which stays, is only the holder's note. A note without a lock therefore means nothing. Where the file system
    refuses flock, the lock is a marker file that its holder refreshes: it is stale, and taken over, when its process is
    dead on this host, or when it was not refreshed for ``LEASE_SECONDS`` of the waiting process's own clock. A holder
    that was only suspended meanwhile finds its temporary folder gone as it goes on, and fails without harm.
    """
    lock = _acquire(path, waiting)
    note = {"pid": os.getpid(), "host": socket.gethostname(), "doing": doing}
    with suppress(OSError):  # a full disk: whoever frees it needs the lock, and can do without the note
        path.write_text(json.dumps(note), encoding="utf-8")
    try:
        yield
    finally:
        with suppress(OSError):
            os.truncate(path, 0)
        lock.release()


@contextmanager
def hold_any(paths: Sequence[Path], doing: str, waiting: Callable[[str], None]) -> Iterator[None]:
    """Hold one of several locks, whichever is free first: at most so many holders at once."""
    with ExitStack() as held:
        told = False
        while not any(_enter(held, path, doing) for path in paths):
            if not told:
                waiting(f"waiting for one of {len(paths)} downloads at once to end")
                told = True
            time.sleep(_POLL_SECONDS)
        yield


def _enter(held: ExitStack, path: Path, doing: str) -> bool:
    try:
        held.enter_context(hold(path, doing))
    except LockHeld:
        return False
    return True


def holder(path: Path) -> str | None:
    """Who holds the lock of this path now, and what they do; None if nobody does."""
    if not path.exists():
        return None
    try:
        _acquire(path, None).release()
    except LockHeld as error:
        return str(error)
    except OSError:  # a data directory of somebody else's, that may only be read
        return None
    return None


def _acquire(path: Path, waiting: Callable[[str], None] | None) -> BaseFileLock:
    try:
        return _wait(FileLock(path, fallback_to_soft=False), path, waiting)
    except OSError as error:
        if error.errno not in _NO_FLOCK:
            raise
    return _wait(SoftFileLease(path.with_name(path.name + ".lease"), lease_duration=LEASE_SECONDS), path, waiting)


def _wait(lock: BaseFileLock, path: Path, waiting: Callable[[str], None] | None) -> BaseFileLock:
    told = ""
    while True:
        try:
            lock.acquire(timeout=5.0 if told else 0, poll_interval=_POLL_SECONDS)
            return lock
        except Timeout:
            who = _note(path)
            if waiting is None:
                raise LockHeld(who) from None
            if who != told:
                waiting(f"waiting for {who}")
                told = who


def _note(path: Path) -> str:
    try:
        note = json.loads(path.read_text(encoding="utf-8"))
        return f"process {note['pid']} on host {note['host']}, which {note['doing']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"  # it has only just got the lock, or has a full disk
