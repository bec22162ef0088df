"""The runs of a session or a group as a table, and those of two groups side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from pytest_mlebench.io.units import format_dollars, format_score, format_seconds
from pytest_mlebench.records.group import RunGroup
from pytest_mlebench.records.outcome import THRESHOLDS, Outcome
from pytest_mlebench.records.record import RunRecord
from pytest_mlebench.reports.palette import ansi_code
from pytest_mlebench.reports.tables import Section, Table
from pytest_mlebench.results.overview import spending
from pytest_mlebench.results.summary import split_rank

_HEADS = ("competition", "agent", "seed", "medal", "score", *THRESHOLDS, "time", "ended")
_WITH_COST = (*_HEADS[:-1], "cost", _HEADS[-1])
_NUMBERS = frozenset({"seed", "score", *THRESHOLDS, "time", "cost"})

_SPARE = (*reversed(THRESHOLDS), "time", "ended", "cost", "firm", "seed")
"""What a narrow terminal can do without; names, medals and scores stay."""
_LONGEST_HEAD = 12
"""Characters of a group's name above its scores; longer ones would leave no room for thresholds."""


def in_order(records: Iterable[RunRecord]) -> list[RunRecord]:
    """Runs by split, competition, agent and seed."""
    return sorted(records, key=lambda r: (split_rank(r.split), r.competition_id, r.agent, r.seed))


def medal_table(records: Sequence[RunRecord]) -> Table:
    """A row for each run; with what it cost, where runs asked language models.

    ``firm`` is whether a medal holds in 95 % of resamples of the test's rows, if that is known of any.
    """
    with_cost = bool(spending(records))
    with_firm = any(record.report.firm is not None for record in records)
    heads = _WITH_COST if with_cost else _HEADS
    rows = [_row(record, with_cost=with_cost) for record in records]
    if with_firm:
        place = heads.index("medal") + 1
        heads = (*heads[:place], "firm", *heads[place:])
        words = {"firm": "yes", "not firm": "no"}
        firm = [words.get(record.report.firmness, record.report.firmness) for record in records]
        rows = [(*row[:place], own, *row[place:]) for row, own in zip(rows, firm, strict=True)]
    codes = [ansi_code(record.outcome.colour) for record in records]
    return Table(heads, rows, _NUMBERS, _SPARE, codes)


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
    fit = first.name != second.name and max(len(first.name), len(second.name)) <= _LONGEST_HEAD
    names = (first.name, second.name) if fit else ("first", "second")
    left, right = _by_competition(first), _by_competition(second)
    rows = []
    for record in in_order({r.competition_id: r for r in (*first.records, *second.records)}.values()):
        one, other = (_mean_score(group.get(record.competition_id, [])) for group in (left, right))
        rows.append(
            (
                record.competition_id,
                format_score(one),
                _medals(left.get(record.competition_id, [])),
                format_score(other),
                _medals(right.get(record.competition_id, [])),
                "-" if one is None or other is None else f"{other - one:+.5f}",
                "lower" if record.report.is_lower_better else "higher",
                *map(format_score, record.thresholds.values()),
            )
        )
    heads = ("competition", names[0], "medal", names[1], "medal", "difference", "better", *THRESHOLDS)
    numbers = frozenset({*names, "difference", *THRESHOLDS})
    return Section(
        f"{first.name} and {second.name}, competition by competition",
        [Table(heads, rows, numbers, (*reversed(THRESHOLDS), "better", "medal"))],
        ["Scores are means over the runs that have one."],
    )


def _by_competition(group: RunGroup) -> Mapping[str, list[RunRecord]]:
    found: dict[str, list[RunRecord]] = {}
    for record in group.records:
        found.setdefault(record.competition_id, []).append(record)
    return found


def _mean_score(records: Iterable[RunRecord]) -> float | None:
    scores = [record.score for record in records if record.score is not None]
    return fmean(scores) if scores else None


def _medals(records: Sequence[RunRecord]) -> str:
    """The medal of one run; of several, how many had each, the best first."""
    ranked = sorted(records, key=lambda record: list(Outcome).index(record.outcome))
    counts = Counter(map(medal_label, ranked))
    if len(records) < 2:
        return "".join(counts) or "-"
    return ", ".join(f"{count} {label}" for label, count in counts.items())


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
