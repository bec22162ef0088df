"""Arrow, where it is installed: grading text takes less time with it, and gives the same results without."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def _module(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        return None


pa, pc = _module("pyarrow"), _module("pyarrow.compute")
