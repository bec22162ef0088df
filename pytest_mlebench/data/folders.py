"""Looking at files and folders that this user may not be allowed to see."""

from __future__ import annotations

from pathlib import Path

from pytest_mlebench.errors import DataError


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
