"""Paths: the package's own folders, those that users write, and files that only their owner may read."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from pytest_mlebench.errors import UsageError, reason

AnyPath = str | os.PathLike[str]


def bundled(name: str) -> Path:
    """``competitions``, ``agents``, ``environment`` or ``reports``, which come along in a wheel as in a checkout."""
    package = Path(__file__).parents[1]
    inside = package / "bundled" / name
    return inside if inside.is_dir() else package.parent / name


def expanded(path: AnyPath) -> Path:
    """A path that a user wrote, with ``~`` as the home folder; raises ValueError where that is not known."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise ValueError(f"there is no home folder {Path(path).parts[0]}") from error


def secret_lines(file: Path) -> Iterator[tuple[int, str]]:
    """The numbered lines of a file with secrets, without blank lines and comments.

    Raises UsageError for a file that somebody else owns or may read.
    """
    try:
        with file.open(encoding="utf-8") as opened:
            about = os.fstat(opened.fileno())
            if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & 0o077:
                raise UsageError(f"{file} must be a file of yours that only you can read: chmod 600 {file}")
            lines = opened.read().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: {reason(error)}") from error
    return ((number, line) for number, line in enumerate(map(str.strip, lines), 1) if line and not line.startswith("#"))
