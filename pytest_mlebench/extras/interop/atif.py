"""Exports the trajectories of a run group in ATIF, one file per run."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_mlebench.errors import UsageError
from pytest_mlebench.extras.interop.contract import ExportOption, Request
from pytest_mlebench.extras.interop.facts import cleaner, trajectory, write_cleaned
from pytest_mlebench.records.group import RunGroup

SUMMARY = "trajectories in ATIF"
OPTIONS: tuple[ExportOption, ...] = ()


def export(group: RunGroup, request: Request) -> Iterator[str]:
    """Write each run's trajectory as ``<run id>.json``; runs that called no model have none."""
    target, written, redactor = request.folder(group), 0, cleaner()
    for record in group.records:
        if (found := trajectory(group.folder / record.run_id, record)) is not None:
            path = target / f"{record.run_id}.json"
            write_cleaned(path, found, redactor)
            written += 1
            yield str(path)
    if not written:
        raise UsageError(f"no run of {group.name} has a trajectory: its agents called no recorded models")
