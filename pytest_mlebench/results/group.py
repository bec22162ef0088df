"""A run group as it lies on disk: its manifest and the records of its runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_mlebench.catalog.catalogue import unknown
from pytest_mlebench.errors import UsageError
from pytest_mlebench.results.manifest import MANIFEST
from pytest_mlebench.results.record import RunKey, RunRecord, read_records


@dataclass(frozen=True, kw_only=True)
class RunGroupResults:
    """What a run group came to so far. ``manifest`` is empty for a group that was made without one."""

    name: str
    folder: Path
    records: tuple[RunRecord, ...]
    manifest: Mapping[str, Any] = field(default_factory=dict)

    @property
    def planned(self) -> frozenset[RunKey]:
        """The runs that the group was started for; without a manifest, those that have a record."""
        runs = self.manifest.get("runs")
        if runs is None:
            return frozenset(record.key for record in self.records)
        return frozenset(RunKey(run["agent"], run["competition_id"], run["seed"]) for run in runs)


def find_group(name: str, runs_dir: Path) -> Path:
    """The folder of a run group that is given as a path or as a name below ``runs_dir``; raises UsageError."""
    for folder in (Path(name).expanduser(), runs_dir / name):
        if folder.is_dir():
            return folder
    groups = [path.name for path in runs_dir.glob("*") if path.is_dir()] if runs_dir.is_dir() else []
    raise unknown(f"run group (below {runs_dir})", name, groups)


def read_group(folder: Path) -> RunGroupResults:
    """Read a run group's folder; raises UsageError where there is none."""
    if not folder.is_dir():
        raise UsageError(f"run group {folder} does not exist")
    records = tuple(read_records(folder))
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except FileNotFoundError:
        manifest = {}
    except (OSError, ValueError) as error:
        raise UsageError(f"{folder / MANIFEST} cannot be read: {error}") from error
    if not records and not manifest:
        raise UsageError(f"{folder} is no run group: it holds neither {MANIFEST} nor the record of a run")
    return RunGroupResults(name=folder.name, folder=folder, records=records, manifest=manifest)
