"""Renaming, deleting and annotating run groups, so that all files of a group stay consistent."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from pytest_mlebench.errors import UsageError, reason, unusable
from pytest_mlebench.io.json_files import loads, write_json
from pytest_mlebench.records.group import group_folders
from pytest_mlebench.records.layout import LOCK, MANIFEST, METADATA, RECORD, REPORT
from pytest_mlebench.records.manifest import Manifest

_NAMED = (MANIFEST, METADATA, f"*/{RECORD}", "regraded-*.json")
"""The files that have the group's name, as ``run_group``."""
_MOST = 200


def existing_group(name: str, runs_dir: Path) -> Path:
    """The run group of exactly this name, or at this path. Raises UsageError."""
    for folder in (runs_dir / name, Path(name)):
        if name and (folder / MANIFEST).is_file():
            return folder.resolve()
    known = ", ".join(path.name for path in group_folders(runs_dir)[-5:]) or "none"
    raise UsageError(f"there is no run group {name!r} below {runs_dir}; the latest are: {known}")


def rename_group(folder: Path, name: str) -> Path:
    """Rename a run group, its records and its manifest; returns its new folder.

    A group whose folder was renamed by hand becomes consistent if it is renamed to the name that it has. So does one
    whose renaming was interrupted. Raises UsageError where the name is taken or unusable, or the group in use.
    """
    if name in ("", ".", "..") or "/" in name or not name.isprintable() or len(name.encode()) > _MOST:
        raise UsageError(f"{name!r} cannot be the name of a run group: name a folder, without a path")
    target = folder.with_name(name)
    if target != folder and (target.exists() or target.is_symlink()):
        raise UsageError(f"{target} exists: choose another name")
    with _held(folder):
        try:
            if target != folder:
                folder.rename(target)
            for path in [path for pattern in _NAMED for path in sorted(target.glob(pattern))]:
                _name(path, name)
            (target / REPORT).unlink(missing_ok=True)  # it has the old name, and `mlebench report` makes it again
        except OSError as error:
            raise UsageError(f"{folder} cannot be renamed: {unusable(error)}") from error
        except ValueError as error:
            raise UsageError(f"{target} was renamed, but a file cannot be read: {error}") from error
    return target


def _name(path: Path, name: str) -> None:
    """Raises ValueError for a file that is not JSON of a run group."""
    try:
        values: Any = loads(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path}: {reason(error)}") from error
    if not isinstance(values, dict):
        raise ValueError(f"{path}: it must be an object")
    if values.get("run_group") != name:
        write_json(path, {**values, "run_group": name})


def delete_group(folder: Path) -> None:
    """Delete a run group with all that it holds. Raises UsageError where it is in use, or cannot be deleted."""
    with _held(folder):
        try:
            shutil.rmtree(folder)
        except OSError as error:
            raise UsageError(f"{folder} cannot be deleted: {unusable(error)}") from error


def annotate_group(folder: Path, text: str) -> None:
    """Set the note that stands at the top of a group's report. Raises UsageError."""
    with _held(folder):
        manifest = Manifest.read(folder)
        if manifest is None:
            raise UsageError(f"{folder} has no {MANIFEST}")
        try:
            replace(manifest, options={**manifest.options, "--note": text}).write(folder)
        except OSError as error:
            raise UsageError(f"{folder} cannot be written: {unusable(error)}") from error


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """No session writes the group meanwhile. Raises UsageError where one does."""
    lock = FileLock(folder / LOCK)
    try:
        lock.acquire(blocking=False)
    except Timeout as error:
        raise UsageError(f"run group {folder} is in use by a session; wait for its end") from error
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {unusable(error)}") from error
    try:
        yield
    finally:
        lock.release()
