"""The runs of a session or a group as a table, and those of several agents side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from pytest_mlebench.io.units import format_dollars, format_score, format_seconds, listed
from pytest_mlebench.records.group import RunGroup
from pytest_mlebench.records.outcome import THRESHOLDS, Outcome
from pytest_mlebench.records.record import RunRecord
from pytest_mlebench.reports.palette import ansi_code
from pytest_mlebench.reports.tables import Section, Table
from pytest_mlebench.results.comparison import mean_scores
from pytest_mlebench.results.overview import spending
from pytest_mlebench.results.summary import labels, split_rank

_HEADS = ("competition", "agent", "seed", "medal", "score", *THRESHOLDS, "time", "ended")
_WITH_COST = (*_HEADS[:-1], "cost", _HEADS[-1])
_NUMBERS = frozenset({"seed", "score", *THRESHOLDS, "time", "cost"})

_SPARE = (*reversed(THRESHOLDS), "time", "ended", "cost", "firm", "seed")
"""What a narrow terminal can do without; names, medals and scores stay."""
_LONGEST_HEAD = 12
"""Characters of an agent's name above its scores; longer ones would leave no room for thresholds."""


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
    """The runs of each group, then all agents competition by competition: a column is an agent of a group."""
    for group in groups:
        yield Section(f"Runs of {group.name}", [medal_table(in_order(group.records))])
    versions = dict.fromkeys(group.version for group in groups)
    for version in versions:
        own = [group for group in groups if group.version == version]
        columns = _columns(own)
        if len(columns) > 1:
            yield _side_by_side(columns)
    if len(versions) > 1:
        of = [f"{group.name} is of version {group.version[1:]}" for group in groups]
        yield Section("Not compared competition by competition", remarks=[f"{listed(of)} of the benchmark"])


_Column = Mapping[str, list[RunRecord]]
"""An agent's runs by competition."""


def _columns(groups: Sequence[RunGroup]) -> Mapping[str, _Column]:
    """Each agent's runs by its label."""
    found: dict[str, dict[str, list[RunRecord]]] = {}
    for (folder, agent), label in labels(groups).items():
        own = found.setdefault(label, {})
        for record in next(group for group in groups if group.folder == folder).records:
            if record.agent == agent:
                own.setdefault(record.competition_id, []).append(record)
    return found


def _side_by_side(columns: Mapping[str, _Column]) -> Section:
    agents = list(columns)
    fit = max(map(len, agents)) <= _LONGEST_HEAD
    names = agents if fit else [f"agent {number}" for number in range(1, len(agents) + 1)]
    rows = []
    for record in in_order({id: runs[0] for own in columns.values() for id, runs in own.items()}.values()):
        cells = [own.get(record.competition_id, []) for own in columns.values()]
        means = mean_scores([{run.seed: run.score for run in runs if run.score is not None} for runs in cells])
        both = [(format_score(mean), _medals(runs)) for mean, runs in zip(means, cells, strict=True)]
        rows.append(
            (
                record.competition_id,
                *chain.from_iterable(both),
                *([_difference(means)] if len(agents) == 2 else []),
                "lower" if record.report.is_lower_better else "higher",
                *map(format_score, record.thresholds.values()),
            )
        )
    difference = ["difference"] if len(agents) == 2 else []
    heads = ("competition", *chain.from_iterable((name, "medal") for name in names), *difference, "better", *THRESHOLDS)
    numbers = frozenset({*names, "difference", *THRESHOLDS})
    remarks = [f"{name}: {agent}" for name, agent in zip(names, agents, strict=True) if not fit]
    return Section(
        f"{listed(agents)}, competition by competition",
        [Table(heads, rows, numbers, (*reversed(THRESHOLDS), "better", "medal"))],
        [*remarks, "Scores are means over the seeds that all agents with a score have in common."],
    )


def _difference(means: Sequence[float | None]) -> str:
    one, other = means
    return "-" if one is None or other is None else f"{other - one:+.5f}"


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
