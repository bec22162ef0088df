"""Loads extensions through entry points: our own extras, and those of other distributions.

Also keeps modules and classes available under their names in earlier versions.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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
    """The entry points of a group by name. If several distributions use the same name, the last one wins.

    Entry points whose module does not exist are left out: the folder of an extra may have been deleted.
    """
    return {entry.name: entry for entry in entry_points(group=group) if _exists(entry)}


def _exists(entry: EntryPoint) -> bool:
    try:
        return find_spec(entry.module) is not None
    except ImportError:
        return False
    except Exception:  # of a parent package, or of an invalid entry point: `load_extension` reports it
        return True


def load_extension(group: str, name: str) -> Any | None:
    """The object of an entry point; None if no installed distribution has one of this name, or if it depends on an
    extra of ours that was deleted.

    Raises UsageError if it cannot be imported.
    """
    if (entry := extensions(group).get(name)) is None:
        return None
    try:
        return entry.load()
    except UsageError:
        raise
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and (error.name or "").startswith(_EXTRAS):
            return None
        owner = entry.dist.name if entry.dist else "an unknown distribution"
        raise UsageError(
            f"{group}: {entry.name} of {owner} cannot be loaded: {type(error).__name__}: {reason(error)}"
        ) from error


def is_deleted(group: str, name: str) -> bool:
    """Whether an extra of ours has an entry point of this name, but was deleted from this installation."""
    declared = entry_points(group=group, name=name)
    return name not in extensions(group) and any(entry.module.startswith(_EXTRAS) for entry in declared)


def not_installed(what: str, extra: str = "") -> str:
    """The error text if ``what`` needs the packages of an extra, or a part of this package that was deleted."""
    if extra:
        return f"{what} needs packages that are not installed: pip install 'pytest-mlebench[{extra}]'"
    return f"{what} needs a part of pytest-mlebench that is not installed: reinstall pytest-mlebench from its source"


@contextmanager
def needs_extra(what: str, extra: str) -> Iterator[None]:
    """Context manager: an import of a package that is not installed is a UsageError that names the extra.

    So is one of a package that is broken or too old, with the error.
    """
    try:
        yield
    except ImportError as error:
        if (error.name or "").startswith("pytest_mlebench"):
            raise
        if isinstance(error, ModuleNotFoundError):
            raise UsageError(f"{not_installed(what, extra)} ({error})") from error
        raise UsageError(f"{what} cannot be used: {error}: pip install --upgrade 'pytest-mlebench[{extra}]'") from error


class _Moved(ModuleType):
    """A module under its old name. Using one of its attributes imports the new module and warns."""

    def __init__(self, old: str, new: str, version: str) -> None:
        super().__init__(old)
        self._new, self._version = new, version

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__path__":
            raise AttributeError(name)
        found = getattr(import_module(self._new), name)
        text = f"{self.__name__} is now {self._new}; version {self._version} removes the old name"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return found


def moved(version: str, names: Mapping[str, str]) -> None:
    """Keep modules of the package importable under their old names until a version; ``names`` maps old to new names."""
    for old, new in names.items():
        module = _Moved(f"pytest_mlebench.{old}", f"pytest_mlebench.{new}", version)
        package, _, name = module.__name__.rpartition(".")
        sys.modules[module.__name__] = module
        if package in sys.modules:
            setattr(sys.modules[package], name, module)


def renamed(module: str, version: str, names: Mapping[str, str]) -> None:
    """Keep a module's old names, with a warning, until a version; ``names`` maps old to new names."""

    def find(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        text = f"{module}.{name} is now {names[name]}; version {version} removes the old name"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return getattr(sys.modules[module], names[name])

    vars(sys.modules[module])["__getattr__"] = find
