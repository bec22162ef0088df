"""An open run group: this process writes it, and completes it when it is closed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from pytest_mlebench.errors import UsageError, unusable
from pytest_mlebench.io.progress import Reporter, WarningNote
from pytest_mlebench.records.group import GroupReader, RunGroup, write_group
from pytest_mlebench.records.manifest import PlannedRun
from pytest_mlebench.records.record import REPORT
from pytest_mlebench.reports.page import page
from pytest_mlebench.results.overview import overview
from pytest_mlebench.runs.writer import RunGroupWriter


class OpenGroup:
    """A run group that this process writes; closing it writes the manifest's end, the reports and the page."""

    def __init__(self, writer: RunGroupWriter, reporter: Reporter) -> None:
        self.folder, self.reader = writer.folder, GroupReader(writer.folder)
        self._writer, self._reporter = writer, reporter

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def plan(self, runs: Iterable[PlannedRun]) -> None:
        """Note runs that are going to be done; those that are known already count once."""
        self._writer.plan(runs)

    def close(self, reader: GroupReader | None = None) -> RunGroup | None:
        """Write the group's metadata, grading report and page, and complete its manifest; None for an empty new group.

        ``reader`` is one that has read the group's records already. What cannot be written is reported as a warning:
        each run's own record is there already.
        """
        if self._writer.discard_empty():
            return None
        reader = reader or self.reader
        try:
            records = reader.records()
            if records:
                write_group(self.folder, self._writer.manifest.created_at, records)
            self._writer.close(records)
            group = reader.read()
            (self.folder / REPORT).write_text(page(overview([group]), folder=self.folder), encoding="utf-8")
        except (OSError, UsageError) as error:
            why = unusable(error) if isinstance(error, OSError) else str(error)
            self._reporter(WarningNote(f"the run group's reports cannot be written: {why}"))
            return None
        return group
