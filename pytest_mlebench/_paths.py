"""Where the folders that come with the package lie, in a checkout and in a wheel alike."""

from __future__ import annotations

from pathlib import Path


def bundled(name: str) -> Path:
    """``competitions``, ``agents``, ``environment`` or ``reports``, which come along in a wheel as in a checkout."""
    package = Path(__file__).parent
    inside = package / "bundled" / name
    return inside if inside.is_dir() else package.parent / name
