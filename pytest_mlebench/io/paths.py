"""Where the folders that come with the package lie, in a checkout and in a wheel alike."""

from __future__ import annotations

import os
from pathlib import Path

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
