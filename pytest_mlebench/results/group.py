"""A run group as it lies on disk: its manifest and the records of its runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from pytest_mlebench.catalog.catalogue import default_catalogue, unknown
from pytest_mlebench.errors import UsageError
from pytest_mlebench.results.manifest import MANIFEST
from pytest_mlebench.results.record import RunKey, RunRecord, read_records


class Place(NamedTuple):
    """Where a competition belongs."""

    split: str
    category: str


UNKNOWN = Place("unknown", "unknown")


@dataclass(frozen=True, kw_only=True)
class RunGroupResults:
    """What a run group came to so far. ``manifest`` is empty for a group that was made without one.

    ``broken`` says of each file that should be a record why it is none.
    """

    name: str
    folder: Path
    records: tuple[RunRecord, ...]
    manifest: Mapping[str, Any] = field(default_factory=dict)
    broken: tuple[str, ...] = ()

    @cached_property
    def planned(self) -> frozenset[RunKey]:
        """The runs that the group was started for; without a manifest, those that have a record."""
        runs = self.manifest.get("runs")
        if runs is None:
            return frozenset(self.runs)
        return frozenset(RunKey(run["agent"], run["competition_id"], run["seed"]) for run in runs)

    @cached_property
    def runs(self) -> Mapping[RunKey, RunRecord]:
        """The records by what they are of; of several for the same, the one that was started last."""
        return {record.key: record for record in self.records}

    @cached_property
    def agents(self) -> tuple[str, ...]:
        """Every agent that has a run or is to have one."""
        return tuple(sorted({key.agent for key in (*self.planned, *self.runs)}))

    @cached_property
    def places(self) -> Mapping[str, Place]:
        """Split and category of each competition: as its records say, else the manifest, else the catalogue."""
        places = {record.competition_id: Place(record.split, record.category) for record in self.records}
        told = self.manifest.get("settings", {}).get("competitions", {})
        catalogue = default_catalogue()
        for id in sorted({key.competition_id for key in self.planned} - places.keys()):
            if {"split", "category"} <= told.get(id, {}).keys():
                places[id] = Place(told[id]["split"], told[id]["category"])
            elif id in catalogue.ids:
                places[id] = Place(catalogue[id].split, catalogue[id].category)
            else:
                places[id] = UNKNOWN
        return places


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
    broken: list[str] = []
    records = tuple(read_records(folder, on_broken=broken.append))
    group = RunGroupResults(
        name=folder.resolve().name,
        folder=folder,
        records=records,
        manifest=_read_manifest(folder / MANIFEST),
        broken=tuple(broken),
    )
    if not records and not group.manifest:
        raise UsageError(
            f"{folder} is no run group: it holds neither {MANIFEST} nor the record of a run"
            + "".join(f"\n{reason}" for reason in broken)
        )
    try:
        group.planned  # noqa: B018
    except (TypeError, KeyError) as error:
        raise UsageError(
            f"{folder / MANIFEST}: each of its runs needs agent, competition_id, seed ({error!r})"
        ) from None
    return group


def _read_manifest(path: Path) -> dict[str, Any]:
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    if not isinstance(manifest, dict):
        raise UsageError(f"{path} must hold a JSON object, not {type(manifest).__name__}")
    return manifest
