"""Files and folders: written so that a reader or a power cut finds them whole, and where they lie."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import SystemRandom
from typing import TypeVar

from pytest_mlebench.errors import UsageError, reason

T = TypeVar("T")

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


def write_text(path: Path, text: str) -> None:
    """Write a file atomically and durably: a reader, or a power cut, finds the old file or the new one."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """The same for bytes."""
    new = path.with_name(f".{path.name}.{os.getpid()}")
    with new.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    publish(new, path)


def sync(folder: Path) -> None:
    """Wait until all that was written to the folder's file system is on its disk.

    One call for the file system, as an fsync for each of a million images would take hours. Raises OSError where
    something could not be written after all (a network file system may find only now that it is full).
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
    descriptor = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def exchange(one: Path, other: Path) -> None:
    """Durably let two folders of a file system change places, in one step where the file system can (not NFS)."""
    try:
        _call_libc("renameat2", _AT_FDCWD, bytes(one), _AT_FDCWD, bytes(other), _RENAME_EXCHANGE, path=one)
    except OSError:
        aside = one.with_name(f"{one.name}.aside")
        other.rename(aside)
        one.rename(other)
        aside.rename(one)
    descriptor = os.open(other.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def scratch(folder: Path, prefix: str) -> tempfile.TemporaryDirectory[str]:
    """A temporary folder inside ``folder``, whose name begins with ``prefix``."""
    return tempfile.TemporaryDirectory(prefix=prefix, dir=folder, ignore_cleanup_errors=True)


AnyPath = str | os.PathLike[str]


def bundled(name: str) -> Path:
    """``competitions``, ``agents``, ``environment`` or ``reports``, which come along in a wheel as in a checkout."""
    package = Path(__file__).parents[1]
    inside = package / "bundled" / name
    return inside if inside.is_dir() else package.parent / name


def expanded(path: AnyPath) -> Path:
    """A path that a user wrote, with ``~`` as the home folder; raises ValueError where that is not known."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise ValueError(f"there is no home folder {Path(path).parts[0]}") from error


def secret_lines(file: Path) -> Iterator[tuple[int, str]]:
    """The numbered lines of a file with secrets, without blank lines and comments.

    Raises UsageError for a file that somebody else owns or may read.
    """
    try:
        with file.open(encoding="utf-8") as opened:
            about = os.fstat(opened.fileno())
            if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & 0o077:
                raise UsageError(f"{file} must be a file of yours that only you can read: chmod 600 {file}")
            lines = opened.read().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: {reason(error)}") from error
    return ((number, line) for number, line in enumerate(map(str.strip, lines), 1) if line and not line.startswith("#"))


def shuffled(values: Iterable[T]) -> list[T]:
    """A list in an order that nobody can find out, nor repeat."""
    drawn = list(values)
    SystemRandom().shuffle(drawn)
    return drawn
