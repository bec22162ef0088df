"""JSON files that are complete or absent, and are checked as they are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from pytest_mlebench.data.durable import write_text
from pytest_mlebench.json_values import json_text, loads, parse

Value = TypeVar("Value")


def write_json(path: Path, values: Any) -> None:
    """Write JSON atomically and durably (see ``write_text``)."""
    write_text(path, json_text(values) + "\n")


def read_json(path: Path, kind: type[Value]) -> Value:
    """A file's JSON as a dataclass; raises OSError, or ValueError that names the key and what it must be."""
    return parse(kind, loads(path.read_text(encoding="utf-8")))
