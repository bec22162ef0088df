"""Snapshots of a submission: copies of ``submission.csv`` as it was while the agent ran, for its scores over time.

They are taken from outside of the agent's processes and lie on the host, so that an agent can neither prevent, slow
down nor use them. What it can do is to make its file anything at any moment: only a regular file that did not change
while it was copied counts, and number, size and rate are bounded.
"""

from __future__ import annotations

import hashlib
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from pytest_mlebench import defaults
from pytest_mlebench.io.units import format_size
from pytest_mlebench.sandbox.redaction import Redactor

SUBMISSION_NAME = "submission.csv"
FOLDER = "snapshots"
"""In a run directory."""
Identity = tuple[int, ...]
"""Device, inode, size, and times of the last changes of content and status: which state of which file."""
_SIZE = 2
_BLOCK = 1 << 20
_STEPS = 10


@dataclass(frozen=True, kw_only=True)
class SnapshotPolicy:
    """When a snapshot is taken. Times in seconds, sizes in bytes."""

    look_every: float = 1.0
    """A file counts as written when two looks in a row find the same."""
    spacing: float = defaults.SNAPSHOT_SECONDS
    """The least time between two snapshots; it doubles with each tenth of the number, or of the space, that is used."""
    number: int = defaults.SNAPSHOTS
    total_bytes: int = defaults.SNAPSHOT_BYTES

    def spacing_after(self, number: int, stored: int) -> float:
        """How long to wait after this many snapshots, which take so many bytes.

        >>> [SnapshotPolicy().spacing_after(number, 0) for number in (1, 20, 40, 199)]
        [10.0, 20.0, 40.0, 5120.0]
        """
        used = max(number / self.number, stored / self.total_bytes)
        return float(self.spacing * 2 ** int(min(1.0, used) * _STEPS))


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """A submission as it was ``seconds`` after the agent's start, and what the agent had spent on models by then."""

    seconds: float
    path: Path
    digest: str
    size: int
    calls: int | None = None
    cost: float | None = None


class Source(Protocol):
    """Where a sandbox has the submission. Both methods may raise OSError."""

    def look(self) -> Identity | None:
        """What is there now; None if that is not a regular file."""

    def copy(self, identity: Identity, write: Callable[[bytes], object]) -> bool:
        """Write the file that ``look`` found; False if it is no longer the same, before or after."""

    def close(self) -> None:
        """Make a call that runs in another thread return, or raise, soon."""


class Snapshots:
    """The snapshots of one run, in ``folder``.

    ``spent`` gives ``calls`` and ``cost`` of the run's model calls so far. ``notes`` say what was not taken, and why.
    """

    def __init__(
        self,
        folder: Path,
        *,
        policy: SnapshotPolicy | None = None,
        max_bytes: int = defaults.MAX_SUBMISSION_BYTES,
        spent: Callable[[], Mapping[str, Any]] = dict,
    ) -> None:
        self.taken: list[Snapshot] = []
        self.changed_at: float | None = None
        """Seconds from the agent's start until the last change that was seen."""
        self._folder = folder
        self._policy = policy or SnapshotPolicy()
        self._max_bytes = max_bytes
        self._spent = spent
        self._notes: dict[str, int] = {}
        self._stored = 0
        self._stop = threading.Event()

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(f"{why}: {count} ×" if count > 1 else why for why, count in self._notes.items())

    @contextmanager
    def watching(self, source: Source, redactor: Redactor) -> Iterator[None]:
        """Take snapshots while the block works."""
        thread = threading.Thread(target=self._watch, args=(source, redactor), name="mlebench-snapshots", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            source.close()
            thread.join()

    def _watch(self, source: Source, redactor: Redactor) -> None:
        started, next_at = time.monotonic(), 0.0
        seen: Identity | None = None
        done: Identity | None = None
        try:
            while not self._stop.wait(self._policy.look_every):
                found = source.look()
                now = time.monotonic() - started
                if found is None or found == done:
                    seen = found
                elif found != seen:
                    seen, self.changed_at = found, now
                elif now >= next_at and len(self.taken) < self._policy.number:
                    if not self._fits(found[_SIZE]) or self._take(source, found, redactor, self.changed_at or now):
                        done = found
                    next_at = now + self._policy.spacing_after(len(self.taken), self._stored)
        except (OSError, ValueError) as error:
            if not self._stop.is_set():
                self._note(f"no further snapshots of the submission: {error}")
        finally:
            with suppress(OSError):
                self._partial.unlink(missing_ok=True)

    @property
    def _partial(self) -> Path:
        return self._folder / ".partial"

    def _fits(self, size: int) -> bool:
        if size > self._max_bytes:
            self._note(f"no snapshot of a submission of more than {format_size(self._max_bytes)}")
        elif self._stored + size > self._policy.total_bytes:
            self._note(f"no snapshot of a submission, as all together may have {format_size(self._policy.total_bytes)}")
        else:
            return True
        return False

    def _take(self, source: Source, identity: Identity, redactor: Redactor, seconds: float) -> bool:
        """Take a snapshot; False if the file changed meanwhile, so that there is reason to try again."""
        self._folder.mkdir(parents=True, exist_ok=True)
        spent = self._spent()
        with self._partial.open("wb") as file:
            if not source.copy(identity, file.write) or file.tell() != identity[_SIZE]:
                return False
        if not redactor.file(self._partial):
            self._note("no snapshot of a submission that is an archive with a secret in it")
            return True
        digest = digest_of(self._partial)
        if self.taken and self.taken[-1].digest == digest:
            return True
        path = next((known.path for known in self.taken if known.digest == digest), None)
        if path is None:
            path = self._folder / f"{len(self.taken) + 1:04}.csv"
            self._partial.rename(path)
            self._stored += identity[_SIZE]
        self.taken.append(
            Snapshot(
                seconds=round(seconds, 3),
                path=path,
                digest=digest,
                size=identity[_SIZE],
                calls=spent.get("calls"),
                cost=spent.get("cost"),
            )
        )
        return True

    def _note(self, why: str) -> None:
        self._notes[why] = self._notes.get(why, 0) + 1


def taking_snapshots(snapshots: Snapshots | None, source: Source, redactor: Redactor) -> AbstractContextManager[None]:
    """Take snapshots while the block works, if a run is to have some."""
    return nullcontext() if snapshots is None else snapshots.watching(source, redactor)


class SubmissionFile:
    """The submission in a folder of this machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._closed = False

    def look(self) -> Identity | None:
        try:
            with self._opened() as folder:
                return identity_of(os.stat(SUBMISSION_NAME, dir_fd=folder, follow_symlinks=False))
        except OSError:
            return None

    def copy(self, identity: Identity, write: Callable[[bytes], object]) -> bool:
        try:
            with self._opened() as folder:
                descriptor = _open_quietly(folder)
        except OSError:
            return False
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            left = identity[_SIZE]
            if identity_of(os.fstat(descriptor)) != identity:
                return False
            while left > 0 and not self._closed and (block := file.read(min(_BLOCK, left))):
                write(block)
                left -= len(block)
            return identity_of(os.fstat(descriptor)) == identity

    def close(self) -> None:
        self._closed = True

    @contextmanager
    def _opened(self) -> Iterator[int]:
        descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


def identity_of(status: os.stat_result) -> Identity | None:
    """Which state of which regular file this is; None for anything else."""
    if not stat.S_ISREG(status.st_mode):
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def digest_of(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _open_quietly(folder: int) -> int:
    """Open the file without waiting for a pipe's other end, following a link, or changing its time of access."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        return os.open(SUBMISSION_NAME, flags | os.O_NOATIME, dir_fd=folder)
    except PermissionError:  # it belongs to another user
        return os.open(SUBMISSION_NAME, flags, dir_fd=folder)
