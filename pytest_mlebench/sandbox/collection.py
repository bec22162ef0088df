"""Collects the files that an agent left, and takes snapshots of its submission while it runs.

The files are handled as data and never executed. In the run directory, only the submission is a separate file. All
others go straight into one archive, where pytest, git and editors do not find them. From a container they come as a tar
stream, which is treated as untrusted input. Snapshots are taken from outside the agent's processes. An agent can
replace its file at any moment, so a copy counts only if the file is regular and did not change meanwhile.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import tarfile
import tempfile
import threading
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol, Self

from pytest_mlebench import defaults
from pytest_mlebench.errors import SandboxError
from pytest_mlebench.io.files import digest_of
from pytest_mlebench.io.units import format_size
from pytest_mlebench.records.record import FILES, SUBMISSION
from pytest_mlebench.sandbox.redaction import Redactor

SUBMISSION_NAME = "submission.csv"
FOLDER = "snapshots"
"""Name of the snapshot folder inside a run directory."""
_BLOCK = 1 << 20
_STEPS = 10


@dataclass(frozen=True, kw_only=True)
class SnapshotPolicy:
    """When to take snapshots. Times in seconds, sizes in bytes."""

    check_interval: float = 1.0
    """A file counts as complete if it is unchanged between two checks."""
    spacing: float = defaults.SNAPSHOT_SECONDS
    """Minimum time between two snapshots. Doubles for each tenth of ``number``, or of ``total_bytes``, used."""
    number: int = defaults.SNAPSHOTS
    total_bytes: int = defaults.SNAPSHOT_BYTES

    def spacing_after(self, number: int, stored: int) -> float:
        """Return how long to wait after ``number`` snapshots, which take ``stored`` bytes.

        >>> [SnapshotPolicy().spacing_after(number, 0) for number in (1, 20, 40, 199)]
        [10.0, 20.0, 40.0, 5120.0]
        """
        used = max(number / self.number, stored / self.total_bytes)
        return float(self.spacing * 2 ** int(min(1.0, used) * _STEPS))


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The submission ``seconds`` after the agent's start, with the model calls and their cost up to then."""

    seconds: float
    path: Path
    digest: str
    size: int
    calls: int | None = None
    cost: float | None = None


class Identity(NamedTuple):
    """Identifies one version of a file. Times are those of the last content and status changes, in nanoseconds."""

    device: int
    inode: int
    size: int
    modified: int
    changed: int

    @classmethod
    def of(cls, status: os.stat_result) -> Identity | None:
        """Return the identity of a regular file; None for anything else."""
        if not stat.S_ISREG(status.st_mode):
            return None
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


class SubmissionSource(Protocol):
    """Reads the submission in a sandbox. ``look`` and ``copy`` may raise OSError."""

    def look(self) -> Identity | None:
        """Return the identity of the current file; None if there is no regular file."""

    def copy(self, identity: Identity, write: Callable[[bytes], object]) -> bool:
        """Write the file that ``look`` found. Returns False if the file changed before or during the copy."""

    def close(self) -> None:
        """Make a call that is running in another thread return or raise soon."""


class Snapshots:
    """The snapshots of one run, in ``folder``.

    ``spent`` returns ``calls`` and ``cost`` of the run's model calls so far. ``notes`` says what was skipped, and why.
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
        """Seconds from the agent's start to the last observed change."""
        self._folder = folder
        self._partial = folder / ".partial"
        self._policy = policy or SnapshotPolicy()
        self._max_bytes = max_bytes
        self._spent = spent
        self._notes = Counter[str]()
        self._stored = 0
        self._stop = threading.Event()

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(f"{why}: {count} ×" if count > 1 else why for why, count in self._notes.items())

    @contextmanager
    def watching(self, source: SubmissionSource, redactor: Redactor) -> Iterator[None]:
        thread = threading.Thread(target=self._watch, args=(source, redactor), name="mlebench-snapshots", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            source.close()
            thread.join()

    def _watch(self, source: SubmissionSource, redactor: Redactor) -> None:
        started, next_at = time.monotonic(), 0.0
        seen: Identity | None = None
        done: Identity | None = None
        try:
            while not self._stop.wait(self._policy.check_interval):
                found = source.look()
                now = time.monotonic() - started
                if found is None or found == done:
                    seen = found
                elif found != seen:
                    seen, self.changed_at = found, now
                elif now >= next_at and len(self.taken) < self._policy.number:
                    if not self._fits(found.size) or self._take(source, found, redactor, self.changed_at or now):
                        done = found
                    next_at = now + self._policy.spacing_after(len(self.taken), self._stored)
        except (OSError, ValueError) as error:
            if not self._stop.is_set():
                self._notes[f"no further snapshots of the submission: {error}"] += 1
        finally:
            with suppress(OSError):
                self._partial.unlink(missing_ok=True)

    def _fits(self, size: int) -> bool:
        if size > self._max_bytes:
            self._notes[f"no snapshot of a submission of more than {format_size(self._max_bytes)}"] += 1
        elif self._stored + size > self._policy.total_bytes:
            self._notes[
                f"no snapshot of a submission: all together are limited to {format_size(self._policy.total_bytes)}"
            ] += 1
        else:
            return True
        return False

    def _take(self, source: SubmissionSource, identity: Identity, redactor: Redactor, seconds: float) -> bool:
        """Take a snapshot. Returns False if the file changed meanwhile, so that a retry is worthwhile."""
        self._folder.mkdir(parents=True, exist_ok=True)
        usage = self._spent()
        with self._partial.open("wb") as file:
            if not source.copy(identity, file.write) or file.tell() != identity.size:
                return False
        if not redactor.file(self._partial):
            self._notes["no snapshot of a submission that is an archive with a secret in it"] += 1
            return True
        digest = digest_of(self._partial)
        if self.taken and self.taken[-1].digest == digest:
            return True
        path = next((known.path for known in self.taken if known.digest == digest), None)
        if path is None:
            path = self._folder / f"{len(self.taken) + 1:04}.csv"
            self._partial.rename(path)
            self._stored += identity.size
        spent = {"calls": usage.get("calls"), "cost": usage.get("cost")}
        self.taken.append(Snapshot(seconds=round(seconds, 3), path=path, digest=digest, size=identity.size, **spent))
        return True


def taking_snapshots(
    snapshots: Snapshots | None, source: SubmissionSource, redactor: Redactor
) -> AbstractContextManager[None]:
    """Take snapshots while the block runs; none if ``snapshots`` is None."""
    return nullcontext() if snapshots is None else snapshots.watching(source, redactor)


class SubmissionFile:
    """The submission in a local folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._closed = False

    def look(self) -> Identity | None:
        try:
            with self._opened() as folder:
                return Identity.of(os.stat(SUBMISSION_NAME, dir_fd=folder, follow_symlinks=False))
        except OSError:
            return None

    def copy(self, identity: Identity, write: Callable[[bytes], object]) -> bool:
        try:
            with self._opened() as folder:
                descriptor = _open_quietly(folder)
        except OSError:
            return False
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            left = identity.size
            if Identity.of(os.fstat(descriptor)) != identity:
                return False
            while left > 0 and not self._closed and (block := file.read(min(_BLOCK, left))):
                write(block)
                left -= len(block)
            return Identity.of(os.fstat(descriptor)) == identity

    def close(self) -> None:
        self._closed = True

    @contextmanager
    def _opened(self) -> Iterator[int]:
        descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


def _open_quietly(folder: int) -> int:
    """Open the file without blocking on a pipe, following a link, or changing its access time."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        return os.open(SUBMISSION_NAME, flags | os.O_NOATIME, dir_fd=folder)
    except PermissionError:  # it belongs to another user
        return os.open(SUBMISSION_NAME, flags, dir_fd=folder)


MAX_DEPTH = 64
_MAX_NOTES = 100
_MAX_NOTE = 300
_MAX_NAME = 255
"""Maximum bytes of a path component in the archive, which every file system supports."""
_EPOCH = (1980, 1, 1, 0, 0, 0)
_MAX_MEMBERS = 400_000
"""Maximum members of an archive: readers reject more."""
_STORED = 64 << 20
"""Files of at least this many bytes are not compressed, which would delay a run's end by minutes."""


class DiskFull(SandboxError):
    """This machine's disk, not the agent's, is full."""


class FilesWriter:
    """Context manager that writes the archive of a run's files. A run without files has no archive.

    Members depend only on names and contents: dates and permissions are fixed. An interrupted archive keeps the files
    that were complete. ``max_name_bytes`` limits the total length of all names, also for the sake of readers.
    """

    def __init__(self, run_dir: Path, *, max_name_bytes: int = 24 << 20) -> None:
        self.run_dir = run_dir
        self._name_bytes_left = max_name_bytes
        self._partial = run_dir / f".{FILES}.part"
        self._archive: zipfile.ZipFile | None = None
        self._files: set[str] = set()
        self._folders: set[str] = set()
        self._copies: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._archive is None:
            return
        try:
            self._archive.close()
            self._partial.replace(self.run_dir / FILES)
        except BaseException:
            with suppress(OSError):
                self._partial.unlink(missing_ok=True)
            raise

    def write(self, parts: Sequence[str], source: IO[bytes], size: int) -> None:
        """Add a file of ``size`` bytes. Raises FileExistsError if a parent folder exists as a file, and OSError."""
        name = self._free_name([member_name(part) for part in parts])
        if self._archive is None:
            self.run_dir.mkdir(parents=True, exist_ok=True)
            self._archive = zipfile.ZipFile(self._partial, "w")
        info = zipfile.ZipInfo(name, _EPOCH)
        info.compress_type = zipfile.ZIP_STORED if size >= _STORED else zipfile.ZIP_DEFLATED
        info.create_system, info.external_attr = 3, (stat.S_IFREG | 0o644) << 16
        with self._archive.open(info, "w", force_zip64=size >= 1 << 31) as member:
            _copy(source, member)

    def _free_name(self, parts: Sequence[str]) -> str:
        """Return the member's name, with a number if it is taken, for example after masking."""
        folders = ["/".join(parts[:depth]) for depth in range(1, len(parts))]
        if not self._files.isdisjoint(folders):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        wanted = name = "/".join(parts)
        while name in self._files or name in self._folders:
            self._copies[wanted] = self._copies.get(wanted, 1) + 1
            name = f"{wanted}~{self._copies[wanted]}"
        self._name_bytes_left -= len(name.encode())
        if self._name_bytes_left < 0 or len(self._files) >= _MAX_MEMBERS:
            raise OSError(errno.EFBIG, "too many names, or names too long")
        self._files.add(name)
        self._folders.update(folders)
        return name


def member_name(part: str) -> str:
    r"""Escape a file's name for the archive: unprintable bytes and backslashes as ``%XX``; long names are shortened.

    >>> member_name("two\nlines")
    'two%0Alines'
    """
    safe = "".join(
        character if character.isprintable() and character not in "\\/" else _escaped(character) for character in part
    )
    encoded = safe.encode()
    if len(encoded) > _MAX_NAME:  # keep the end, which has the extension
        safe = f"{encoded[:200].decode('utf-8', 'ignore')}…{encoded[-50:].decode('utf-8', 'ignore')}"
    return safe if safe.strip(". ") else safe.replace(".", "%2E").replace(" ", "%20") or "%00"


def _escaped(character: str) -> str:
    errors = "surrogateescape" if "\udc80" <= character <= "\udcff" else "surrogatepass"
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", errors))


@dataclass
class Collector:
    """Copies untrusted folder trees. ``left_out`` lists what was not copied.

    Secrets are masked in contents and names. An archive that contains one is left out.
    """

    files: FilesWriter
    max_bytes: int
    max_files: int
    redactor: Redactor = field(default_factory=Redactor)
    left_out: list[str] = field(default_factory=list)
    unnamed: int = 0
    """How many more entries were left out than ``left_out`` lists."""
    collected_bytes: int = 0
    _files: int = 0
    _folders: int = 0

    def collect(self, source: Path, *, first: str = "") -> None:
        """Collect the tree below ``source``. Links, pipes, devices and whatever exceeds the limits are left out.

        An entry named ``first`` is collected before all others. Raises DiskFull.
        """
        try:
            root = os.open(source, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            self.note(f"{source.name} (no folder)")
            return
        try:
            self._folder(root, (source.name,), first)
        finally:
            os.close(root)

    def _folder(self, folder: int, parts: tuple[str, ...], first: str = "") -> None:
        # Use descriptors: a path could be replaced by a link between the check and the copy.
        with os.scandir(folder) as entries:
            names = sorted((entry.name for entry in entries), key=lambda name: (name != first, name))
        for name in names:
            self._entry(folder, (*parts, name))

    def _entry(self, folder: int, parts: tuple[str, ...]) -> None:
        path = "/".join(parts)
        try:
            descriptor = os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
        except OSError as error:
            self.note(f"{path} ({'link' if _is_link(folder, parts[-1]) else error.strerror})")
            return
        try:
            status = os.fstat(descriptor)
            if stat.S_ISDIR(status.st_mode):
                if len(parts) - 1 > MAX_DEPTH:
                    self.note(f"{path[:200]}… (folders too deep)")
                elif self.admit_folder(path):
                    self._folder(descriptor, parts)
            elif not stat.S_ISREG(status.st_mode):
                self.note(f"{path} (not a regular file)")
            elif self.admit(path, status.st_size):
                with os.fdopen(os.dup(descriptor), "rb") as source:
                    self.keep(parts, source, status.st_size)
        except OSError as error:
            self.note(f"{path} ({error.strerror})")
        finally:
            os.close(descriptor)

    def note(self, what: str) -> None:
        """Note an entry that is left out. The list is bounded: an agent may leave a million links."""
        if len(self.left_out) < _MAX_NOTES:
            self.left_out.append(self.redactor.text(what, _MAX_NOTE))
        else:
            self.unnamed += 1

    def admit_folder(self, shown: str) -> bool:
        """Count a folder. Returns False and notes it if there are more than ``max_files`` folders."""
        if self._folders + 1 > self.max_files:
            self.note(f"{shown} (more than {self.max_files:,} folders)")
            return False
        self._folders += 1
        if shown == SUBMISSION:  # the archive has no folders, so an empty one would leave no trace
            self.note(f"{shown} (a folder)")
        return True

    def admit(self, shown: str, size: int) -> bool:
        """Count a file of this size. Returns False and notes it if it exceeds the limits."""
        if self._files + 1 > self.max_files:
            self.note(f"{shown} (more than {self.max_files:,} files)")
            return False
        if self.collected_bytes + size > self.max_bytes:
            self.note(f"{shown} ({size:,} bytes; over the limit of {self.max_bytes:,} in all)")
            return False
        self._files += 1
        self.collected_bytes += size
        return True

    def keep(self, parts: Sequence[str], source: IO[bytes], size: int) -> None:
        """Store at most ``size`` bytes of an admitted file, with secrets masked. Raises OSError, and DiskFull.

        The submission becomes a file, everything else goes into the archive.
        """
        path = "/".join(parts)
        try:
            self.files.run_dir.mkdir(parents=True, exist_ok=True)
            # This file has no name, so that nothing is left of it, whatever happens.
            with tempfile.SpooledTemporaryFile(max_size=_BLOCK, dir=str(self.files.run_dir)) as masked:
                _copy(source, masked, size)  # a file that grows meanwhile is truncated
                if not self.redactor.open_file(masked):
                    self.note(f"{path} (an archive that holds a secret)")
                    return
                masked.seek(0)
                if path == SUBMISSION:
                    target = self.files.run_dir / SUBMISSION
                    target.parent.mkdir(exist_ok=True)
                    with target.open("xb") as file:
                        _copy(masked, file)
                else:
                    self.files.write([self._name(part) for part in parts], masked, size)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise DiskFull(f"{self.files.run_dir}: no space left on this machine for the agent's files") from error
            raise

    def _name(self, name: str) -> str:
        """Mask secrets in a file's name. A name without secrets is unchanged, whatever its bytes are."""
        return name if not self.redactor.spans(os.fsencode(name)) else self.redactor.text(name, 200)


def _copy(source: IO[bytes], target: IO[bytes], size: int | None = None) -> None:
    left = size
    while block := source.read(_BLOCK if left is None else min(_BLOCK, left)):
        target.write(block)
        left = None if left is None else left - len(block)


def _is_link(folder: int, name: str) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return False


_SKIP = 4 << 30
"""Maximum bytes to skip, to reach the entries after files that are too large."""

_MORE_ENTRIES = 1000
"""Entries such as links that are read in addition to admitted files and folders."""

_READ = 1 << 14
_MAX_HEADERS = 2 * _READ
"""Maximum bytes between the content of two entries: ``tarfile`` keeps them in memory, and reads a block ahead."""

_DAMAGE = (tarfile.TarError, ValueError, RecursionError)
"""What ``tarfile`` raises for malformed entries."""


class _TooMuch(Exception):
    """The stream is longer than its budget."""


class _Stream(io.RawIOBase):
    """Presents the chunks as a file of at most ``budget`` bytes, which can be read up to ``end`` for now."""

    def __init__(self, chunks: Iterator[bytes], budget: int) -> None:
        self._chunks, self.budget = chunks, budget
        self._buffer = b""
        self._position, self.end = 0, _MAX_HEADERS

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        if self._position + size > self.end:
            raise _TooMuch
        while len(self._buffer) < size and (chunk := next(self._chunks, b"")):
            self.budget -= len(chunk)
            if self.budget < 0:
                raise _TooMuch
            self._buffer += chunk
        block, self._buffer = self._buffer[:size], self._buffer[size:]
        self._position += len(block)
        return block


def _tar(stream: _Stream) -> tarfile.TarFile:
    return tarfile.open(fileobj=stream, mode="r|", bufsize=_READ)


def _next(tar: tarfile.TarFile, stream: _Stream) -> tarfile.TarInfo | None:
    """Return the next entry, and forget the previous ones: their names may be long."""
    member = tar.next()
    tar.members, tar.pax_headers = [], {}  # type: ignore[attr-defined]
    stream.end = tar.offset + _MAX_HEADERS
    if member is not None and member.size < 0:
        raise tarfile.ReadError("an entry has a negative size")
    return member


def collect_archive(chunks: Iterator[bytes], folders: Sequence[str], collector: Collector) -> None:
    """Collect the regular files below ``folders`` from a tar stream. The collector notes what is left out.

    Raises DiskFull.
    """
    if not (start := next(chunks, b"")):
        collector.note(f"{', '.join(folders)} (no folder)")
        return
    stream = _Stream(chain([start], chunks), collector.max_bytes + collector.max_files * 2048 + _SKIP)
    last = folders[0]
    try:
        with _tar(stream) as tar:
            for number, member in enumerate(iter(partial(_next, tar, stream), None)):
                last = member.name
                if member.isreg() and member.size > stream.budget:
                    collector.note(f"{shown(last)} ({member.size:,} bytes), and all that follows it")
                    return
                if number > 2 * collector.max_files + _MORE_ENTRIES:
                    collector.note(f"{shown(last)}, and all that follows it")
                    return
                _member(tar, member, folders, collector)
    except _TooMuch:
        collector.note(f"all after {shown(last)} (too much data to read)")
    except _DAMAGE as error:
        collector.note(f"all after {shown(last)} (the archive is damaged: {error})")


def collect_submission(chunks: Iterator[bytes], collector: Collector) -> None:
    """Collect the submission, the only regular file of a tar stream; anything else is ignored. Raises DiskFull."""
    if not (start := next(chunks, b"")):
        return
    try:
        stream = _Stream(chain([start], chunks), _SKIP)
        with _tar(stream) as tar:
            member = _next(tar, stream)
            if member is not None and member.isreg() and collector.admit(SUBMISSION, member.size):
                _keep(tar, member, SUBMISSION.split("/"), collector)
    except (_TooMuch, *_DAMAGE):
        collector.note(f"{SUBMISSION} (the archive is damaged)")


def _member(tar: tarfile.TarFile, member: tarfile.TarInfo, folders: Sequence[str], collector: Collector) -> None:
    name = shown(member.name)
    first, *parts = member.name.rstrip("/").split("/")
    if first not in folders or any(part in ("", ".", "..") or "\0" in part for part in parts):
        collector.note(f"{name} (not a path below the folder)")
    elif len(parts) > MAX_DEPTH:
        collector.note(f"{name[:200]}… (folders too deep)")
    elif member.isdir():
        if parts:
            collector.admit_folder(name)
    elif not member.isreg() or not parts:
        collector.note(f"{name} ({'link' if member.issym() or member.islnk() else 'not a regular file'})")
    elif collector.admit(name, member.size):
        _keep(tar, member, [first, *parts], collector)


def _keep(tar: tarfile.TarFile, member: tarfile.TarInfo, parts: Sequence[str], collector: Collector) -> None:
    source = tar.extractfile(member)
    assert source is not None
    try:
        collector.keep(parts, source, member.size)
    except OSError as error:
        collector.note(f"{shown(member.name)} ({error.strerror})")


def shown(name: str) -> str:
    """Return a name chosen by the agent, made safe to print and store."""
    return name.encode("utf-8", "backslashreplace").decode()
