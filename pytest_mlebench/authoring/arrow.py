"""Arrow, where it is installed: grading text takes less time with it, and gives the same results without."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def module(name: str) -> Any:
    """None where it is not installed."""
    try:
        return import_module(name)
    except ImportError:
        return None


pa, pc = module("pyarrow"), module("pyarrow.compute")
