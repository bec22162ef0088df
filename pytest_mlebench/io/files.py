"""Atomic, durable writes of files and folders; disk space; access to files that others wrote."""

from __future__ import annotations

import errno
import hashlib
import heapq
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from random import SystemRandom
from secrets import token_hex
from typing import BinaryIO, TypeVar

from pytest_mlebench.errors import DataError, UsageError, reason
from pytest_mlebench.io.units import format_size

T = TypeVar("T")

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
"""Flags for opening a folder without following a link."""
REGULAR = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""Flags for opening a file that must be regular, which has to be checked, without following links or waiting."""


def write_text(path: Path, text: str) -> None:
    """Write a file atomically and durably: readers find the old file or the new one, even after a power failure."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    new = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with new.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        publish(new, path)
    except BaseException:
        with suppress(OSError):
            new.unlink(missing_ok=True)
        raise


def sync(folder: Path) -> None:
    """Flush all writes to the folder's file system to its disk.

    This is a single call, because an fsync for each of a million images would take hours. Raises OSError if a write
    failed: a network file system may notice only now that it is full.
    """
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        _call_libc("syncfs", descriptor, path=folder)
    finally:
        os.close(descriptor)


def _call_libc(name: str, *arguments: int | bytes, path: Path) -> None:
    import ctypes  # takes several milliseconds, and most starts of pytest do not need it

    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments):
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), str(path))


def publish(work: Path, target: Path) -> None:
    """Durably rename a complete, synced file or folder; ``target`` is a file, or an absent or empty folder."""
    work.replace(target)
    _sync_entries(target.parent)


def _sync_entries(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def exchange(one: Path, other: Path) -> None:
    """Durably swap two folders of a file system, atomically if the file system supports it (NFS does not)."""
    try:
        _call_libc("renameat2", _AT_FDCWD, bytes(one), _AT_FDCWD, bytes(other), _RENAME_EXCHANGE, path=one)
    except OSError:
        aside = one.with_name(f"{one.name}.aside")
        other.rename(aside)
        one.rename(other)
        aside.rename(one)
    _sync_entries(other.parent)


def private_folder(folder: Path) -> Path:
    """Create a folder for this user alone, in one that others can write to, unless it exists. Raises OSError."""
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        problem = f"it must be a folder you own, closed to others: remove it, or chmod 700 {folder}"
        raise PermissionError(errno.EACCES, problem, str(folder))
    return folder


@contextmanager
def scratch(folder: Path | None = None, prefix: str = "mlebench-") -> Iterator[str]:
    """A temporary folder in which code of others may write, inside ``folder``; None: the system's temporary folder."""
    name = tempfile.mkdtemp(prefix=prefix, dir=folder)
    try:
        yield name
    finally:
        remove_tree(Path(name))


AnyPath = str | os.PathLike[str]


def bundled(name: str) -> Path:
    """Path of the bundled ``competitions``, ``agents``, ``environment`` or ``reports``, in a wheel or a checkout."""
    package = Path(__file__).parents[1]
    inside = package / "bundled" / name
    return inside if inside.is_dir() else package.parent / name


class UnknownHome(UsageError, ValueError):
    """A path begins with the home folder of an unknown user; also a ValueError, as parsers of option values raise."""


def expanded(path: AnyPath) -> Path:
    """A path that a user wrote, with ``~`` expanded; raises UnknownHome."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise UnknownHome(f"there is no home folder {Path(path).parts[0]}") from error


def real_path(path: Path) -> Path:
    """The path with links resolved, except cycles of links, for which ``Path.resolve`` fails before Python 3.13."""
    return Path(os.path.realpath(path))


def read_regular(path: Path, max_bytes: int, *, follow_links: bool = True) -> str:
    """The text of a file in UTF-8. Raises OSError, or ValueError if it is a device or pipe, too large, or not UTF-8."""
    return regular_bytes(path, max_bytes, follow_links=follow_links).decode("utf-8")


def regular_bytes(path: Path, max_bytes: int, *, follow_links: bool = True) -> bytes:
    """The content of a file. Raises as ``read_regular``."""
    with open_regular(path, follow_links=follow_links) as file:
        size = os.fstat(file.fileno()).st_size
        content = file.read(max_bytes + 1) if size <= max_bytes else b""
    if max(size, len(content)) > max_bytes:
        raise ValueError(f"it has more than {max_bytes:,} bytes")
    return content


def digest_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def open_regular(path: Path, *, follow_links: bool) -> Iterator[BinaryIO]:
    """Open a file to read its bytes. Raises OSError, or ValueError if it is a device or pipe, or a link."""
    with open(path, "rb", opener=_without_waiting if follow_links else _without_link) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError("it is not a regular file")
        yield file


def _without_waiting(path: str, flags: int) -> int:
    # Without O_NONBLOCK, opening a pipe waits for a writer.
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)


def _without_link(path: str, flags: int) -> int:
    try:
        return _without_waiting(path, flags | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise ValueError("it is a link, which is not followed here: copy the file") from error
        raise


def secret_lines(file: Path) -> Iterator[tuple[int, str]]:
    """The numbered lines of a file with secrets, without blank lines and comments.

    Raises UsageError if another user owns the file or can read it.
    """
    try:
        with open(file, encoding="utf-8", opener=_without_waiting) as opened:
            about = os.fstat(opened.fileno())
            if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & 0o077:
                raise UsageError(f"{file} must be a file that you own and only you can read: chmod 600 {file}")
            lines = opened.read().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: {reason(error)}") from error
    return ((number, line) for number, line in enumerate(map(str.strip, lines), 1) if line and not line.startswith("#"))


def shuffled(values: Iterable[T]) -> list[T]:
    """A list of the values in an unpredictable order."""
    items = list(values)
    return SystemRandom().sample(items, len(items))


_DISK_FULL = {errno.ENOSPC, errno.EDQUOT}
_MIN_FREE_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class SpaceNeed:
    """The disk space in bytes that preparing a competition needs: at its peak, and afterwards."""

    peak: int
    rest: int


def require_space(folder: Path, needs: Sequence[SpaceNeed], jobs: int) -> None:
    """Raise DataError if the folder's disk lacks space for these needs, with ``jobs`` preparations at once."""
    needed = sum(need.rest for need in needs) + sum(heapq.nlargest(jobs, (need.peak - need.rest for need in needs)))
    available = free_bytes(folder)
    if available is None or needed <= available:
        return
    many = f"{len(needs)} competitions may need" if len(needs) > 1 else "preparing may need"
    raise DataError(
        f"not enough disk space at {folder}: {many} up to {format_size(needed)}, {format_size(available)} is free, "
        f"{format_size(needed - available)} more is needed. Free some space (`mlebench list` shows what data takes, "
        "`mlebench remove` frees it), choose fewer competitions or another --data-dir, "
        "or start anyway with --skip-disk-check"
    )


def free_bytes(folder: Path) -> int | None:
    """The free bytes for this user on the disk of a folder, which need not exist yet.

    None if it is not on a disk, such as ``/proc``. Raises DataError if this user has no access.
    """
    try:
        while not folder.exists():
            folder = folder.parent
        usage = shutil.disk_usage(folder)
    except OSError as error:
        raise unreadable(folder, error) from error
    return usage.free if usage.total else None


def is_disk_full(error: BaseException | None, folder: Path) -> bool:
    """Whether a full disk caused an error: by its errno, a cause's errno, or the disk's free space."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _DISK_FULL:
            return True
        error = error.__cause__ or error.__context__
    try:
        available = free_bytes(folder)
    except DataError:
        return False
    return available is not None and available < _MIN_FREE_BYTES


def disk_full(competition_id: str, folder: Path) -> DataError:
    return DataError(
        f"{competition_id}: the disk of {folder} is full, or accepts no more files. Incomplete files were removed, "
        "complete ones are kept. Free some space (`mlebench list` shows what data takes, `mlebench remove` frees it) "
        "and call again to resume"
    )


def used_bytes(paths: Iterable[Path]) -> int:
    """The bytes that removing these files and folders would free. A file counts if all its hard links are removed."""
    links: dict[tuple[int, int], int] = {}
    freed = 0
    for status in chain.from_iterable(map(_files, paths)):
        key = (status.st_dev, status.st_ino)
        links[key] = links.get(key, 0) + 1
        if links[key] == status.st_nlink:
            freed += status.st_blocks * 512
    return freed


def _files(path: Path) -> Iterator[os.stat_result]:
    if path.is_dir() and not path.is_symlink():
        for entry in entries_below(path):
            with suppress(OSError):  # another process removed it
                if not entry.is_dir(follow_symlinks=False):
                    yield entry.stat(follow_symlinks=False)
    elif path.exists():
        yield path.lstat()


def is_dir(path: Path) -> bool:
    """Whether the folder exists. Raises DataError if this user has no access."""
    return _checked(path, path.is_dir)


def is_file(path: Path) -> bool:
    """Whether the file exists. Raises DataError if this user has no access."""
    return _checked(path, path.is_file)


def has_entries(folder: Path) -> bool:
    """Whether the folder exists and is not empty. Raises DataError if this user has no access."""
    return _checked(folder, lambda: folder.is_dir() and any(folder.iterdir()))


def _checked(path: Path, check: Callable[[], bool]) -> bool:
    try:
        return check()
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: OSError) -> DataError:
    return DataError(
        f"{path} cannot be read: {error.strerror or error}; choose another data folder with --data-dir or "
        "MLEBENCH_DATA_DIR, or get permission to read this one"
    )


def entries_below(folder: Path, *, ignore_errors: bool = True) -> Iterator[os.DirEntry[str]]:
    """All entries below a folder, however deep it is, each folder before its content.

    Links are not followed. Folders that cannot be read are left out, or raise OSError without ``ignore_errors``.
    """
    waiting = [os.fspath(folder)]
    while waiting:
        with suppress(OSError) if ignore_errors else nullcontext(), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                yield entry
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)


class NotReadable(Exception):
    """A file does not exist or must not be read. The text says why."""


@contextmanager
def opened(root: Path, *parts: str) -> Iterator[int]:
    """Open a regular file below ``root`` and yield its descriptor. Each part is a name. Raises NotReadable.

    Each folder on the way is opened by name within the previous one, so that neither a link nor a folder that is
    replaced meanwhile can lead elsewhere.
    """
    if not parts or not all(map(is_name, parts)):
        raise NotReadable("there is no such file")
    here = -1
    try:
        here = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        for part in parts[:-1]:
            here = _replaced(here, os.open(part, FOLDER, dir_fd=here))
        here = _replaced(here, os.open(parts[-1], REGULAR, dir_fd=here))
        if not stat.S_ISREG(os.fstat(here).st_mode):
            raise NotReadable("this is not a regular file")
        yield here
    except (OSError, ValueError) as error:
        raise NotReadable("there is no such file, or it is a link") from error
    finally:
        if here >= 0:
            os.close(here)


def _replaced(old: int, new: int) -> int:
    os.close(old)
    return new


def is_name(part: str) -> bool:
    """Whether a text can be the name of a file in a folder."""
    return part not in ("", ".", "..") and "/" not in part and "\0" not in part


def make_readable(folder: Path) -> None:
    """Make everything in a folder readable for its owner, this process's user. Links are not followed."""
    with suppress(OSError):
        folder.chmod(0o700)
    for entry in entries_below(folder):
        with suppress(OSError):
            mode = entry.stat(follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode) and mode & 0o700 != 0o700:
                Path(entry).chmod(0o700)
            elif stat.S_ISREG(mode) and not mode & 0o400:
                Path(entry).chmod(mode | 0o400)


def remove_tree(folder: Path, *, ignore_errors: bool = True) -> None:
    """Remove a folder that code of others wrote to, whatever permissions it set and however deep the folder is.

    Its inner folders are moved to its top before they are emptied: their paths may be too long for the system, and
    ``shutil.rmtree`` recurses. Without ``ignore_errors``, raises OSError if something cannot be removed.
    """
    names = map(f"{token_hex(16)}-{{}}".format, count())
    with suppress(OSError):
        top = _open_folder(folder)
        try:
            waiting = _emptied(top, top, names)
            while waiting:
                with suppress(OSError):
                    inner = _open_folder(name := waiting.pop(), top)
                    try:
                        waiting += _emptied(inner, top, names)
                    finally:
                        os.close(inner)
                    os.rmdir(name, dir_fd=top)
        finally:
            os.close(top)
        folder.rmdir()
    if not ignore_errors and os.path.lexists(folder):
        shutil.rmtree(folder)  # raises the reason


def _open_folder(name: str | Path, parent: int | None = None) -> int:
    """Open a folder, after its owner, this process's user, has got all rights. Raises OSError, also for a link."""
    place = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        with suppress(OSError):  # it belongs to another user
            Path(f"/proc/self/fd/{place}").chmod(0o700)
        return os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=place)
    finally:
        os.close(place)


def _emptied(folder: int, top: int, names: Iterator[str]) -> list[str]:
    """Remove the files of an open folder, and move its folders to ``top``. Returns their new names."""
    moved = []
    for name in os.listdir(folder):
        with suppress(OSError):
            try:
                os.unlink(name, dir_fd=folder)
            except IsADirectoryError:
                os.close(_open_folder(name, folder))  # moving it needs the right to write to it
                os.rename(name, new := next(names), src_dir_fd=folder, dst_dir_fd=top)
                moved.append(new)
    return moved
