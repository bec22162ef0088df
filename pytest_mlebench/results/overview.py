"""Compute everything that reports show about run groups: summaries, precision, costs, and rates over time and cost.

Agents are compared with the published results and with each other, paired by competition and seed.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import combinations
from pathlib import Path
from statistics import NormalDist, fmean

from pytest_mlebench.catalog.catalogue import default_catalogue
from pytest_mlebench.catalog.competition import FIRST, is_twin_label, split_and_version
from pytest_mlebench.catalog.schema import Leaderboard
from pytest_mlebench.defaults import TIME_LIMIT
from pytest_mlebench.errors import UsageError
from pytest_mlebench.io.files import bundled
from pytest_mlebench.io.units import format_duration, pluralize
from pytest_mlebench.records.group import RunGroup
from pytest_mlebench.records.outcome import TWIN_DATA, Outcome, TimelinePoint
from pytest_mlebench.records.record import RunKey, RunRecord
from pytest_mlebench.results import statistics
from pytest_mlebench.results.statistics import Interval, PairedDifference, Rate, Variance
from pytest_mlebench.results.summary import (
    Measure,
    SplitSummary,
    by_split,
    labels,
    split_rank,
    splits_and_categories,
    summarise,
)

SPLITS = ("low", "medium", "high", "all")


@dataclass(frozen=True, kw_only=True)
class PublishedResult:
    """One row of the published table: any-medal rates by split (low, medium, high, all)."""

    agent: str
    llm: str
    date: str
    hours: float | None = None
    rates: Mapping[str, Rate]
    padded_incomplete_seeds: bool = False
    comparable: bool = True
    """False if the result is not comparable; ``note`` gives the reason, such as feedback from the test set."""
    note: str = ""


@cache
def published_results() -> tuple[PublishedResult, ...]:
    """Return all published results, best first."""
    table = json.loads((bundled("reports") / "published.json").read_text(encoding="utf-8"))
    results = [
        PublishedResult(
            **{name: value for name, value in row.items() if name not in SPLITS},
            rates={split: Rate(*row[split]) for split in SPLITS if row.get(split)},
        )
        for row in table["results"]
    ]
    return tuple(sorted(results, key=lambda result: -result.rates["all"].mean))


SIGNIFICANT = 0.05


@dataclass(frozen=True, kw_only=True)
class Standing:
    """An agent's rank among the comparable published results of a split, by any-medal rate.

    Rank 1 is best; equal rates share a rank. ``better`` has all results with a higher rate, ``worse`` those with the
    same or a lower rate, nearest first. ``caveats`` lists reasons why the comparison may not be fair.
    """

    summary: SplitSummary
    better: tuple[PublishedResult, ...]
    worse: tuple[PublishedResult, ...]
    caveats: tuple[str, ...]

    @property
    def rank(self) -> int:
        return len(self.better) + 1

    @property
    def of(self) -> int:
        """Number of ranked results, including this agent's."""
        return len(self.better) + len(self.worse) + 1


@dataclass(frozen=True, kw_only=True)
class SplitComparison:
    """Two agents on a split, paired by competition and seed. Differences are ours minus theirs.

    Their p-values are adjusted for the number of pairs of agents on the split that have the difference.
    """

    split: str
    ours: SplitSummary
    theirs: SplitSummary
    difference: PairedDifference
    """Difference of the any-medal rates."""
    percentile: PairedDifference | None
    """Difference of the mean percentiles; None if no pair of runs has them."""

    @property
    def is_conclusive(self) -> bool:
        return self.difference.adjusted_p_value < SIGNIFICANT


def standings(summaries: Sequence[SplitSummary], groups: Sequence[RunGroup]) -> list[Standing]:
    """Rank each agent on the published splits that it ran completely; only on ``all`` if it ran that.

    Results on data that was not verified against the reference are not ranked: the data may be synthetic.
    """
    ranked = [s for s in summaries if s.covers_split and not s.is_provisional and not s.unverified]
    on_all = {summary.label for summary in ranked if summary.split == "all"}
    by_folder = {group.folder: group for group in groups}
    return [
        _standing(summary, by_folder[summary.folder])
        for summary in ranked
        if summary.split == "all" or summary.label not in on_all
    ]


def _standing(summary: SplitSummary, group: RunGroup) -> Standing:
    split = summary.split
    mean = round(summary.any_medal.mean, 2)  # like the published rates, so that equal medal counts tie
    others = sorted(
        (result for result in published_results() if result.comparable and split in result.rates),
        key=lambda result: -result.rates[split].mean,
    )
    return Standing(
        summary=summary,
        better=tuple(other for other in reversed(others) if other.rates[split].mean > mean),
        worse=tuple(other for other in others if other.rates[split].mean <= mean),
        caveats=tuple(_caveats(summary, group)),
    )


def not_ranked(summaries: Sequence[SplitSummary]) -> list[str]:
    """Return why agents have no standing on a published split."""
    on_all = {s.label for s in summaries if s.split == "all" and s.covers_split and s.unverified}
    return [
        f"{summary.label} on {summary.split}: {reason}"
        for summary in summaries
        if (reason := _unranked(summary, is_on_all=summary.label in on_all))
    ]


def _unranked(summary: SplitSummary, *, is_on_all: bool) -> str:
    """Return why this has no standing; empty if it has one, has one on ``all``, or the split is not published."""
    split, version = split_and_version(summary.split)
    if is_twin_label(summary.split):
        return TWIN_DATA
    if version != FIRST and split in SPLITS:
        return "the published results are of version 1"
    if summary.split not in SPLITS:
        return ""
    if summary.unverified and summary.covers_split:
        if is_on_all and summary.split != "all":
            return ""
        return (
            f"the data of {len(summary.unverified)} of {pluralize(summary.competitions, 'competition')} was not "
            "verified against the reference's checksums (it is synthetic, modified, or was never compared)"
        )
    if summary.split == "all":
        return ""
    if summary.is_provisional:
        return "no seed is complete"
    if not summary.covers_split:
        return f"{pluralize(summary.competitions, 'competition')}, not the whole split"
    return ""


def _caveats(summary: SplitSummary, group: RunGroup) -> Iterator[str]:
    if summary.seeds == 1:
        yield "a single seed, so the variance between seeds is unknown"
    if summary.note:
        yield summary.note
    if group.manifest.canonical is not None:
        yield from group.manifest.canonical.differences
        return
    limits = {run.limits.get("time_limit") for run in group.records if run.agent == summary.agent}
    for limit in sorted(limit for limit in limits if limit is not None and limit != TIME_LIMIT):
        yield f"a time limit of {format_duration(limit)} instead of 24 hours"
    yield "the setting was not recorded, so other differences are unknown"


def flags(result: PublishedResult) -> str:
    """Return how a published result's setting differs from the canonical one; empty if it does not."""
    words = [result.note] if result.note else []
    if result.hours != TIME_LIMIT / 3600:
        words.append("hours unknown" if result.hours is None else f"{result.hours:g} hours")
    if result.padded_incomplete_seeds:
        words.append("incomplete seeds padded")
    return ", ".join(words)


def compare(summaries: Sequence[SplitSummary]) -> list[SplitComparison]:
    """Compare every pair of agents on every split for which both have results, in the order of the summaries.

    Only runs of the same competition and seed are compared.
    """
    labels = list(dict.fromkeys(summary.label for summary in summaries))
    splits = dict.fromkeys(summary.split for summary in by_split(summaries))
    found: list[SplitComparison] = []
    for split in splits:
        by_label = {summary.label: summary for summary in summaries if summary.split == split}
        pairs = list(combinations([by_label[label] for label in labels if label in by_label], 2))
        differences = _adjusted([_paired(ours, theirs, "any_medal") for ours, theirs in pairs])
        percentiles = _adjusted([_paired(ours, theirs, "percentile") for ours, theirs in pairs])
        found += [
            SplitComparison(split=split, ours=ours, theirs=theirs, difference=difference, percentile=percentile)
            for (ours, theirs), difference, percentile in zip(pairs, differences, percentiles, strict=True)
            if difference is not None
        ]
    return found


def _adjusted(differences: Sequence[PairedDifference | None]) -> list[PairedDifference | None]:
    adjusted = iter(statistics.holm([one.p_value for one in differences if one is not None]))
    return [one and replace(one, adjusted_p_value=next(adjusted)) for one in differences]


def _paired(ours: SplitSummary, theirs: SplitSummary, measure: Measure) -> PairedDifference | None:
    """Compare the runs of the same competition and seed for which both agents have a result; None if there are none."""
    seeds = sorted({seed for s in (ours, theirs) for seed in (*s.counted_seeds, *(seed for _, seed in s.records))})
    pairs = []
    for id in sorted(set(ours.competition_ids) & set(theirs.competition_ids)):
        both = [(ours.value(measure, id, seed), theirs.value(measure, id, seed)) for seed in seeds]
        if known := [(our, their) for our, their in both if our is not None and their is not None]:
            pairs.append(known)
    return statistics.paired_difference(pairs) if pairs else None


def mean_scores(by_seed: Sequence[Mapping[int, float]]) -> list[float | None]:
    """Return each agent's mean score on a competition, over the seeds for which all agents have a score.

    ``by_seed`` has each agent's scores by seed. Agents without any score get None and are ignored for the others. If
    the others have no seed in common, each mean is over all seeds of that agent.

    >>> mean_scores([{0: 0.5, 1: 0.7}, {1: 0.6}, {}])
    [0.7, 0.6, None]
    """
    with_scores = [scores.keys() for scores in by_seed if scores]
    common = set.intersection(*map(set, with_scores)) if with_scores else set()
    return [fmean([scores[seed] for seed in common or scores]) if scores else None for scores in by_seed]


MEASURES: tuple[Measure, ...] = ("any_medal", "percentile")
_WIDTH = 2 * NormalDist().inv_cdf((1 + statistics.LEVEL) / 2)
"""Width of a normal confidence interval, in standard deviations."""


@dataclass(frozen=True, kw_only=True)
class Precision:
    """The precision of an agent's mean on a split, for one measure, in points of a scale of 100 or their squares.

    ``seeds_needed`` is the number of seeds that detect a difference of ``DIFFERENCE`` points from a similar agent on
    these competitions with a power of ``POWER`` %. ``detectable`` is the minimum difference that the present seeds
    detect with that power. Both are None if the variance between seeds is unknown or zero.
    """

    measure: Measure
    mean: float
    interval: Interval | None
    competitions: int
    """Number of the split's competitions that have the measure."""
    variance: Variance
    with_rows: int
    """Scored runs with a known ``row_variance``. ``variance.rows`` applies their mean to all scored runs."""
    scored: int
    seeds_needed: int | None
    detectable: float | None
    power: float | None
    """Probability, in per cent, that the present seeds detect a difference of ``DIFFERENCE`` points."""
    influences: Mapping[str, float]
    """How far the mean moves if each competition is left out, largest move first."""


def precisions(summary: SplitSummary) -> list[Precision]:
    """Return a summary's precision for each known measure; empty if no seed is counted."""
    return [_precision(summary, measure) for measure in MEASURES if summary.values(measure)]


def _precision(summary: SplitSummary, measure: Measure) -> Precision:
    values = summary.values(measure)
    by_competition = list(values.values())
    keys = [(id, seed) for id in values for seed in summary.counted_seeds]
    runs = [summary.records[key] for key in keys if key in summary.records]
    scored = [run for run in runs if run.score is not None]
    rows = [value for value in (row_variance(run, measure) for run in scored) if value is not None]
    # A variance of 0 (all seeds agree) is not a usable estimate of the noise, so power is unknown.
    noise = statistics.seed_variance(by_competition) or None
    competitions, seeds = len(values), summary.seeds
    return Precision(
        measure=measure,
        mean=fmean(map(fmean, by_competition)),
        interval=summary.interval if measure == "any_medal" else summary.percentile_interval,
        competitions=competitions,
        variance=statistics.split_variance(by_competition, fmean(rows) * len(scored) / len(runs) if rows else None),
        with_rows=len(rows),
        scored=len(scored),
        seeds_needed=None if noise is None else statistics.seeds_needed(noise, competitions=competitions),
        detectable=None if noise is None else statistics.detectable(noise, competitions=competitions, seeds=seeds),
        power=None
        if noise is None
        else statistics.power(noise, competitions=competitions, seeds=seeds, difference=statistics.DIFFERENCE),
        influences=statistics.influences({id: fmean(results) for id, results in values.items()}),
    )


def row_variance(run: RunRecord, measure: Measure) -> float | None:
    """Estimate the variance of a run's result if the test rows were sampled again, from the score's interval.

    The score is assumed to be normal around the measured value, with the interval's width / 3.92 as standard deviation.
    If the probability of the medal is q, 100 · [medal] has variance 100² · q · (1 - q). For the percentile, the ends of
    the interval are looked up on the leaderboard. None if there is no valid interval, or no leaderboard is available.
    """
    report = run.report
    if report.score is None or report.score_low is None or report.score_high is None:
        return None
    width = report.score_high - report.score_low
    if not 0 <= width < math.inf:
        return None
    if measure == "percentile":
        if (board := _leaderboard(run)) is None:
            return None
        low, high = board.percentile(report.score_low), board.percentile(report.score_high)
        return None if low is None or high is None else ((high - low) / _WIDTH) ** 2
    if not width:
        return 0.0
    q = NormalDist(report.score, width / _WIDTH).cdf(report.bronze_threshold)
    return 100**2 * q * (1 - q)


def _leaderboard(run: RunRecord) -> Leaderboard | None:
    """The bundled competition's leaderboard, if the run was graded with it; twins and custom copies have their own."""
    catalogue = default_catalogue(version=run.report.bench_version)
    if run.competition_id not in catalogue:
        return None
    board = catalogue[run.competition_id].leaderboard
    same = all(getattr(board, name) == run.thresholds[name] for name in ("gold", "bronze", "median"))
    return board if same else None


@dataclass(frozen=True, kw_only=True)
class Overview:
    """Summaries and comparisons of run groups. ``categories`` is empty unless requested.

    ``records``, ``run_dirs`` and ``planned`` cover all groups; agents are named by their ``labels``.
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
    def run_dirs(self) -> Mapping[RunKey, Path]:
        """The run directory of each record."""
        dirs = (group.folder / record.run_id for group in self.groups for record in group.records)
        return {record.key: run_dir for record, run_dir in zip(self.records, dirs, strict=True)}

    @cached_property
    def planned(self) -> Mapping[RunKey, str]:
        """The split of every planned run of the groups."""
        names = labels(self.groups)
        return {
            key._replace(agent=names[group.folder, key.agent]): known[key.competition_id].split
            for group in self.groups
            for known in [splits_and_categories(group)]
            for key in group.planned
        }


def overview(groups: Sequence[RunGroup], *, pad_missing: bool = False, by_category: bool = False) -> Overview:
    """Summarise and compare run groups; raises UsageError if one is given twice."""
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
    """Model usage of an agent's runs on a split. Costs are in US dollars; ``cost`` is None if any is unknown."""

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
    """Total time spent waiting for models."""
    budgets_ended: int
    """Number of runs that used up their budget."""
    failures: Mapping[str, int]
    """Number of failed requests by HTTP status; ``none`` if there was no response."""

    @property
    def cost_per_run(self) -> float | None:
        return None if self.cost is None else self.cost / self.runs

    @property
    def cost_per_medal(self) -> float | None:
        return None if self.cost is None or not self.medals else self.cost / self.medals


def spending(records: Iterable[RunRecord]) -> list[Spending]:
    """Return the spending of runs that used the gateway, by agent and split."""
    return [spending_of(*found) for found in _by_agent_and_split(r for r in records if r.usage.calls is not None)]


def _by_agent_and_split(records: Iterable[RunRecord]) -> Iterator[tuple[str, str, list[RunRecord]]]:
    found: dict[tuple[str, str], list[RunRecord]] = {}
    for record in records:
        found.setdefault((record.agent, record.split), []).append(record)
    for agent, split in sorted(found, key=lambda key: (split_rank(key[1]), key[0])):
        yield agent, split, found[agent, split]


def spending_of(agent: str, split: str, records: Sequence[RunRecord]) -> Spending:
    """Return the spending of runs that used the gateway; ``records`` must not be empty."""
    usages = [record.usage for record in records]
    tokens: Counter[str] = sum((Counter(usage.tokens) for usage in usages), Counter())
    costs = [usage.cost if usage.calls else 0.0 for usage in usages]
    return Spending(
        agent=agent,
        split=split,
        runs=len(records),
        medals=sum(record.report.any_medal for record in records),
        calls=sum(usage.calls or 0 for usage in usages),
        input_tokens=tokens["input"],
        cached_tokens=tokens["cached"],
        output_tokens=tokens["output"],
        reasoning_tokens=tokens["reasoning"],
        cost=None if None in costs else sum(cost for cost in costs if cost is not None),
        known_cost=sum(usage.known_cost for usage in usages),
        seconds=sum(usage.seconds for usage in usages),
        budgets_ended=sum(usage.budget_ended is not None for usage in usages),
        failures=dict(sum((Counter(usage.errors) for usage in usages), Counter())),
    )


MAX_STEPS = 1000


@dataclass(frozen=True)
class RateStep:
    """From this amount (seconds or US dollars) on, the rate is ``rate`` per cent."""

    amount: float
    rate: float


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """An agent's runs on a split over time. Rates are percentages of runs with any medal.

    A run counts with its latest snapshot while it runs, and with its result afterwards. Runs with an ``error`` are
    left out.
    """

    agent: str
    split: str
    runs: int
    with_snapshots: int
    final: float
    best: float
    """The rate if each run had ended with its best recorded submission."""
    over_time: tuple[RateStep, ...]
    over_cost: tuple[RateStep, ...]
    """Covers only runs with a known cost."""
    priced: int
    """Number of runs with a known cost."""
    last_was_worse: int
    """Number of runs whose last submission was worse than an earlier one."""
    medals_lost: int
    """Number of runs whose last submission earned a worse medal than an earlier one."""
    estimates: int
    """Number of runs whose agent reported an expected score."""
    too_optimistic: int
    """Number of those that scored worse than expected."""


def timelines(records: Iterable[RunRecord]) -> list[Timeline]:
    """Return timelines by agent and split; runs with an ``error`` are left out."""
    return [_timeline(*found) for found in _by_agent_and_split(r for r in records if r.outcome is not Outcome.error)]


def rate_at(steps: Sequence[RateStep], amount: float) -> float:
    """Return the rate at this amount.

    >>> rate_at([RateStep(10, 50.0), RateStep(20, 25.0)], 15)
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
) -> tuple[RateStep, ...]:
    """The percentage of runs with a medal, at each amount where it changes."""
    changes: list[tuple[float, int]] = []
    for record in records:
        states = [(min(amount, end(record)), bool(p.medal)) for p in record.timeline if (amount := at(p)) is not None]
        had_medal = False
        for amount, medal in [*sorted(states, key=lambda state: state[0]), (end(record), record.report.any_medal)]:
            if medal != had_medal:
                changes.append((amount, 1 if medal else -1))
                had_medal = medal
    steps: list[RateStep] = []
    count = 0
    for amount, change in sorted(changes):
        count += change
        if steps and steps[-1].amount == amount:
            steps.pop()
        steps.append(RateStep(amount, 100 * count / len(records)))
    if len(steps) > MAX_STEPS:
        steps = [*steps[:: -(-len(steps) // MAX_STEPS)], steps[-1]]
    return tuple(steps)


def headlines(view: Overview) -> list[SplitSummary]:
    """Return each agent's summary of the whole benchmark, or of each split if there is none; best agent first."""
    with_all = {summary.label for summary in view.summaries if summary.is_whole}
    chosen = [summary for summary in view.summaries if summary.is_whole or summary.label not in with_all]
    best: dict[str, float] = {}
    for summary in chosen:
        mean = summary.any_medal.mean
        best[summary.label] = max(best.get(summary.label, -1.0), -1.0 if math.isnan(mean) else mean)
    return sorted(chosen, key=lambda summary: -best[summary.label])
