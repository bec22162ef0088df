"""Run groups summed up and compared, over time and money too: everything that reports show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pytest_mlebench.errors import UsageError
from pytest_mlebench.records.group import RunGroup
from pytest_mlebench.records.outcome import Outcome
from pytest_mlebench.records.record import RunKey, RunRecord
from pytest_mlebench.records.report import TimelinePoint
from pytest_mlebench.results.comparison import SplitComparison, Standing, compare, not_ranked, standings
from pytest_mlebench.results.summary import SplitSummary, labels, split_rank, summarise

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


@dataclass(frozen=True, kw_only=True)
class Spending:
    """The model calls of an agent's runs on a split. Costs in US dollars; None where that of a run is not known."""

    agent: str
    split: str
    runs: int
    medals: int
    calls: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    reasoning_tokens: int
    cost: float | None
    known_cost: float
    seconds: float
    """Waited for models."""
    budgets_ended: int
    """Runs whose budget ended."""
    failures: Mapping[str, int]
    """How many requests failed, by HTTP status; ``none`` where there was no answer."""

    @property
    def cost_per_run(self) -> float | None:
        return None if self.cost is None else self.cost / self.runs

    @property
    def cost_per_medal(self) -> float | None:
        return None if self.cost is None or not self.medals else self.cost / self.medals


def spending(records: Iterable[RunRecord]) -> list[Spending]:
    """By agent and split, of the runs that reached models by the gateway."""
    groups: dict[tuple[str, str], list[RunRecord]] = {}
    for record in records:
        if "calls" in record.llm:
            groups.setdefault((record.agent, record.split), []).append(record)
    order = sorted(groups, key=lambda key: (split_rank(key[1]), key[0]))
    return [spending_of(agent, split, groups[agent, split]) for agent, split in order]


def spending_of(agent: str, split: str, records: Sequence[RunRecord]) -> Spending:
    """Of runs that reached models by the gateway, at least one."""
    tokens = {name: sum(_counts(record.llm, "tokens").get(name, 0) for record in records) for name in _TOKENS}
    costs = [0.0 if not record.llm["calls"] else record.cost for record in records]
    known = [float(record.llm.get("known_cost") or 0) for record in records]
    return Spending(
        agent=agent,
        split=split,
        runs=len(records),
        medals=sum(record.report.any_medal for record in records),
        calls=sum(int(record.llm["calls"]) for record in records),
        input_tokens=tokens["input"],
        cached_tokens=tokens["cached"],
        output_tokens=tokens["output"],
        reasoning_tokens=tokens["reasoning"],
        cost=None if None in costs else sum(cost for cost in costs if cost is not None),
        known_cost=sum(known),
        seconds=sum(float(record.llm.get("seconds") or 0) for record in records),
        budgets_ended=sum(bool(record.llm.get("budget_ended")) for record in records),
        failures=sum((Counter(_counts(record.llm, "errors")) for record in records), Counter()),
    )


_TOKENS = ("input", "cached", "output", "reasoning")


def _counts(llm: Mapping[str, Any], name: str) -> dict[str, int]:
    values = llm.get(name)
    return {str(name): int(value) for name, value in values.items()} if isinstance(values, Mapping) else {}


MAX_STEPS = 1000


@dataclass(frozen=True)
class Step:
    """From this amount on (seconds, or US dollars) the rate is ``rate`` per cent."""

    amount: float
    rate: float


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """An agent's runs on a split over time. Rates are the share of runs with any medal, in per cent.

    A run counts with the submission that it had at the time, and from its end on with its result; a run with an error
    has none and is left out.
    """

    agent: str
    split: str
    runs: int
    with_snapshots: int
    final: float
    best: float
    """If each run had ended with the best submission that was seen."""
    over_time: tuple[Step, ...]
    over_cost: tuple[Step, ...]
    """Of the runs whose cost is known."""
    priced: int
    """How many runs these are."""
    last_was_worse: int
    """Runs whose last submission was worse than an earlier one."""
    medals_lost: int
    """Runs whose last submission earned a worse medal than an earlier one."""
    estimates: int
    """Runs whose agent said which score it expected."""
    too_optimistic: int
    """How many of these scored worse than that."""


def timelines(records: Iterable[RunRecord]) -> list[Timeline]:
    """By agent and split."""
    groups: dict[tuple[str, str], list[RunRecord]] = {}
    for record in records:
        if record.outcome is not Outcome.error:
            groups.setdefault((record.agent, record.split), []).append(record)
    order = sorted(groups, key=lambda key: (split_rank(key[1]), key[0]))
    return [_timeline(agent, split, groups[agent, split]) for agent, split in order]


def rate_at(steps: Sequence[Step], amount: float) -> float:
    """The rate when this much was spent.

    >>> rate_at([Step(10, 50.0), Step(20, 25.0)], 15)
    50.0
    """
    return next((step.rate for step in reversed(steps) if step.amount <= amount), 0.0)


def _timeline(agent: str, split: str, records: list[RunRecord]) -> Timeline:
    medals = sum(record.report.any_medal for record in records)
    best = sum(record.report.any_medal or any(point.medal for point in record.timeline) for record in records)
    changes = [change for record in records if (change := record.last_change) is not None]
    gaps = [record.validation_gap for record in records if record.validation_score is not None]
    priced = [record for record in records if record.cost is not None]
    return Timeline(
        agent=agent,
        split=split,
        runs=len(records),
        with_snapshots=sum(any(not point.final for point in record.timeline) for record in records),
        final=100 * medals / len(records),
        best=100 * best / len(records),
        over_time=_steps(records, lambda point: point.seconds, lambda record: record.seconds),
        over_cost=_steps(priced, lambda point: point.cost, lambda record: record.cost or 0.0),
        priced=len(priced),
        last_was_worse=len(changes),
        medals_lost=sum(change.medal_lost for change in changes),
        estimates=len(gaps),
        too_optimistic=sum(gap is not None and gap > 0 for gap in gaps),
    )


def _steps(
    records: Sequence[RunRecord],
    at: Callable[[TimelinePoint], float | None],
    end: Callable[[RunRecord], float],
) -> tuple[Step, ...]:
    """The share of runs with a medal, from each amount on at which it changes."""
    changes: list[tuple[float, int]] = []
    for record in records:
        states = [(min(amount, end(record)), bool(p.medal)) for p in record.timeline if (amount := at(p)) is not None]
        had = False
        for amount, has in [*sorted(states, key=lambda state: state[0]), (end(record), record.report.any_medal)]:
            if has != had:
                changes.append((amount, 1 if has else -1))
                had = has
    steps: list[Step] = []
    count = 0
    for amount, change in sorted(changes):
        count += change
        if steps and steps[-1].amount == amount:
            steps.pop()
        steps.append(Step(amount, 100 * count / len(records)))
    if len(steps) > MAX_STEPS:
        steps = [*steps[:: -(-len(steps) // MAX_STEPS)], steps[-1]]
    return tuple(steps)
