"""pytest's ini file, found and read as pytest does, for commands that do not start pytest."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import iniconfig

from pytest_mlebench.errors import UsageError, reason
from pytest_mlebench.options import LIST, OPTIONS

Section = dict[str, Any]


@dataclass(frozen=True)
class IniFile:
    """The keys of pytest-mlebench in an ini file, if there is one, and pytest's root directory."""

    root: Path
    path: Path | None = None
    values: Mapping[str, Any] = field(default_factory=dict)


def find_ini_file(folder: Path) -> IniFile:
    """The ini file that pytest would use when started in ``folder``; raises UsageError for one that cannot be read."""
    ancestors = (folder, *folder.parents)
    for ancestor in ancestors:
        for name, read in _READERS.items():
            path = ancestor / name
            try:
                section = read(path) if path.is_file() else None
            except (OSError, ValueError, iniconfig.ParseError) as error:
                raise UsageError(f"{path} cannot be read: {reason(error)}") from error
            if section is not None:
                return IniFile(ancestor, path, _values(section, path))
    for marker in ("pyproject.toml", "setup.py"):
        if root := next((ancestor for ancestor in ancestors if (ancestor / marker).is_file()), None):
            return IniFile(root)
    return IniFile(folder)


def _values(section: Section, path: Path) -> dict[str, Any]:
    values = {}
    for option in OPTIONS.values():
        value = section.get(option.ini_key)
        if option.traits & LIST and isinstance(value, str):
            try:
                value = shlex.split(value)
            except ValueError as error:
                raise UsageError(f"{option.ini_key} in {path}: {error}") from error
        values[option.ini_key] = value
    return values


def _ini(section: str, *, always: bool = False) -> Callable[[Path], Section | None]:
    def read(path: Path) -> Section | None:
        sections = iniconfig.IniConfig(path).sections
        return dict(sections.get(section, {})) if section in sections or always else None

    return read


def _pytest_toml(path: Path) -> Section:
    return _table(tomllib.loads(path.read_text(encoding="utf-8")), "pytest")


def _pyproject_toml(path: Path) -> Section | None:
    table = _table(_table(tomllib.loads(path.read_text(encoding="utf-8")), "tool"), "pytest")
    if "ini_options" not in table:
        return table or None
    # As in an ini file, numbers and booleans are texts.
    options = _table(table, "ini_options")
    return {key: value if isinstance(value, list) else str(value) for key, value in options.items()}


def _table(values: Section, name: str) -> Section:
    table = values.get(name, {})
    return table if isinstance(table, dict) else {}


_READERS: Mapping[str, Callable[[Path], Section | None]] = {
    "pytest.toml": _pytest_toml,
    ".pytest.toml": _pytest_toml,
    "pytest.ini": _ini("pytest", always=True),
    ".pytest.ini": _ini("pytest", always=True),
    "pyproject.toml": _pyproject_toml,
    "tox.ini": _ini("pytest"),
    "setup.cfg": _ini("tool:pytest"),
}
"""pytest's configuration files in the order in which it looks for them; None: it has no section for pytest."""
