"""Medals over time and over money, from the timelines of runs, and what the last changes cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pytest_mlebench.records.outcome import Outcome
from pytest_mlebench.records.record import RunRecord
from pytest_mlebench.records.report import TimelinePoint
from pytest_mlebench.results.summary import split_rank

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
