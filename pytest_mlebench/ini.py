"""Finds and reads pytest's ini file as pytest does, for commands that do not start pytest."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import iniconfig

from pytest_mlebench.errors import UsageError, reason

Section = dict[str, Any]
_NAMES = ("pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini", "pyproject.toml", "tox.ini", "setup.cfg")
"""pytest's configuration files, in its search order."""


@dataclass(frozen=True)
class IniFile:
    """The values of an ini file, if there is one, by key, and pytest's root directory."""

    root: Path
    path: Path | None = None
    values: Mapping[str, Any] = field(default_factory=dict)


def find_ini_file(folder: Path) -> IniFile:
    """The ini file that pytest would use if started in ``folder``; raises UsageError if it cannot be read."""
    ancestors = (folder, *folder.parents)
    for ancestor in ancestors:
        for name in _NAMES:
            path = ancestor / name
            try:
                section = _section(path) if path.is_file() else None
            except (OSError, ValueError, iniconfig.ParseError) as error:
                raise UsageError(f"{path} cannot be read: {reason(error)}") from error
            if section is not None:
                return IniFile(ancestor, path, section)
    for marker in ("pyproject.toml", "setup.py"):
        if root := next((ancestor for ancestor in ancestors if (ancestor / marker).is_file()), None):
            return IniFile(root)
    return IniFile(folder)


def _section(path: Path) -> Section | None:
    """pytest's section of a file; None if it has none, and other programs use the file too."""
    if path.suffix != ".toml":
        sections = iniconfig.IniConfig(path).sections
        name = "tool:pytest" if path.name == "setup.cfg" else "pytest"
        if name in sections:
            return dict(sections[name])
        return {} if path.name.endswith("pytest.ini") else None
    values = tomllib.loads(path.read_text(encoding="utf-8"))
    if path.name != "pyproject.toml":
        return _table(values, "pytest")
    table = _table(_table(values, "tool"), "pytest")
    if "ini_options" not in table:
        return table or None
    # Numbers and booleans become strings, as in an ini file.
    options = _table(table, "ini_options")
    return {key: value if isinstance(value, list) else str(value) for key, value in options.items()}


def _table(values: Section, name: str) -> Section:
    table = values.get(name, {})
    return table if isinstance(table, dict) else {}
