"""Reads files below one folder only, without following links, and up to a given number of bytes."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pytest_mlebench.io.files import NotReadable, is_name, opened
from pytest_mlebench.records.record import MAX_RECORD, RECORD, RunRecord

MAX_ENTRIES = 2000
_MAX_DEPTH = 12


@dataclass(frozen=True)
class FolderFile:
    """A file below a folder. ``path`` is relative to it. ``refused`` says why it is not shown."""

    path: str
    size: int
    refused: str = ""


def read(root: Path, *parts: str, start: int = 0, size: int) -> tuple[bytes, int]:
    """Return up to ``size`` bytes of a file from ``start`` on, and the size of the file. Raises NotReadable."""
    with opened(root, *parts) as descriptor:
        total = os.fstat(descriptor).st_size
        found = bytearray()
        while len(found) < size and (more := os.pread(descriptor, size - len(found), start + len(found))):
            found += more
        return bytes(found), total


def read_record(group_dir: Path, run: str) -> RunRecord:
    """Return the record of a run. Raises NotReadable if it has none, ValueError if it is not one of this run."""
    return RunRecord.of_run(run, read(group_dir, run, RECORD, size=MAX_RECORD)[0])


def size_of(root: Path, *parts: str) -> int | None:
    """Return the size of a file; None if it does not exist or is not readable."""
    with suppress(NotReadable), opened(root, *parts) as descriptor:
        return os.fstat(descriptor).st_size
    return None


def changed_at(path: Path) -> int:
    """Return when a file or folder was changed, in nanoseconds; 0 if it does not exist."""
    try:
        return path.lstat().st_mtime_ns
    except OSError:
        return 0


def is_folder(root: Path, *parts: str) -> bool:
    """Return whether there is a folder of this name that is not a link."""
    with suppress(OSError, ValueError):
        folders = [root.joinpath(*parts[: k + 1]) for k in range(len(parts))]
        return all(map(is_name, parts)) and all(stat.S_ISDIR(path.lstat().st_mode) for path in folders)
    return False


def is_utf8(name: str) -> bool:
    return name.encode("utf-8", "replace").decode() == name


def listing(folder: Path) -> tuple[Sequence[FolderFile], bool]:
    """Return the files below a folder by path, and whether there are more than ``MAX_ENTRIES``."""
    found: list[FolderFile] = []
    waiting = [("", 0)]
    while waiting:
        prefix, depth = waiting.pop()
        try:
            with os.scandir(folder / prefix) as entries:
                sorted_entries = sorted(entries, key=lambda entry: entry.name)[: MAX_ENTRIES + 1]
        except OSError:
            continue
        folders = []
        for entry in sorted_entries:
            if len(found) >= MAX_ENTRIES:
                return found, True
            try:
                about = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            path = prefix + entry.name
            if stat.S_ISDIR(about.st_mode):
                if depth < _MAX_DEPTH:
                    folders.append((f"{path}/", depth + 1))
            elif not is_utf8(path):  # it has no URL
                found.append(FolderFile(path, about.st_size, "its name is not UTF-8"))
            elif stat.S_ISREG(about.st_mode):
                found.append(FolderFile(path, about.st_size))
            else:
                found.append(FolderFile(path, 0, "a link" if stat.S_ISLNK(about.st_mode) else "not a regular file"))
        waiting += reversed(folders)
    return found, False
