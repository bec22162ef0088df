"""Free disk space, the space that preparing takes, and whether a disk is full."""

from __future__ import annotations

import errno
import heapq
import os
import shutil
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pytest_mlebench.errors import DataError
from pytest_mlebench.io.units import format_size

_FULL = {errno.ENOSPC, errno.EDQUOT}
_NOTHING_LEFT = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Need:
    """What preparing a competition adds to the disk, in bytes: at its peak, and in the end."""

    peak: int
    rest: int

    @classmethod
    def of(cls, *, download: int, unpacked: int, present: int, keep_raw: bool) -> Need:
        """From the sizes of the archive and its files, of which ``present`` bytes are there already.

        Prepared data is taken to be as large as the raw data, which is the worst case: where a preparer can, it links
        files instead of copying them. The archive goes once it is unpacked, and then the raw data once it is prepared.
        """
        prepared = unpacked
        peak = max(download + unpacked, unpacked + prepared)
        return cls(peak=peak - present, rest=prepared + (unpacked if keep_raw else 0) - present)


def require(folder: Path, needs: Sequence[Need], jobs: int) -> None:
    """Check that what these need, ``jobs`` of them at once, fits on the folder's disk; raises DataError."""
    needed = sum(need.rest for need in needs) + sum(heapq.nlargest(jobs, (need.peak - need.rest for need in needs)))
    available = free(folder)
    if available is None or needed <= available:
        return
    many = f"{len(needs)} competitions may need" if len(needs) > 1 else "preparing may need"
    raise DataError(
        f"not enough disk at {folder}: {many} up to {format_size(needed)}, {format_size(available)} are free, "
        f"{format_size(needed - available)} are missing. Free some space (`mlebench list` shows what data takes, "
        "`mlebench remove` frees it), choose fewer competitions or another --data-dir, "
        "or start anyway with --skip-disk-check"
    )


def free(folder: Path) -> int | None:
    """Bytes that this user may still write on the disk of a folder, which need not exist yet.

    None for what is no disk, such as ``/proc``. Raises DataError where this user may not look.
    """
    try:
        while not folder.exists():
            folder = folder.parent
        usage = shutil.disk_usage(folder)
    except OSError as error:
        raise unreadable(folder, error) from error
    return usage.free if usage.total else None


def is_full(error: BaseException | None, folder: Path) -> bool:
    """Whether a full disk caused an error, by its number, that of an error behind it, or the disk's free space."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _FULL:
            return True
        error = error.__cause__ or error.__context__
    try:
        available = free(folder)
    except DataError:
        return False
    return available is not None and available < _NOTHING_LEFT


def full(competition_id: str, folder: Path) -> DataError:
    """The error for a disk that has become full."""
    return DataError(
        f"{competition_id}: the disk of {folder} is full, or takes no more files. Incomplete files were removed, "
        "complete ones are kept. Free some space (`mlebench list` shows what data takes, `mlebench remove` frees it) "
        "and call again to resume"
    )


def used(paths: Iterable[Path]) -> int:
    """Bytes that removing these files and folders would free: a file counts if all its hard links are among them."""
    links: dict[tuple[int, int], int] = {}
    freed = 0
    for status in (status for path in paths for status in _files(path)):
        key = (status.st_dev, status.st_ino)
        links[key] = links.get(key, 0) + 1
        if links[key] == status.st_nlink:
            freed += status.st_blocks * 512
    return freed


def _files(path: Path) -> Iterable[os.stat_result]:
    if path.is_dir() and not path.is_symlink():
        for folder, _, names in os.walk(path):
            yield from (os.lstat(os.path.join(folder, name)) for name in names)  # noqa: PTH118  (a million of them)
    elif path.exists():
        yield path.lstat()


def is_dir(path: Path) -> bool:
    """Whether there is a folder. Raises DataError where this user may not look."""
    try:
        return path.is_dir()
    except OSError as error:
        raise unreadable(path, error) from error


def is_file(path: Path) -> bool:
    """Whether there is a file. Raises DataError where this user may not look."""
    try:
        return path.is_file()
    except OSError as error:
        raise unreadable(path, error) from error


def has_entries(folder: Path) -> bool:
    """Whether there is a folder that is not empty. Raises DataError where this user may not look."""
    try:
        return folder.is_dir() and any(folder.iterdir())
    except OSError as error:
        raise unreadable(folder, error) from error


def unreadable(path: Path, error: OSError) -> DataError:
    """The error for data that this user may not read."""
    return DataError(
        f"{path} cannot be read: {error.strerror or error}; choose another data folder with --data-dir or "
        "MLEBENCH_DATA_DIR, or get permission to read this one"
    )


def open_up(folder: Path) -> None:
    """Give the owner, who is this process's user, the right to read all that is in a folder; links are not followed."""
    with suppress(OSError):
        folder.chmod(0o700)
    for path, names, files in os.walk(folder):
        for inner in (Path(path, name) for name in (*names, *files)):
            with suppress(OSError):
                mode = inner.lstat().st_mode
                if stat.S_ISDIR(mode) and mode & 0o700 != 0o700:
                    inner.chmod(0o700)
                elif stat.S_ISREG(mode) and not mode & 0o400:
                    inner.chmod(mode | 0o400)


def remove_tree(folder: Path) -> None:
    """Remove a folder that agents wrote into, whatever rights they left on what is in it."""
    open_up(folder)
    shutil.rmtree(folder, ignore_errors=True)
