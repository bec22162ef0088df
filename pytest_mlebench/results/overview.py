"""Run groups summed up and compared: everything that reports show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from pytest_mlebench.errors import UsageError
from pytest_mlebench.results.comparison import SplitComparison, Standing, compare, not_ranked, standings
from pytest_mlebench.results.summary import SplitSummary, labels, summarise
from pytest_mlebench.runs.group import RunGroup
from pytest_mlebench.runs.record import RunKey, RunRecord

RATES = ("any_medal", "gold", "silver", "bronze", "above_median", "valid", "submitted")
"""The rates of a summary, by name."""


@dataclass(frozen=True, kw_only=True)
class Overview:
    """Run groups summed up and compared. ``categories`` is empty unless requested.

    ``records``, ``run_dirs`` and ``planned`` are those of all groups, with agents called by their ``labels``.
    """

    groups: tuple[RunGroup, ...]
    pad_missing: bool
    summaries: tuple[SplitSummary, ...]
    categories: tuple[SplitSummary, ...]
    standings: tuple[Standing, ...]
    not_ranked: tuple[str, ...]
    comparisons: tuple[SplitComparison, ...]

    @cached_property
    def records(self) -> tuple[RunRecord, ...]:
        names = labels(self.groups)
        return tuple(
            replace(record, agent=names[group.folder, record.agent])
            for group in self.groups
            for record in group.records
        )

    @cached_property
    def run_dirs(self) -> tuple[Path, ...]:
        """Where the run of each record left its files."""
        return tuple(group.folder / record.run_id for group in self.groups for record in group.records)

    @cached_property
    def planned(self) -> Mapping[RunKey, str]:
        """The split of every run that the groups were started for."""
        names = labels(self.groups)
        return {
            key._replace(agent=names[group.folder, key.agent]): group.splits_and_categories[key.competition_id].split
            for group in self.groups
            for key in group.planned
        }


def overview(groups: Sequence[RunGroup], *, pad_missing: bool = False, by_category: bool = False) -> Overview:
    """Sum up run groups; raises UsageError where one is given twice."""
    folders = [group.folder.resolve() for group in groups]
    if twice := next((folder for folder in folders if folders.count(folder) > 1), None):
        raise UsageError(f"run group {twice} is given twice")
    summaries = summarise(groups, pad_missing=pad_missing)
    categories = summarise(groups, pad_missing=pad_missing, by_category=True) if by_category else []
    return Overview(
        groups=tuple(groups),
        pad_missing=pad_missing,
        summaries=tuple(summaries),
        categories=tuple(categories),
        standings=tuple(standings(summaries, groups)),
        not_ranked=tuple(not_ranked(summaries)),
        comparisons=tuple(compare(summaries)),
    )
