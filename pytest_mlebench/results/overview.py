"""Run groups summed up and compared, over time and money too: everything that reports show.

Comparisons with the published results, and of two agents competition by competition; how sure they are.
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
from pytest_mlebench.results.summary import Measure, SplitSummary, by_split, labels, split_rank, summarise

SPLITS = ("low", "medium", "high", "all")


@dataclass(frozen=True, kw_only=True)
class PublishedResult:
    """One line of the published table: any-medal rates by split (low, medium, high, all)."""

    agent: str
    llm: str
    date: str
    hours: float | None = None
    rates: Mapping[str, Rate]
    padded_incomplete_seeds: bool = False
    comparable: bool = True
    """False where ``note`` says why the result does not compare, such as feedback from the test set."""
    note: str = ""


@cache
def published_results() -> tuple[PublishedResult, ...]:
    """All published results, the best first."""
    table = json.loads((bundled("reports") / "published.json").read_text(encoding="utf-8"))
    results = [
        PublishedResult(
            **{name: value for name, value in line.items() if name not in SPLITS},
            rates={split: Rate(*line[split]) for split in SPLITS if line.get(split)},
        )
        for line in table["results"]
    ]
    return tuple(sorted(results, key=lambda result: -result.rates["all"].mean))


SIGNIFICANT = 0.05


@dataclass(frozen=True, kw_only=True)
class Standing:
    """Where an agent stands among the comparable published results of a split, by its any-medal rate.

    Rank 1 is the best; equal rates share a rank. ``better`` and ``worse`` are all on either side, nearest first;
    those in ``worse`` have the same rate or less. ``caveats`` says why this run may not compare in full.
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
        """How many results there are, including this agent's."""
        return len(self.better) + len(self.worse) + 1


@dataclass(frozen=True, kw_only=True)
class SplitComparison:
    """Two agents on a split, paired by competition and seed; a difference is ours minus theirs."""

    split: str
    ours: SplitSummary
    theirs: SplitSummary
    difference: PairedDifference
    """Of the any-medal rates."""
    percentile: PairedDifference | None
    """Of the mean percentiles; None where these are not known of a common run."""
    adjusted_p: float
    """The p-value of ``difference`` by Holm's method, if there are more pairs of agents on the split."""

    @property
    def is_conclusive(self) -> bool:
        return self.adjusted_p < SIGNIFICANT


def standings(summaries: Sequence[SplitSummary], groups: Sequence[RunGroup]) -> list[Standing]:
    """Each agent's standing on the published splits that it ran in full; only on ``all`` if it ran that.

    Scores on data that is not known to be the reference's have none: they may be of synthetic data.
    """
    ranked = [own for own in summaries if own.covers_split and not own.is_provisional and not own.unverified]
    on_all = {summary.label for summary in ranked if summary.split == "all"}
    by_folder = {group.folder: group for group in groups}
    return [
        _standing(summary, by_folder[summary.folder])
        for summary in ranked
        if summary.split == "all" or summary.label not in on_all
    ]


def _standing(summary: SplitSummary, group: RunGroup) -> Standing:
    split = summary.split
    mean = round(summary.any_medal.mean, 2)  # as published rates are, so that equal counts of medals are equal
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
    """Why an agent has no standing on a published split."""
    whole = {s.label for s in summaries if s.split == "all" and s.covers_split and s.unverified}
    return [
        f"{summary.label} on {summary.split}: {reason}"
        for summary in summaries
        if (reason := _unranked(summary, is_on_all=summary.label in whole))
    ]


def _unranked(summary: SplitSummary, *, is_on_all: bool) -> str:
    """Why this has no standing; empty if it has one, or one on ``all``, or its split is not published."""
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
            "verified against the reference's checksums (it is synthetic, changed, or was never compared)"
        )
    if summary.split == "all":
        return ""
    if summary.is_provisional:
        return "no seed is complete"
    if not summary.covers_split:
        return f"{pluralize(summary.competitions, 'competition')} and not all of the split"
    return ""


def _caveats(summary: SplitSummary, group: RunGroup) -> Iterator[str]:
    if summary.seeds == 1:
        yield "a single seed shows nothing of the spread"
    if summary.note:
        yield summary.note
    if group.manifest.canonical is not None:
        yield from group.manifest.canonical.differences
        return
    limits = {run.limits.get("time_limit") for run in group.records if run.agent == summary.agent}
    for limit in sorted(limit for limit in limits if limit is not None and limit != TIME_LIMIT):
        yield f"a time limit of {format_duration(limit)}, not of 24 hours"
    yield "the setting was not recorded, so other differences are unknown"


def flags(result: PublishedResult) -> str:
    """How a published result's setting differs from the canonical one; empty if it does not."""
    words = [result.note] if result.note else []
    if result.hours != TIME_LIMIT / 3600:
        words.append("hours unknown" if result.hours is None else f"{result.hours:g} hours")
    if result.padded_incomplete_seeds:
        words.append("incomplete seeds padded")
    return ", ".join(words)


def compare(summaries: Sequence[SplitSummary]) -> list[SplitComparison]:
    """Every pair of agents on every split (or category) for which both have results, in the order of the summaries.

    Only runs of the same competition and seed are compared.
    """
    labels = list(dict.fromkeys(summary.label for summary in summaries))
    splits = dict.fromkeys(summary.split for summary in by_split(summaries))
    found: list[SplitComparison] = []
    for split in splits:
        own = {summary.label: summary for summary in summaries if summary.split == split}
        pairs = [
            (ours, theirs, difference)
            for ours, theirs in combinations([own[label] for label in labels if label in own], 2)
            if (difference := _paired(ours, theirs, "any_medal")) is not None
        ]
        adjusted = statistics.holm([difference.p_value for _, _, difference in pairs])
        found += [
            SplitComparison(
                split=split,
                ours=ours,
                theirs=theirs,
                difference=difference,
                percentile=_paired(ours, theirs, "percentile"),
                adjusted_p=p,
            )
            for (ours, theirs, difference), p in zip(pairs, adjusted, strict=True)
        ]
    return found


def _paired(ours: SplitSummary, theirs: SplitSummary, measure: Measure) -> PairedDifference | None:
    """By the runs of the same competition and seed that have a result on both sides; None if there is none."""
    seeds = sorted({seed for one in (ours, theirs) for seed in (*one.counted_seeds, *(own for _, own in one.records))})
    pairs = []
    for id in sorted(set(ours.competition_ids) & set(theirs.competition_ids)):
        both = [(ours.value(measure, id, seed), theirs.value(measure, id, seed)) for seed in seeds]
        if known := [(one, other) for one, other in both if one is not None and other is not None]:
            pairs.append(known)
    return statistics.paired_difference(pairs) if pairs else None


def mean_scores(by_seed: Sequence[Mapping[int, float]]) -> list[float | None]:
    """Each agent's mean score on a competition, over the seeds for which all agents have a score.

    ``by_seed`` has the scores of each agent by seed. An agent without a score has no mean and takes no seed from the
    others. Where these have no seed in common, each mean is over all of an agent's own.

    >>> mean_scores([{0: 0.5, 1: 0.7}, {1: 0.6}, {}])
    [0.7, 0.6, None]
    """
    with_scores = [own.keys() for own in by_seed if own]
    common = set.intersection(*map(set, with_scores)) if with_scores else set()
    return [fmean([own[seed] for seed in common or own]) if own else None for own in by_seed]


MEASURES: tuple[Measure, ...] = ("any_medal", "percentile")
_WIDTH = 2 * NormalDist().inv_cdf((1 + statistics.LEVEL) / 2)
"""Of a normal interval, in standard deviations."""


@dataclass(frozen=True, kw_only=True)
class Precision:
    """How sure an agent's mean on a split is, by one measure. All in points of a scale of 100, or their squares.

    ``seeds_needed`` would show a difference of ``DIFFERENCE`` points to a like agent on these competitions in
    ``POWER`` % of cases; ``detectable`` is the least difference that as many seeds as there are show so often. Both
    are None for a single seed, which does not show how much seeds differ.
    """

    measure: Measure
    mean: float
    interval: Interval | None
    competitions: int
    """So many of the split's competitions have the measure."""
    variance: Variance
    with_rows: int
    """Runs of which it is known how much the test's rows matter. ``variance.rows`` takes all with a score for alike."""
    scored: int
    seeds_needed: int | None
    detectable: float | None
    power: float | None
    """How likely as many seeds as there are would show ``DIFFERENCE`` points, in per cent."""
    influences: Mapping[str, float]
    """How far the mean would move without each competition, the farthest first."""


def precisions(summary: SplitSummary) -> list[Precision]:
    """How sure a summary is by each measure that is known; empty where no seed is counted."""
    return [_precision(summary, measure) for measure in MEASURES if summary.values(measure)]


def _precision(summary: SplitSummary, measure: Measure) -> Precision:
    values = summary.values(measure)
    by_competition = list(values.values())
    keys = [(id, seed) for id in values for seed in summary.counted_seeds]
    runs = [summary.records[key] for key in keys if key in summary.records]
    scored = [run for run in runs if run.score is not None]
    rows = [own for own in (row_variance(run, measure) for run in scored) if own is not None]
    # Seeds that all agree show nothing of the noise, which the power of a comparison depends on.
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
        influences=statistics.influences({id: fmean(own) for id, own in values.items()}),
    )


def row_variance(run: RunRecord, measure: Measure) -> float | None:
    """The variance of a run's result if the test's rows were drawn again, from the score's interval over resamples.

    The score is taken to be normal around what was measured, with the interval's width over 3.92 as its standard
    deviation: a medal is kept with the probability q, and 100 · [medal] has the variance 100² · q · (1 - q). For the
    percentile, the interval's ends are looked up on the leaderboard. None where there is no interval, or the
    leaderboard is not at hand.
    """
    report = run.report
    if report.score is None or report.score_low is None or report.score_high is None:
        return None
    if measure == "percentile":
        if (board := _leaderboard(run)) is None:
            return None
        low, high = board.percentile(report.score_low), board.percentile(report.score_high)
        return None if low is None or high is None else ((high - low) / _WIDTH) ** 2
    deviation = (report.score_high - report.score_low) / _WIDTH
    if not deviation:
        return 0.0
    kept = NormalDist(report.score, deviation).cdf(report.bronze_threshold)
    return 100**2 * kept * (1 - kept)


def _leaderboard(run: RunRecord) -> Leaderboard | None:
    """The bundled competition's leaderboard, if the run was graded with it: twins and other folders have their own."""
    catalogue = default_catalogue(version=run.report.bench_version)
    if run.competition_id not in catalogue:
        return None
    board = catalogue[run.competition_id].leaderboard
    same = all(getattr(board, name) == run.thresholds[name] for name in ("gold", "bronze", "median"))
    return board if same else None


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
    def run_dirs(self) -> Mapping[RunKey, Path]:
        """Where the run of each record left its files."""
        dirs = (group.folder / record.run_id for group in self.groups for record in group.records)
        return {record.key: run_dir for record, run_dir in zip(self.records, dirs, strict=True)}

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
    return [spending_of(*own) for own in _by_agent_and_split(r for r in records if r.usage.calls is not None)]


def _by_agent_and_split(records: Iterable[RunRecord]) -> Iterator[tuple[str, str, list[RunRecord]]]:
    found: dict[tuple[str, str], list[RunRecord]] = {}
    for record in records:
        found.setdefault((record.agent, record.split), []).append(record)
    for agent, split in sorted(found, key=lambda key: (split_rank(key[1]), key[0])):
        yield agent, split, found[agent, split]


def spending_of(agent: str, split: str, records: Sequence[RunRecord]) -> Spending:
    """Of runs that reached models by the gateway, at least one."""
    asked = [record.usage for record in records]
    tokens: Counter[str] = sum((Counter(usage.tokens) for usage in asked), Counter())
    costs = [usage.cost if usage.calls else 0.0 for usage in asked]
    return Spending(
        agent=agent,
        split=split,
        runs=len(records),
        medals=sum(record.report.any_medal for record in records),
        calls=sum(usage.calls or 0 for usage in asked),
        input_tokens=tokens["input"],
        cached_tokens=tokens["cached"],
        output_tokens=tokens["output"],
        reasoning_tokens=tokens["reasoning"],
        cost=None if None in costs else sum(cost for cost in costs if cost is not None),
        known_cost=sum(usage.known_cost for usage in asked),
        seconds=sum(usage.seconds for usage in asked),
        budgets_ended=sum(usage.budget_ended is not None for usage in asked),
        failures=dict(sum((Counter(usage.errors) for usage in asked), Counter())),
    )


MAX_STEPS = 1000


@dataclass(frozen=True)
class RateStep:
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
    over_time: tuple[RateStep, ...]
    over_cost: tuple[RateStep, ...]
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
    return [_timeline(*own) for own in _by_agent_and_split(r for r in records if r.outcome is not Outcome.error)]


def rate_at(steps: Sequence[RateStep], amount: float) -> float:
    """The rate when this much was spent.

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
    """The share of runs with a medal, from each amount on at which it changes."""
    changes: list[tuple[float, int]] = []
    for record in records:
        states = [(min(amount, end(record)), bool(p.medal)) for p in record.timeline if (amount := at(p)) is not None]
        had = False
        for amount, has in [*sorted(states, key=lambda state: state[0]), (end(record), record.report.any_medal)]:
            if has != had:
                changes.append((amount, 1 if has else -1))
                had = has
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
    """Each agent's summary of the whole benchmark, or else of each split; the best agent first."""
    whole = {summary.label for summary in view.summaries if summary.is_whole}
    chosen = [summary for summary in view.summaries if summary.is_whole or summary.label not in whole]
    best: dict[str, float] = {}
    for summary in chosen:
        mean = summary.any_medal.mean
        best[summary.label] = max(best.get(summary.label, -1.0), -1.0 if math.isnan(mean) else mean)
    return sorted(chosen, key=lambda summary: -best[summary.label])
