"""Keeping pytest out of run groups: what agents left there is data, also in earlier versions' groups.

The plugin asks ``group_of`` before it lets pytest enter a folder, in unrelated projects too, so that this module
imports nothing and looks at few files. Where pytest runs without the plugin, a ``conftest.py`` in each group says the
same.
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
"""By the file that a run group or a run directory has: the keys in it. Other tools use such names as well."""
_READ = 64 << 20


def is_group(folder: Path) -> bool:
    """Whether this is the folder of a run group, or of a run, of this program or of MLE-bench."""
    return any(_has(folder / name, keys) for name, keys in _MARKS.items())


def group_of(path: Path) -> Path | None:
    """The outermost folder of a run group or of a run that has this path; None where there is none."""
    return next((folder for folder in reversed((path, *path.parents)) if is_group(folder)), None)


def has_guard(folder: Path) -> bool:
    """Whether the folder's ``conftest.py`` is the guard."""
    try:
        return (folder / CONFTEST).read_text(encoding="utf-8") == _GUARD
    except (OSError, UnicodeDecodeError):
        return False


def protect(folder: Path) -> None:
    """Write the guard into a run group's folder, unless the user has a ``conftest.py`` of another kind there."""
    path = folder / CONFTEST
    with suppress(OSError, UnicodeDecodeError):  # a folder that cannot be written; the plugin still holds
        if not path.is_symlink() and path.exists():
            text = path.read_text(encoding="utf-8")
            if text == _GUARD or not text.startswith(_FIRST_LINE):
                return
        partial = folder / f".{CONFTEST}.{os.getpid()}"
        partial.write_text(_GUARD, encoding="utf-8")
        partial.replace(path)


def protect_all(runs_dir: Path) -> None:
    """Write the guard into each run group below a folder, those of earlier versions too."""
    with suppress(OSError):
        for folder in runs_dir.iterdir():
            if is_group(folder):
                protect(folder)


def _has(path: Path, keys: tuple[bytes, ...]) -> bool:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > _READ:
            return False
        content = path.read_bytes()
    except (OSError, ValueError):
        return False
    return all(key in content for key in keys)
