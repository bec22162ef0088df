"""Prepared files whose metadata tells nothing: not when, nor in which order, nor from what they were made.

Archives often hold files class by class. Whoever unpacks them, or links what was unpacked, keeps that order in times,
inode numbers, the order of directories and the places on the disk. An agent can read all of these, also below a
read-only mount. So each file gets a new inode, in a random order that is drawn when names and contents stand, and that
nobody keeps: what depends on the order alone tells no answer. Times that can be set are the same for all.

Hard links and clones (reflinks) of files that lie in their old order would not do: they share an inode, or places on
the disk, with them, and removing raw data later would change the times of its links in that order. But files that were
unpacked in a random order, into one folder (see ``unpack_zip``), and are removed from the raw data before times are
set, can be moved in place of being copied: this saves writing all of them again, and their place on the disk meanwhile.
That some were unpacked and others written would tell them apart. So either all files in a side's folders are moved, or
none is.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

from pytest_mlebench.authoring.private_random import shuffled
from pytest_mlebench.io import durable

READ_ONLY = 0o444
TIME_NS = 946_684_800 * 10**9
"""Access and modification of all prepared files and folders: the beginning of 2000, UTC."""
_WORKERS = 4
_BATCH = 1000
_BLOCK = 1 << 24


def replace_by_level(folder: Path, scratch: Path, mixed_raw: Path | None = None) -> bool:
    """Replace a folder by a level copy of it, durably; what it was stays in ``scratch``, on the same disk.

    ``mixed_raw`` is raw data that was unpacked in a random order. Links to it may be moved; returns whether they were.
    Then the folder is not level until its raw data is removed, and ``set_times`` is called.
    """
    new = scratch / f"level-{folder.name}"
    has_moved = level(folder, new, mixed_raw)
    durable.sync(new)
    durable.exchange(new, folder)
    return has_moved


def level(source: Path, target: Path, mixed_raw: Path | None = None) -> bool:
    """Copy a folder to ``target``, which does not exist yet, so that nothing but names and contents remains.

    Files become read-only. Symbolic links stay links. Extended attributes, owners and holes are not copied.
    ``mixed_raw``, and what is returned, are as in ``replace_by_level``. Raises OSError.
    """
    folders, files = _walk(source)
    moved = set[str]() if mixed_raw is None else _all_linked(source, files, mixed_raw)
    target.mkdir()
    for name in shuffled(folders):
        (target / name).mkdir(parents=True, exist_ok=True)
    for name in shuffled(moved):
        (source / name).rename(target / name)
    with ThreadPoolExecutor(_WORKERS) as pool:
        todo = iter(shuffled(set(files) - moved))
        while batch := list(islice(todo, _BATCH)):  # an error ends it soon, and so does Ctrl-C
            for _ in pool.map(_copy, (f"{source}/{name}" for name in batch), (f"{target}/{name}" for name in batch)):
                pass
    if not moved:
        _set_times_of_folders(target, folders)
    return bool(moved)


def _all_linked(source: Path, files: list[str], raw: Path) -> set[str]:
    """The files in folders, if each of them is the only link to a file of the raw data; else none."""
    inside = {name for name in files if "/" in name}
    known = {entry.inode() for entry in _entries(str(raw)) if entry.is_file(follow_symlinks=False)}
    device = raw.stat().st_dev
    for name in inside:
        about = (source / name).lstat()
        if about.st_ino not in known or about.st_nlink != 2 or about.st_dev != device:
            return set()
    return inside


def set_times(folder: Path) -> None:
    """Set the times of a folder's files and folders, in a random order; makes files read-only. Raises OSError."""
    folders, files = _walk(folder)
    for name in shuffled(files):
        level_file(folder / name)
    _set_times_of_folders(folder, folders)


def level_file(path: Path) -> None:
    """Set a file's times and mode. Raises OSError."""
    if not path.is_symlink():
        path.chmod(READ_ONLY)
    os.utime(path, ns=(TIME_NS, TIME_NS), follow_symlinks=False)


def is_level(folder: Path) -> bool:
    """Whether ``level`` or ``set_times`` made a folder, and nothing was added or removed at its top since then.

    Other programs, earlier versions of this one and plain copies leave other times. Raises OSError.
    """
    return folder.stat().st_mtime_ns == TIME_NS


def keep_level(folder: Path) -> None:
    """Set a folder's own times again after a file in it was replaced by one with the right times. Raises OSError."""
    os.utime(folder, ns=(TIME_NS, TIME_NS))


def _walk(folder: Path) -> tuple[list[str], list[str]]:
    """The relative paths of all folders below one, and of everything else."""
    folders: list[str] = []
    files: list[str] = []
    for entry in _entries(str(folder)):
        inside = folders if entry.is_dir(follow_symlinks=False) else files
        inside.append(os.path.relpath(entry.path, folder))
    return folders, files


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as found:
        for entry in found:
            yield entry
            if entry.is_dir(follow_symlinks=False):
                yield from _entries(entry.path)


def _copy(old: str, new: str) -> None:
    if os.path.islink(old):  # noqa: PTH114  (there may be a million)
        os.symlink(os.readlink(old), new)  # noqa: PTH115, PTH211
    else:
        with open(old, "rb") as source, open(new, "xb") as target:  # noqa: PTH123
            while os.sendfile(target.fileno(), source.fileno(), None, _BLOCK):  # which clones nothing
                pass
        os.chmod(new, READ_ONLY)  # noqa: PTH101
    os.utime(new, ns=(TIME_NS, TIME_NS), follow_symlinks=False)


def _set_times_of_folders(top: Path, folders: list[str]) -> None:
    for name in shuffled(folders):  # setting times changes no other folder's
        os.utime(top / name, ns=(TIME_NS, TIME_NS))
    os.utime(top, ns=(TIME_NS, TIME_NS))
