"""Prepared data on a disk of this machine, for as long as runs here use it."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
import shutil
import stat
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
    """A copy of prepared data below ``folder``, which all processes of this user on this machine share.

    The first one that needs it copies it, in another order (see ``data.dataset``); the last one removes it. Each has a
    file that it keeps locked; the kernel drops that lock when the process dies, so a killed process is no user. What it
    leaves is removed by the next one. Raises DataError where there is too little space, before anything is copied, and
    where the copy is not what the data is.
    """
    base = _own_folder(folder)
    place = base / _key(dataset)
    with locks.hold_lock(_lock(place), "copies", dataset.competition.id, reporter):
        _remove_unused(base, apart_from=place)
        user = _register(place)
        try:
            if not (place / _DATA).is_dir():
                _copy(dataset, place, reporter)
        except BaseException:
            _leave(place, user)
            raise
    try:
        yield Dataset(dataset.competition, place / _DATA)
    finally:
        with locks.hold_lock(_lock(place), "removes", dataset.competition.id, reporter):
            _leave(place, user)


def _own_folder(folder: Path) -> Path:
    """This user's part of a folder that others may use too: answers are among the data."""
    own = folder / f"mlebench-{os.getuid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            own.mkdir(mode=0o700)
        about = own.lstat()
        (own / _LOCKS).mkdir(exist_ok=True)
    except OSError as error:
        raise DataError(f"--node-scratch: {own} cannot be used: {reason(error)}") from error
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.getuid() or about.st_mode & 0o077:
        raise DataError(f"--node-scratch: {own} must be a folder of yours that nobody else can open: chmod 700 {own}")
    return own


def _key(dataset: Dataset) -> str:
    """A name that only this data has, as it is now; it does not say which competition it is of."""
    about = [str(dataset.prepared.resolve()), dataset.prepared.stat().st_ino, fingerprint(dataset), dataset.description]
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:16]


def _lock(place: Path) -> Path:
    return place.parent / _LOCKS / f"{place.name}.lock"


def _register(place: Path) -> int:
    """Become a user; returns the descriptor that says so while it is open."""
    users = place / _USERS
    users.mkdir(parents=True, exist_ok=True)
    user = os.open(users / secrets.token_hex(8), os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    try:
        fcntl.flock(user, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(user)
        raise DataError(
            f"--node-scratch: {place.parent.parent} refuses file locks ({reason(error)}); name a folder on a local disk"
        ) from error
    return user


def _leave(place: Path, user: int) -> None:
    """Be no user any more; the last one removes the copy. The caller holds the lock."""
    os.close(user)
    if not _is_used(place):
        shutil.rmtree(place, ignore_errors=True)


def _is_used(place: Path) -> bool:
    """Whether any process that lives uses a copy. The caller holds its lock."""
    used = False
    for path in (place / _USERS).glob("*"):
        file = os.open(path, os.O_RDWR)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
        except BlockingIOError:
            used = True
        finally:
            os.close(file)
    return used


def _remove_unused(base: Path, *, apart_from: Path) -> None:
    """Remove what killed processes have left of other data."""
    for place in base.iterdir():
        if place.name == _LOCKS or place == apart_from:
            continue
        with suppress(locks.LockHeld), locks.hold_lock(_lock(place), "removes", "what a killed run has left"):
            if not _is_used(place):
                shutil.rmtree(place, ignore_errors=True)


def _copy(dataset: Dataset, place: Path, reporter: Reporter) -> None:
    id, files = dataset.competition.id, dict(prepared_files(dataset.prepared))
    size, free = sum(files.values()), io_files.free_bytes(place)
    if free is not None and size > free:
        raise DataError(
            f"{id}: not enough disk at {place.parent.parent} for a copy: it takes {format_size(size)}, "
            f"{format_size(free)} are free; free some, name another folder with --node-scratch, or leave it out to use "
            f"{dataset.prepared} as it is"
        )
    reporter(Step(id, f"copying to {place.parent}"))
    for left in place.glob(".copying-*"):
        shutil.rmtree(left, ignore_errors=True)
    with io_files.scratch(place, ".copying-") as name:
        new = Dataset(dataset.competition, Path(name, _DATA))
        try:
            new.folder.mkdir()
            new.prepared.mkdir()
            for side in SIDES:
                level(dataset.prepared / side, new.prepared / side)
            for path in (dataset.listing, dataset.state_file):
                if path.exists():
                    shutil.copy(path, new.folder)
            right = dict(prepared_files(new.prepared)) == files and md5(new.answers) == fingerprint(dataset)["answers"]
        except OSError as error:
            if io_files.is_disk_full(error, place):
                raise io_files.disk_full(id, place.parent) from error
            raise DataError(f"{id}: {dataset.prepared} cannot be copied to {place}: {reason(error)}") from error
        if not right:
            raise DataError(
                f"{id}: the copy of {dataset.prepared} in {place} has other files; was it changed meanwhile? "
                "See `mlebench verify`"
            )
        new.folder.rename(place / _DATA)
