"""The contract of an exporter: it writes a run group as another program reads it, or sends it to a tracker; or it
writes competitions.

Entry points of the group ``mlebench.exporters`` are modules, or other objects, that have what ``GroupExporter`` or
``CompetitionExporter`` has; ``docs/trackers.md`` shows a minimal one. The name of the entry point is the value of
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
from pytest_mlebench.io.extensions import load_extension
from pytest_mlebench.records.group import RunGroup

if TYPE_CHECKING:
    from pytest_mlebench.bench import Bench
    from pytest_mlebench.catalog import Competition

EXPORTERS = "mlebench.exporters"


@dataclass(frozen=True)
class ExportOption:
    """An option of an exporter, as the command line has it. Exporters that have one of the same name share it."""

    name: str
    """With its hyphens: ``--endpoint``."""
    metavar: str
    """What its value is called; empty: it has none, and is there or not."""
    help: str


@dataclass(frozen=True)
class Request:
    """What the user asked for."""

    to: str
    output: Path | None = None
    """The folder of ``--output``."""
    options: Mapping[str, str] = field(default_factory=dict)
    """The exporter's own options that were given, by name; the value of one without a value is empty."""

    def folder(self, group: RunGroup) -> Path:
        """The folder to write to, which is made: that of ``--output``, or ``GROUP-FORM`` here. Raises OSError."""
        folder = self.output or Path(f"{group.name}-{self.to}")
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def required(self, name: str) -> str:
        """The value of an option; raises UsageError where it was not given."""
        if name not in self.options:
            raise UsageError(f"--to={self.to} needs {name}")
        return self.options[name]


class Exporter(Protocol):
    """What all entry points of ``mlebench.exporters`` have."""

    SUMMARY: str
    """A line for ``--help``: what it writes, and for which program."""
    OPTIONS: Sequence[ExportOption]


class GroupExporter(Exporter, Protocol):
    """An exporter of run groups."""

    def export(self, group: RunGroup, request: Request) -> Iterator[str]:
        """Write or send a group that has at least one record; yields a line for each thing that is done.

        A second export of the same group replaces what the first one left, or is refused; it never adds a run twice.
        Nothing may be sent that ``facts.cleaner`` masks. Raises UsageError for a wrong option and where a server
        refuses, OSError where a file cannot be written.
        """


class CompetitionExporter(Exporter, Protocol):
    """An exporter of competitions."""

    def export_competitions(self, bench: Bench, competitions: Sequence[Competition], request: Request) -> Iterator[str]:
        """Write competitions with the options of ``bench``, to ``request.output`` if that is given; yields a line for
        each thing that is done. Raises UsageError for a wrong option, OSError where a file cannot be written."""


def takes_competitions(chosen: Exporter) -> TypeGuard[CompetitionExporter]:
    return hasattr(chosen, "export_competitions")


def exporter(name: str) -> Exporter:
    """The exporter of this name; raises UsageError where it, or an extra that it needs, is not installed."""
    found: Exporter | None = load_extension(EXPORTERS, name)
    if found is None:
        raise UsageError(f"--to={name} needs an extra of pytest-mlebench that is not installed")
    does = "export_competitions" if takes_competitions(found) else "export"
    missing = [part for part in ("SUMMARY", "OPTIONS", does) if not hasattr(found, part)]
    if missing:
        raise UsageError(f"{EXPORTERS}: {name} is not an exporter, as it lacks {' and '.join(missing)}")
    return found


def third_party(module: str, extra: str) -> Any:
    """A module of a package that an extra installs; raises UsageError that names the extra."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != module.partition(".")[0]:
            raise
        raise UsageError(
            f"{module.partition('.')[0]} is not installed: pip install 'pytest-mlebench[{extra}]'"
        ) from error


@contextmanager
def set_by_default(variables: Mapping[str, str]) -> Iterator[None]:
    """Context manager: the environment has these variables, for a client of a tracker, unless the user set them."""
    added = {name: value for name, value in variables.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)
