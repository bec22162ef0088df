"""The files that a run's agent left, read in place from its archive, as data only; and a run's timeline.

Groups of earlier versions have folders instead, which are read the same way. Both may come from third parties, so an
archive is checked before it is read. Its members must be regular files with plain, unique names below ``code``,
``logs`` and ``submission``. They must not overlap, or be larger than deflate can produce from their compressed bytes.

The timeline shows the submission's score over time and cost, from its snapshots.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
import time
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

from pytest_mlebench import defaults
from pytest_mlebench.errors import DataError, UsageError, reason
from pytest_mlebench.io.files import FOLDER, digest_of, entries_below, open_regular
from pytest_mlebench.io.units import format_size
from pytest_mlebench.io.values import as_number, as_object, loads
from pytest_mlebench.records.outcome import Report, TimelinePoint
from pytest_mlebench.records.record import COLLECTED, FILES, SUBMISSION, VALIDATION, RunRecord
from pytest_mlebench.sandbox.collection import MAX_DEPTH, FilesWriter, Snapshots

_MAX_FILES = 400_000
_MAX_DIRECTORY = 64 << 20
"""Maximum bytes of an archive's list of members."""
_MAX_RATIO = 1032
"""Maximum number of bytes that deflate produces from one byte."""
_MAX_PATH = 65_000
_MAX_OPENED = 4096
"""Maximum bytes of a path that the system opens, with a zero byte at its end."""
_NAME_ERRORS = {errno.EEXIST, errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ}
"""Errors of names that exist in other case, for example, are too long, or have characters that are not supported."""
_BLOCK = 1 << 20
_END, _LOCATOR, _END_64 = struct.Struct("<4s4H2LH"), struct.Struct("<4sLQL"), struct.Struct("<4sQ2H2L4Q")


class FilesError(DataError):
    """The files of a run cannot be read, or cannot be read safely."""


@dataclass(frozen=True)
class RunFile:
    """A file that an agent left: its path, such as ``code/main.py``, its size in bytes, and its CRC (None: unknown)."""

    path: str
    size: int
    crc: int | None = None

    @property
    def suffix(self) -> str:
        """The suffix of its name, in lower case."""
        return Path(self.path).suffix.lower()


class RunFiles:
    """The files of a run by path, while they are open (see ``open_files``)."""

    def __init__(self, run_dir: Path, files: Mapping[str, RunFile], archive: zipfile.ZipFile | None = None) -> None:
        self.run_dir = run_dir
        self._files = files
        self._archive = archive

    def below(self, folder: str = "") -> list[RunFile]:
        """Return the files below a folder such as ``code``, or all files, ordered by path."""
        return [file for path, file in self._files.items() if not folder or path.startswith(f"{folder}/")]

    def get(self, path: str) -> RunFile | None:
        """Return the file with this path; None if there is none."""
        return self._files.get(path)

    @contextmanager
    def open(self, path: str) -> Iterator[IO[bytes]]:
        """Open a file for reading. An archive never yields more than the file's size. Raises FilesError."""
        if path not in self._files:
            raise FilesError(f"{self.run_dir.name} has no file {path}")
        failure = f"{path} of {self.run_dir.name} cannot be read"
        with ExitStack() as stack:
            try:
                file: IO[bytes] = stack.enter_context(
                    open_regular(self.run_dir / path, follow_links=False)
                    if self._archive is None
                    else self._archive.open(path)
                )
            except (OSError, ValueError, RuntimeError, zipfile.BadZipFile) as error:
                raise FilesError(f"{failure}: {_why(error)}") from error
            try:
                yield file
            except (EOFError, zlib.error, zipfile.BadZipFile) as error:
                raise FilesError(f"{failure}: {_why(error)}") from error

    def read(self, path: str, size: int, start: int = 0) -> bytes:
        """Return at most ``size`` bytes of a file, from offset ``start``. Raises FilesError."""
        with self.open(path) as file:
            file.seek(start)
            return file.read(size)


@contextmanager
def open_files(run_dir: Path, *, max_files: int = _MAX_FILES) -> Iterator[RunFiles]:
    """Open the files that a run left. Raises FilesError if the archive is damaged, hostile, or has too many files.

    >>> from pytest_mlebench import read_group
    >>> group = read_group(Path("reports/first"))
    >>> with open_files(group.folder / group.records[0].run_id) as files:
    ...     print([file.path for file in files.below("code")])  # the dummy agent leaves none
    []
    """
    with ExitStack() as stack:
        try:
            file = stack.enter_context(open_regular(run_dir / FILES, follow_links=False))
            archive = stack.enter_context(_open_archive(file, max_files))
            found = RunFiles(run_dir, _checked(archive), archive)
        except FileNotFoundError:
            found = RunFiles(run_dir, _in_folders(run_dir, max_files))
        except (OSError, EOFError, ValueError, NotImplementedError, struct.error, zipfile.BadZipFile) as error:
            raise FilesError(f"{run_dir / FILES} cannot be read: {_why(error)}") from error
        yield found


def _why(error: Exception) -> str:
    return reason(error) or type(error).__name__


def _open_archive(file: IO[bytes], max_files: int) -> zipfile.ZipFile:
    """Open an archive after checking the size of its list of members. Raises ValueError."""
    total = file.seek(0, os.SEEK_END)
    tail_size = min(total, _END.size + _LOCATOR.size + _END_64.size)
    file.seek(total - tail_size)
    tail = file.read(tail_size)
    if len(tail) < _END.size or tail[-_END.size :][:4] != b"PK\x05\x06":
        raise ValueError("it is not a zip archive without a comment")
    *_, size, offset, _ = _END.unpack(tail[-_END.size :])
    sizes = [0 if size == 0xFFFFFFFF else size]
    if (
        len(tail) == _END.size + _LOCATOR.size + _END_64.size
        and tail[-_END.size - _LOCATOR.size :][:4] == b"PK\x06\x07"
    ):
        *_, size, offset = _END_64.unpack(tail[: _END_64.size])
        sizes.append(size)
    if max(sizes) > _MAX_DIRECTORY or offset > total:
        raise ValueError("its list of members is too large")
    file.seek(max(0, total - tail_size - max(sizes)))
    if file.read(max(sizes) + tail_size).count(b"PK\x01\x02") > max_files:
        raise ValueError(f"it has more than {max_files:,} members")
    return zipfile.ZipFile(file)


def _checked(archive: zipfile.ZipFile) -> dict[str, RunFile]:
    """Return the members of an archive by path, in order. Raises ValueError for anything that no harness writes."""
    found: dict[str, RunFile] = {}
    places: list[tuple[int, int]] = []
    for info in archive.infolist():
        name, packed = info.filename, info.compress_size
        ratio = {zipfile.ZIP_STORED: 0, zipfile.ZIP_DEFLATED: _MAX_RATIO}.get(info.compress_type)
        problem = None
        if not is_safe(name) or info.orig_filename != name:
            problem = f"is not a path below {', '.join(COLLECTED)}"
        elif name in found:
            problem = "is a duplicate"
        elif stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG):
            problem = "is not a regular file"
        elif info.flag_bits & 0x41 or ratio is None:
            problem = "is encrypted, or compressed by an unknown method"
        elif info.file_size > (packed * ratio + ratio if ratio else packed):
            problem = "declares an impossible size"
        if problem:
            raise ValueError(f"its member {name[:100]!r} {problem}")
        places.append((info.header_offset, 30 + len(name.encode()) + packed))
        found[name] = RunFile(name, info.file_size, info.CRC)
    places.sort()
    ends = [*(start for start, _ in places[1:]), archive.start_dir]
    if any(start < 0 or start + size > end for (start, size), end in zip(places, ends, strict=False)):
        raise ValueError("its members overlap")
    ordered = dict(sorted(found.items()))
    for path, other in pairwise(sorted(ordered, key=lambda path: path.split("/"))):
        if other.startswith(f"{path}/"):
            raise ValueError(f"its member {path[:100]!r} is both a file and a folder")
    return ordered


def check_files(run_dir: Path, *, max_bytes: int = defaults.COLLECT_BYTES, max_checked: int = 64 << 20) -> None:
    """Check the archive of a run from a third party. Raises FilesError.

    Checks its members, their total size (``max_bytes`` for each folder), and the content of those of at most
    ``max_checked`` bytes, which an audit may read.
    """
    with open_files(run_dir) as files:
        total = sum(file.size for file in files.below())
        if total > (limit := len(COLLECTED) * max_bytes):
            raise FilesError(
                f"{run_dir / FILES} unpacks to {format_size(total)}; at most {format_size(limit)} are kept"
            )
        for file in files.below():
            if file.size <= max_checked:
                with files.open(file.path) as member:
                    while member.read(_BLOCK):
                        pass


def is_safe(path: str) -> bool:
    """Whether the archive of a run may have a file with this path: below a collected folder, and printable."""
    parts = path.split("/")
    return (
        len(path) <= _MAX_PATH
        and 1 < len(parts) <= MAX_DEPTH + 2  # the collected folder, those inside it, and the file
        and parts[0] in COLLECTED
        and "\\" not in path
        and path.isprintable()
        and all(part.strip() not in ("", ".", "..") for part in parts)
        and path != SUBMISSION
    )


def regular_files(folder: Path) -> Iterator[Path]:
    """Yield the regular files below a folder; links are not followed."""
    if folder.is_symlink():
        return
    for entry in entries_below(folder):
        with suppress(OSError):
            if entry.is_file(follow_symlinks=False):
                yield Path(entry)


def _in_folders(run_dir: Path, max_files: int) -> dict[str, RunFile]:
    """Return the files of a run of an earlier version, which left them in folders."""
    found: dict[str, RunFile] = {}
    for name in COLLECTED:
        for path in regular_files(run_dir / name):
            inside = path.relative_to(run_dir).as_posix()
            if inside != SUBMISSION and len(found) < max_files:
                with suppress(OSError):  # its path is too long to be opened
                    found[inside] = RunFile(inside, path.lstat().st_size)
    return dict(sorted(found.items()))


def copy_files(run_dir: Path, target: Path, folders: Collection[str]) -> list[RunFile]:
    """Write an archive of some folders of a run into the new folder ``target``. Returns the files left out of it."""
    target.mkdir()
    with open_files(run_dir) as files, FilesWriter(target) as writer:
        for file in files.below():
            if file.path.split("/")[0] in folders:
                with files.open(file.path) as source:
                    writer.write(file.path.split("/"), source, file.size)
        return [file for file in files.below() if file.path.split("/")[0] not in folders]


def unpack(
    run_dir: Path, target: Path, *, folders: tuple[str, ...] = COLLECTED, max_bytes: int | None = None
) -> list[str]:
    """Write the files of a run below ``target``, a new or empty folder. Returns the paths that could not be written.

    Nothing is written through a link, over another file, or as an executable. Names and paths that this system does
    not support are not written. Raises UsageError if ``target`` has files or the files exceed ``max_bytes`` in total,
    FilesError, and OSError.
    """
    left_out = []
    longest = _MAX_OPENED - len(os.fsencode(target.absolute())) - 2
    with open_files(run_dir) as files:
        wanted = [file for name in folders for file in files.below(name)]
        size = sum(file.size for file in wanted)
        if max_bytes is not None and size > max_bytes:
            raise UsageError(f"{run_dir.name} left {size:,} bytes, but at most {max_bytes:,} can be unpacked")
        root = _new_folder(target)
        try:
            for file in wanted:
                try:
                    if len(os.fsencode(file.path)) > longest:
                        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
                    with files.open(file.path) as source:
                        _write(root, file, source)
                except OSError as error:
                    if error.errno not in _NAME_ERRORS:
                        raise
                    left_out.append(file.path)
        finally:
            os.close(root)
    return left_out


def _new_folder(target: Path) -> int:
    target.mkdir(parents=True, exist_ok=True)
    try:
        root = os.open(target, FOLDER)
    except OSError as error:
        raise UsageError(f"{target} is a link, or cannot be opened: name a new folder") from error
    if os.listdir(root):  # noqa: PTH208 - the folder that was opened, whatever has its name now
        os.close(root)
        raise UsageError(f"{target} is not empty: name a new folder")
    return root


def _write(root: int, file: RunFile, source: IO[bytes]) -> None:
    """Write one file. Each folder on the way is opened by its name within the previous one."""
    *folders, name = file.path.split("/")
    here = os.dup(root)
    try:
        for folder in folders:
            with suppress(FileExistsError):
                os.mkdir(folder, 0o755, dir_fd=here)
            inner = os.open(folder, FOLDER, dir_fd=here)
            os.close(here)
            here = inner
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(name, flags, 0o644, dir_fd=here), "wb") as target:
            left = file.size
            while left > 0 and (block := source.read(min(_BLOCK, left))):
                target.write(block)
                left -= len(block)
    finally:
        os.close(here)


_MAX_VALIDATION_BYTES = 1 << 16
NOT_GRADED = "not graded: "
"""Prefix of the error of a point that was not graded, although its submission may be valid."""
_LATE = f"{NOT_GRADED}grading the run's snapshots took too long"
_INTERRUPTED = f"{NOT_GRADED}the session was interrupted"


def timeline(
    snapshots: Snapshots,
    record: RunRecord,
    run_dir: Path,
    *,
    grade: Callable[[Path], Report] | None,
    limit: float = defaults.TIMELINE_SECONDS,
) -> tuple[TimelinePoint, ...]:
    """Return the snapshots of a run by time, and last the submission that it left, which is graded already.

    ``grade`` grades a snapshot; None: snapshots are not graded. Grading stops after ``limit`` seconds; its order
    ensures that the graded snapshots cover the whole run.
    """
    report, seconds = record.report, record.seconds
    taken, final = list(snapshots.taken), run_dir / SUBMISSION
    has_file = report.submission_exists and final.is_file() and not final.is_symlink()
    final_digest = digest_of(final) if has_file else None
    reports = {final_digest: report} if final_digest else {}
    started = time.monotonic()
    for number in _spread(len(taken)):
        late = time.monotonic() - started > limit
        if grade is not None and not late and taken[number].digest not in reports:
            reports[taken[number].digest] = grade(taken[number].path)
    missing = _INTERRUPTED if grade is None else _LATE
    points = [
        _point(
            reports.get(snapshot.digest),
            missing,
            seconds=min(snapshot.seconds, round(seconds, 3)),  # the sandbox measures the run separately
            calls=snapshot.calls,
            cost=snapshot.cost,
            file=snapshot.path.relative_to(run_dir).as_posix(),
            final=snapshot is taken[-1] and snapshot.digest == final_digest,
        )
        for snapshot in taken
    ]
    if final_digest and not (points and points[-1].final):
        at = seconds if snapshots.changed_at is None else min(seconds, snapshots.changed_at)
        calls, cost = record.llm.get("calls"), record.llm.get("cost")
        points.append(_point(report, "", seconds=round(at, 3), calls=calls, cost=cost, file=SUBMISSION, final=True))
    return tuple(points)


def read_validation_score(run_dir: Path) -> float | None:
    """Return the score that the agent itself expects, from ``submission/validation.json``; None if there is none.

    Whatever the agent wrote there, this is a finite number or None.
    """
    try:
        with open_files(run_dir) as files:
            found = files.get(VALIDATION)
            if found is None or found.size > _MAX_VALIDATION_BYTES:
                return None
            values = loads(files.read(VALIDATION, _MAX_VALIDATION_BYTES))
    except (FilesError, ValueError):
        return None
    score = as_number(as_object(values).get("validation_score"))
    return None if score is None or abs(score) > 1e300 else score


def _point(report: Report | None, missing: str, **known: Any) -> TimelinePoint:
    if report is None:
        return TimelinePoint(**known, error=missing)
    return TimelinePoint(**known, score=report.score, medal=report.medal, error=report.error)


def _spread(count: int) -> Iterator[int]:
    """Yield the numbers below ``count``, in an order that soon covers the whole range: last, first, middle, …

    >>> list(_spread(5))
    [4, 0, 2, 1, 3]
    """
    if count:
        yield count - 1
    if count > 1:
        yield 0
    step = 1 << (count - 1).bit_length() >> 1
    while step:
        yield from range(step, count - 1, 2 * step)
        step //= 2
