"""Several run groups in one report: their runs together, with agents that can be told apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_mlebench.results.group import RunGroupResults
from pytest_mlebench.results.record import RunKey, RunRecord
from pytest_mlebench.results.summary import labels


@dataclass(frozen=True)
class SideBySide:
    """The runs of some groups, each once, with agents called by their ``labels``."""

    records: tuple[RunRecord, ...]
    run_dirs: tuple[Path, ...]
    """Where each record's run left its files."""
    planned: Mapping[RunKey, str]
    """The split of every run that the groups were started for."""


def side_by_side(groups: Sequence[RunGroupResults]) -> SideBySide:
    """Put the groups' runs together."""
    names = labels(groups)
    runs = [(group, record) for group in groups for record in group.runs.values()]
    return SideBySide(
        records=tuple(replace(record, agent=names[group.folder, record.agent]) for group, record in runs),
        run_dirs=tuple(group.folder / record.run_id for group, record in runs),
        planned={
            key._replace(agent=names[group.folder, key.agent]): group.places[key.competition_id].split
            for group in groups
            for key in group.planned
        },
    )
