"""Copies of prepared data on a local disk, kept as long as runs on this machine use them."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pytest_mlebench.data.dataset import SIDES, Dataset, fingerprint, level, md5, prepared_files
from pytest_mlebench.errors import DataError, reason
from pytest_mlebench.io import files as io_files
from pytest_mlebench.io import locks
from pytest_mlebench.io.progress import Reporter, Step, silent
from pytest_mlebench.io.units import format_size

_LOCKS = ".locks"
_DATA = "data"
_USERS = "users"


@contextmanager
def copied(dataset: Dataset, folder: Path, reporter: Reporter = silent) -> Iterator[Dataset]:
    """A copy of prepared data below ``folder``, shared by all processes of this user on this machine.

    The first process creates the copy, in random file order (see ``data.dataset``); the last one removes it. Each
    process holds a lock on its own file. The kernel releases the lock when the process dies, so a killed process does
    not count as a user; the next process removes what it left. Raises DataError if there is too little space, before
    anything is copied, and if the copy differs from the data.
    """
    base = _user_folder(folder)
    copy = base / _key(dataset)
    with locks.hold_lock(_lock(copy), "copies", dataset.competition.id, reporter):
        _remove_unused(base, except_for=copy)
        user = _register(copy)
        try:
            if not (copy / _DATA).is_dir():
                _copy(dataset, copy, reporter)
        except BaseException:
            _unregister(copy, user)
            raise
    try:
        yield Dataset(dataset.competition, copy / _DATA)
    finally:
        with locks.hold_lock(_lock(copy), "removes", dataset.competition.id, reporter):
            _unregister(copy, user)


def _user_folder(folder: Path) -> Path:
    """Create this user's private subfolder of a folder that others may use too: the data includes answers."""
    private = folder / f"mlebench-{os.getuid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        io_files.private_folder(private)
        (private / _LOCKS).mkdir(exist_ok=True)
    except OSError as error:
        raise DataError(f"--node-scratch: {private} cannot be used: {reason(error)}") from error
    return private


def _key(dataset: Dataset) -> str:
    """A name that identifies the data in its current state, without the competition's name."""
    data = [str(dataset.prepared.resolve()), dataset.prepared.stat().st_ino, fingerprint(dataset), dataset.description]
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]


def _lock(copy: Path) -> Path:
    return copy.parent / _LOCKS / f"{copy.name}.lock"


def _register(copy: Path) -> int:
    """Register this process as a user, for as long as the returned descriptor is open."""
    users = copy / _USERS
    users.mkdir(parents=True, exist_ok=True)
    user = os.open(users / secrets.token_hex(8), os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    try:
        fcntl.flock(user, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(user)
        raise DataError(
            f"--node-scratch: {copy.parent.parent} refuses file locks ({reason(error)}); name a folder on a local disk"
        ) from error
    return user


def _unregister(copy: Path, user: int) -> None:
    """Unregister a user; the last one removes the copy. The caller must hold the lock."""
    os.close(user)
    if not _is_used(copy):
        io_files.remove_tree(copy)


def _is_used(copy: Path) -> bool:
    """Whether any live process uses a copy. The caller must hold its lock."""
    used = False
    for path in (copy / _USERS).glob("*"):
        file = os.open(path, os.O_RDWR)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
        except BlockingIOError:
            used = True
        finally:
            os.close(file)
    return used


def _remove_unused(base: Path, *, except_for: Path) -> None:
    """Remove copies of other data that killed processes left."""
    for copy in base.iterdir():
        if copy.name == _LOCKS or copy == except_for:
            continue
        with suppress(locks.LockHeld), locks.hold_lock(_lock(copy), "removes", "the copies of killed runs"):
            if not _is_used(copy):
                io_files.remove_tree(copy)


def _copy(dataset: Dataset, copy: Path, reporter: Reporter) -> None:
    id, files = dataset.competition.id, dict(prepared_files(dataset.prepared))
    size, free = sum(files.values()), io_files.free_bytes(copy)
    if free is not None and size > free:
        raise DataError(
            f"{id}: not enough disk at {copy.parent.parent} for a copy: it takes {format_size(size)}, "
            f"{format_size(free)} are free; free some, name another folder with --node-scratch, or leave it out to use "
            f"{dataset.prepared} directly"
        )
    reporter(Step(id, f"copying to {copy.parent}"))
    for leftover in copy.glob(".copying-*"):
        io_files.remove_tree(leftover)
    with io_files.scratch(copy, ".copying-") as name:
        new = Dataset(dataset.competition, Path(name, _DATA))
        try:
            new.folder.mkdir()
            new.prepared.mkdir()
            for side in SIDES:
                level(dataset.prepared / side, new.prepared / side)
            for path in (dataset.listing, dataset.state_file):
                if path.exists():
                    shutil.copy(path, new.folder)
            same = dict(prepared_files(new.prepared)) == files and md5(new.answers) == fingerprint(dataset)["answers"]
        except OSError as error:
            if io_files.is_disk_full(error, copy):
                raise io_files.disk_full(id, copy.parent) from error
            raise DataError(f"{id}: {dataset.prepared} cannot be copied to {copy}: {reason(error)}") from error
        if not same:
            raise DataError(
                f"{id}: the copy of {dataset.prepared} in {copy} has other files; was it changed meanwhile? "
                "See `mlebench verify`"
            )
        new.folder.rename(copy / _DATA)
