"""What other distributions add, and our own extras in the same way: entry points by group and name."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
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
    except ModuleNotFoundError as error:
        if (error.name or "").startswith(_EXTRAS):
            return None
        raise _unloadable(group, entry, error) from error
    except (ImportError, AttributeError) as error:
        raise _unloadable(group, entry, error) from error


def _unloadable(group: str, entry: EntryPoint, error: Exception) -> UsageError:
    owner = entry.dist.name if entry.dist else "an unknown distribution"
    return UsageError(f"{group}: {entry.name} of {owner} cannot be loaded: {reason(error)}")
