"""The contract of an exporter, which writes a run group for another program, sends it to a tracker, or writes
competitions.

Entry points of the group ``mlebench.exporters`` are modules, or other objects, with the attributes of ``GroupExporter``
or ``CompetitionExporter``. ``docs/trackers.md`` shows a minimal one. The name of the entry point is the value of
``mlebench export --to``.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

from pytest_mlebench.errors import UsageError
from pytest_mlebench.io.extensions import load_extension, needs_extra, not_installed
from pytest_mlebench.records.group import RunGroup

if TYPE_CHECKING:
    from pytest_mlebench.bench import Bench
    from pytest_mlebench.catalog import Competition

EXPORTERS = "mlebench.exporters"


@dataclass(frozen=True)
class ExportOption:
    """A command-line option of an exporter. Exporters that define the same name share the option."""

    name: str
    """Name with hyphens, such as ``--endpoint``."""
    metavar: str
    """Placeholder of its value in ``--help``; empty for an option without a value."""
    help: str


@dataclass(frozen=True)
class Request:
    """The user's request."""

    to: str
    output: Path | None = None
    """The folder of ``--output``."""
    options: Mapping[str, str] = field(default_factory=dict)
    """The exporter's options that were given, by name. An option without a value has an empty string."""

    def folder(self, group: RunGroup) -> Path:
        """Create the output folder: ``--output``, or ``GROUP-FORMAT`` in the current folder. Raises OSError."""
        folder = self.output or Path(f"{group.name}-{self.to}")
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def required(self, name: str) -> str:
        """The value of an option; raises UsageError if it was not given."""
        if name not in self.options:
            raise UsageError(f"--to={self.to} needs {name}")
        return self.options[name]


class Exporter(Protocol):
    """Attributes of all entry points of ``mlebench.exporters``."""

    SUMMARY: str
    """A line for ``--help``: what it writes, and for which program."""
    OPTIONS: Sequence[ExportOption]


class GroupExporter(Exporter, Protocol):
    """An exporter of run groups."""

    def export(self, group: RunGroup, request: Request) -> Iterator[str]:
        """Write or send a group that has at least one record; yields a line of output for each step.

        A second export of the same group replaces the first one, or is refused; it never adds a run twice. Secrets that
        ``facts.cleaner`` masks must not be sent. Raises UsageError if an option is invalid or a server refuses, and
        OSError if a file cannot be written.
        """


class CompetitionExporter(Exporter, Protocol):
    """An exporter of competitions."""

    def export_competitions(self, bench: Bench, competitions: Sequence[Competition], request: Request) -> Iterator[str]:
        """Write competitions with the options of ``bench``, to ``request.output`` if that is given; yields a line of
        output for each step. Raises UsageError if an option is invalid, and OSError if a file cannot be written."""


def takes_competitions(chosen: Exporter) -> TypeGuard[CompetitionExporter]:
    return hasattr(chosen, "export_competitions")


def exporter(name: str) -> Exporter:
    """Return the exporter of this name; raises UsageError if it, or an extra that it needs, is not installed."""
    found: Exporter | None = load_extension(EXPORTERS, name)
    if found is None:
        raise UsageError(not_installed(f"--to={name}"))
    method = "export_competitions" if takes_competitions(found) else "export"
    missing = [attribute for attribute in ("SUMMARY", "OPTIONS", method) if not hasattr(found, attribute)]
    if missing:
        raise UsageError(f"{EXPORTERS}: {name} is not an exporter, as it lacks {' and '.join(missing)}")
    return found


def third_party(module: str, extra: str) -> Any:
    """Import a module of a package that an extra installs. If it is missing, raises UsageError with the extra."""
    with needs_extra(f"the exporter {extra}", extra):
        return importlib.import_module(module)


@contextmanager
def set_by_default(variables: Mapping[str, str]) -> Iterator[None]:
    """Context manager: set environment variables for a tracker's client, except those that the user has set."""
    added = {name: value for name, value in variables.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)
