"""Writes that survive a power cut: text that is replaced atomically, and files that are on the disk before a rename."""

from __future__ import annotations

import ctypes
import os
import tempfile
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)


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


def scratch(folder: Path, prefix: str) -> tempfile.TemporaryDirectory[str]:
    """A temporary folder inside ``folder``, whose name begins with ``prefix``."""
    return tempfile.TemporaryDirectory(prefix=prefix, dir=folder, ignore_cleanup_errors=True)
