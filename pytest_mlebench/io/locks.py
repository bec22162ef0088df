"""Locks for exclusive use of a folder by threads, processes, and hosts that share its file system."""

from __future__ import annotations

import errno
import json
import os
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from filelock import BaseFileLock, FileLock, SoftFileLease, Timeout

from pytest_mlebench.errors import DataError
from pytest_mlebench.io.files import read_regular
from pytest_mlebench.io.progress import Reporter, Step

LEASE_SECONDS = 60.0
_NO_FLOCK = {errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK}
_POLL_SECONDS = 0.2
_MAX_NOTE = 4096


class LockHeld(DataError):
    """Another process holds the lock; the message names it."""


@contextmanager
def hold_lock(path: Path, activity: str, subject: str, reporter: Reporter | None = None) -> Iterator[None]:
    """Hold the lock of this path. Waiting processes show ``activity`` and ``subject``: "prepares", "leaf".

    While another process holds the lock, ``reporter`` gets a step that names the process, and another if the holder
    changes. Without a reporter, LockHeld is raised.

    What makes a lock stale depends on the file system. If flock works (local file systems, NFS version 4), the kernel
    releases the lock when its process dies, or the server does when the client's lease expires. Such locks are never
    stale: the file stays, but is only a note, which means nothing without the lock. If the file system does not support
    flock, the lock is a marker file that its holder refreshes. It is stale, and taken over, if its process is dead on
    this host, or if it was not refreshed for ``LEASE_SECONDS`` by the waiting process's clock. A holder that was only
    suspended then finds its temporary folder gone, and fails without harm.
    """
    lock = _acquire(path, subject, reporter)
    note = {"pid": os.getpid(), "host": socket.gethostname(), "doing": f"{activity} {subject}"}
    with suppress(OSError):  # if the disk is full, freeing space needs the lock, not the note
        _write(path, json.dumps(note))
    try:
        yield
    finally:
        with suppress(OSError):
            _write(path, "")
        lock.release()


@contextmanager
def hold_any_lock(paths: Sequence[Path], activity: str, subject: str, reporter: Reporter) -> Iterator[None]:
    """Hold the first of several locks that is free. At most ``len(paths)`` processes can hold one at once."""
    with ExitStack() as held:
        reported = False
        while not any(_enter(held, path, activity, subject) for path in paths):
            if not reported:
                reporter(Step(subject, f"waiting for one of {len(paths)} other processes to end"))
                reported = True
            time.sleep(_POLL_SECONDS)
        yield


def _enter(held: ExitStack, path: Path, activity: str, subject: str) -> bool:
    with suppress(LockHeld):
        held.enter_context(hold_lock(path, activity, subject))
        return True
    return False


def lock_holder(path: Path) -> str | None:
    """Which process holds the lock of this path now, and what it does; None if the lock is free."""
    if not path.exists():
        return None
    try:
        _acquire(path, "").release()
    except LockHeld as error:
        return str(error)
    except OSError:  # another user's data folder, which is read-only
        return None
    return None


def _acquire(path: Path, subject: str, reporter: Reporter | None = None) -> BaseFileLock:
    try:
        return _wait(FileLock(path, fallback_to_soft=False), path, subject, reporter)
    except OSError as error:
        if error.errno not in _NO_FLOCK:
            raise
    lease = SoftFileLease(path.with_name(path.name + ".lease"), lease_duration=LEASE_SECONDS)
    return _wait(lease, path, subject, reporter)


def _wait(lock: BaseFileLock, path: Path, subject: str, reporter: Reporter | None) -> BaseFileLock:
    reported = ""
    while True:
        try:
            lock.acquire(timeout=5.0 if reported else 0, poll_interval=_POLL_SECONDS)
            return lock
        except Timeout:
            holding = _note(path)
            if reporter is None:
                raise LockHeld(holding) from None
            if holding != reported:
                reporter(Step(subject, f"waiting for {holding}"))
                reported = holding


def _write(path: Path, note: str) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o666), "w", encoding="utf-8") as file:  # users of a group may share the folder
        file.write(note)


def _note(path: Path) -> str:
    try:
        note = json.loads(read_regular(path, _MAX_NOTE, follow_links=False))
        return f"process {note['pid']} on host {note['host']}, which {note['doing']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"  # it has only just acquired the lock, or its disk is full
