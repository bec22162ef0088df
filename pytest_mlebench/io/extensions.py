"""What other distributions add, and our own extras in the same way: entry points by group and name.

Also our own modules and classes at the names that they had in earlier versions.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from pytest_mlebench.errors import UsageError, reason

_EXTRAS = "pytest_mlebench.extras."


@cache
def extensions(group: str) -> dict[str, EntryPoint]:
    """The entry points of a group by name; what several distributions name alike is the last one's.

    One whose module is not there is left out: an extra of ours whose folder was deleted.
    """
    return {entry.name: entry for entry in entry_points(group=group) if _is_there(entry.module)}


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ImportError:
        return False


def load_extension(group: str, name: str) -> Any | None:
    """The object behind an entry point; None where no installed distribution has one of this name, or an extra of ours
    that it builds on was deleted.

    Raises UsageError where it cannot be imported.
    """
    if (entry := extensions(group).get(name)) is None:
        return None
    try:
        return entry.load()
    except (ImportError, AttributeError) as error:
        if isinstance(error, ModuleNotFoundError) and (error.name or "").startswith(_EXTRAS):
            return None
        owner = entry.dist.name if entry.dist else "an unknown distribution"
        raise UsageError(f"{group}: {entry.name} of {owner} cannot be loaded: {reason(error)}") from error


class _Moved(ModuleType):
    """A module at its old name, which is imported, with a warning, when something of it is used."""

    def __init__(self, old: str, new: str, version: str) -> None:
        super().__init__(old)
        self._new, self._version = new, version

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__path__":
            raise AttributeError(name)
        found = getattr(import_module(self._new), name)
        text = f"{self.__name__} is now {self._new}, and goes with version {self._version}"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return found


def moved(version: str, names: Mapping[str, str]) -> None:
    """Have modules of the package found at their old names until a version: new names by old ones."""
    for old, new in names.items():
        module = _Moved(f"pytest_mlebench.{old}", f"pytest_mlebench.{new}", version)
        package, _, name = module.__name__.rpartition(".")
        sys.modules[module.__name__] = module
        if package in sys.modules:
            setattr(sys.modules[package], name, module)


def renamed(module: str, version: str, names: Mapping[str, str]) -> None:
    """Make a module's names available at the names that they had before, with a warning, until a version."""

    def find(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        text = f"{module}.{name} is now {names[name]}, and goes with version {version}"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return getattr(sys.modules[module], names[name])

    vars(sys.modules[module])["__getattr__"] = find
