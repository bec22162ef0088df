"""Keeps pytest out of run groups, including those of earlier versions: the files that agents left there are data.

The plugin calls ``group_of`` before pytest enters a folder, in unrelated projects too. So this module imports nothing
from the package and reads few files. If pytest runs without the plugin, a ``conftest.py`` in each group has the same
effect.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

CONFTEST = "conftest.py"
_FIRST_LINE = "# Written by pytest-mlebench."
_GUARD = f"""{_FIRST_LINE} This folder is a run group: pytest must not collect or import
# anything that agents left in it, even where the plugin is switched off.


def pytest_ignore_collect():
    return True
"""
_MARKS: Mapping[str, tuple[bytes, ...]] = {
    "manifest.json": (b'"run_group"', b'"runs"'),
    "metadata.json": (b'"run_group"', b'"runs"'),
    "run.json": (b'"run_id"', b'"competition_id"'),
    "running.json": (b'"competition_id"', b'"agent"'),
}
"""Files of run groups and run directories, with the keys that they contain: other tools use these names as well."""
_MAX_BYTES = 64 << 20


def is_group(folder: Path) -> bool:
    """Whether this is the folder of a run group or of a run, of this program or of MLE-bench."""
    return any(_has(folder / name, keys) for name, keys in _MARKS.items())


def group_of(path: Path) -> Path | None:
    """Return the outermost folder of a run group or run that contains this path; None if there is none."""
    return next((folder for folder in reversed((path, *path.parents)) if is_group(folder)), None)


def has_guard(folder: Path) -> bool:
    """Whether the folder's ``conftest.py`` is the guard."""
    try:
        return (folder / CONFTEST).read_text(encoding="utf-8") == _GUARD
    except (OSError, UnicodeDecodeError):
        return False


def protect(folder: Path) -> None:
    """Write the guard into a run group's folder, unless the user has another ``conftest.py`` there."""
    path = folder / CONFTEST
    with suppress(OSError, UnicodeDecodeError):  # the folder may not be writable; the plugin still protects it
        if not path.is_symlink() and path.exists():
            text = path.read_text(encoding="utf-8")
            if text == _GUARD or not text.startswith(_FIRST_LINE):
                return
        partial = folder / f".{CONFTEST}.{os.getpid()}"
        partial.write_text(_GUARD, encoding="utf-8")
        partial.replace(path)


def protect_all(runs_dir: Path) -> None:
    """Write the guard into each run group below a folder, including those of earlier versions."""
    with suppress(OSError):
        for folder in runs_dir.iterdir():
            if is_group(folder):
                protect(folder)


def _has(path: Path, keys: tuple[bytes, ...]) -> bool:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_BYTES:
            return False
        content = path.read_bytes()
    except (OSError, ValueError):
        return False
    return all(key in content for key in keys)
