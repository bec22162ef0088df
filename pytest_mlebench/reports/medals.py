"""The runs of a session or a group as a table, and those of two groups side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from pytest_mlebench.reports.tables import Section, Table
from pytest_mlebench.results.costs import spending
from pytest_mlebench.results.summary import split_rank
from pytest_mlebench.runs.group import RunGroup
from pytest_mlebench.runs.outcome import THRESHOLDS
from pytest_mlebench.runs.record import RunRecord
from pytest_mlebench.units import format_dollars, format_score, format_seconds

_HEADS = ("competition", "agent", "seed", "medal", "score", *THRESHOLDS, "time", "ended")
_WITH_COST = (*_HEADS[:-1], "cost", _HEADS[-1])
_NUMBERS = frozenset({"seed", "score", *THRESHOLDS, "time", "cost"})


def in_order(records: Iterable[RunRecord]) -> list[RunRecord]:
    """Runs by split, competition, agent and seed."""
    return sorted(records, key=lambda r: (split_rank(r.split), r.competition_id, r.agent, r.seed))


def medal_table(records: Sequence[RunRecord]) -> Table:
    """A row for each run; with what it cost, where runs asked language models."""
    with_cost = bool(spending(records))
    rows = [_row(record, with_cost=with_cost) for record in records]
    return Table(_WITH_COST if with_cost else _HEADS, rows, _NUMBERS)


def run_sections(groups: Sequence[RunGroup]) -> Iterable[Section]:
    """The runs of each group; of two groups also their competitions side by side."""
    for group in groups:
        yield Section(f"Runs of {group.name}", [medal_table(in_order(group.records))])
    if len(groups) == 2:
        first, second = groups
        if first.version == second.version:
            yield _side_by_side(first, second)
        else:
            versions = " and ".join(f"{group.name} is of version {group.version[1:]}" for group in groups)
            yield Section("Not compared competition by competition", remarks=[f"{versions} of the benchmark"])


def _side_by_side(first: RunGroup, second: RunGroup) -> Section:
    names = (first.name, second.name) if first.name != second.name else ("first", "second")
    left, right = _by_competition(first), _by_competition(second)
    rows = []
    for record in in_order({r.competition_id: r for r in (*first.records, *second.records)}.values()):
        one, other = left.get(record.competition_id), right.get(record.competition_id)
        difference = None if one is None or other is None else other - one
        rows.append(
            (
                record.competition_id,
                *map(format_score, (one, other)),
                "-" if difference is None else f"{difference:+.5f}",
                "lower" if record.report.is_lower_better else "higher",
                *map(format_score, record.thresholds.values()),
            )
        )
    heads = ("competition", *names, "difference", "better", *THRESHOLDS)
    numbers = frozenset({*names, "difference", *THRESHOLDS})
    return Section(
        f"{names[0]} and {names[1]}, competition by competition",
        [Table(heads, rows, numbers)],
        ["Scores are means over the runs that have one."],
    )


def _by_competition(group: RunGroup) -> Mapping[str, float]:
    scores: dict[str, list[float]] = {}
    for record in group.records:
        if record.score is not None:
            scores.setdefault(record.competition_id, []).append(record.score)
    return {id: fmean(values) for id, values in scores.items()}


def medal_label(record: RunRecord) -> str:
    """The outcome; a medal that only indicates what it would be on Kaggle's leaderboard has a ``~`` before it."""
    is_indicative = record.report.any_medal and record.report.thresholds == "indicative"
    return f"~{record.outcome.label}" if is_indicative else record.outcome.label


def _row(record: RunRecord, *, with_cost: bool) -> tuple[str, ...]:
    cost = ((format_dollars(record.cost) if record.llm.get("calls") else "-"),) if with_cost else ()
    return (
        record.competition_id,
        record.agent,
        str(record.seed),
        medal_label(record),
        format_score(record.score),
        *map(format_score, record.thresholds.values()),
        format_seconds(record.seconds),
        *cost,
        record.ending,
    )
