"""Files and folders that a reader, or a power cut, finds whole: the old ones or the new ones."""

from __future__ import annotations

import ctypes
import os
import tempfile
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)
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
        if _libc.syncfs(descriptor):
            error = ctypes.get_errno()
            raise OSError(error, os.strerror(error), str(folder))
    finally:
        os.close(descriptor)


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
    if _libc.renameat2(_AT_FDCWD, bytes(one), _AT_FDCWD, bytes(other), _RENAME_EXCHANGE):
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
