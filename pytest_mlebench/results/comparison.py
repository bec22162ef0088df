"""Comparisons: where an agent stands among the published results, and two agents competition by competition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import fmean

from pytest_mlebench.catalog.competition import FIRST, is_twin_label, split_and_version
from pytest_mlebench.defaults import TIME_LIMIT
from pytest_mlebench.io.units import format_duration, pluralize
from pytest_mlebench.records.group import RunGroup
from pytest_mlebench.records.report import TWIN_DATA
from pytest_mlebench.results.published import SPLITS, PublishedResult, published_results
from pytest_mlebench.results.statistics import PairedDifference, holm, paired_difference
from pytest_mlebench.results.summary import Measure, SplitSummary, split_rank

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
    ranked = [
        summary
        for summary in summaries
        if not summary.is_provisional and summary.covers_split and not summary.unverified
    ]
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
        caveats=(*_seed_caveats(summary), *_setting_caveats(summary, group)),
    )


def not_ranked(summaries: Sequence[SplitSummary]) -> list[str]:
    """Why an agent has no standing on a published split."""
    reasons = []
    whole = {s.label for s in summaries if s.split == "all" and s.covers_split and s.unverified}
    for summary in summaries:
        split, version = split_and_version(summary.split)
        if is_twin_label(summary.split):
            reasons.append(f"{summary.label} on {summary.split}: {TWIN_DATA}")
            continue
        if version != FIRST and split in SPLITS:
            reasons.append(f"{summary.label} on {summary.split}: the published results are of version 1")
            continue
        if summary.split not in SPLITS:
            continue
        if summary.unverified and summary.covers_split:
            if summary.split == "all" or summary.label not in whole:
                reasons.append(f"{summary.label} on {summary.split}: {_unverified(summary)}")
            continue
        if summary.split == "all":
            continue
        if summary.is_provisional:
            reasons.append(f"{summary.label} on {summary.split}: no seed is complete")
        elif not summary.covers_split:
            reasons.append(
                f"{summary.label} on {summary.split}: {pluralize(summary.competitions, 'competition')} "
                "and not all of the split"
            )
    return reasons


def _unverified(summary: SplitSummary) -> str:
    return (
        f"the data of {len(summary.unverified)} of {pluralize(summary.competitions, 'competition')} was not verified "
        "against the reference's checksums (it is synthetic, changed, or was never compared)"
    )


def _seed_caveats(summary: SplitSummary) -> list[str]:
    caveats = ["a single seed shows nothing of the spread"] if summary.seeds == 1 else []
    return [*caveats, summary.note] if summary.note else caveats


def _setting_caveats(summary: SplitSummary, group: RunGroup) -> list[str]:
    if group.manifest.canonical is not None:
        return list(group.manifest.canonical.differences)
    limits = {run.limits.get("time_limit") for run in group.records if run.agent == summary.agent}
    hours = [
        f"a time limit of {format_duration(limit)}, not of 24 hours"
        for limit in sorted(limit for limit in limits if limit is not None and limit != TIME_LIMIT)
    ]
    return [*hours, "the setting was not recorded, so other differences are unknown"]


def flags(result: PublishedResult) -> str:
    """How a published result's setting differs from the canonical one; empty if it does not."""
    words = [result.note] if result.note else []
    if result.hours != TIME_LIMIT / 3600:
        words.append("hours unknown" if result.hours is None else f"{result.hours:g} hours")
    if result.padded_incomplete_seeds:
        words.append("incomplete seeds padded")
    return ", ".join(words)


def compare(summaries: Sequence[SplitSummary]) -> list[SplitComparison]:
    """Every pair of agents on every split (or category) of which both have a result, in the order of the summaries.

    Only runs of the same competition and seed are compared.
    """
    labels = list(dict.fromkeys(summary.label for summary in summaries))
    splits = dict.fromkeys(sorted((summary.split for summary in summaries), key=split_rank))
    found: list[SplitComparison] = []
    for split in splits:
        own = {summary.label: summary for summary in summaries if summary.split == split}
        pairs = [
            pair
            for one, other in combinations([own[label] for label in labels if label in own], 2)
            if (pair := _compare(one, other)) is not None
        ]
        adjusted = holm([pair.difference.p_value for pair in pairs])
        found += [replace(pair, adjusted_p=p) for pair, p in zip(pairs, adjusted, strict=True)]
    return found


def _compare(ours: SplitSummary, theirs: SplitSummary) -> SplitComparison | None:
    difference = _paired(ours, theirs, "any_medal")
    if difference is None:
        return None
    return SplitComparison(
        split=ours.split,
        ours=ours,
        theirs=theirs,
        difference=difference,
        percentile=_paired(ours, theirs, "percentile"),
        adjusted_p=difference.p_value,
    )


def _paired(ours: SplitSummary, theirs: SplitSummary, measure: Measure) -> PairedDifference | None:
    """By the runs of the same competition and seed that have a result on both sides; None if there is none."""
    seeds = sorted({seed for one in (ours, theirs) for seed in (*one.counted_seeds, *(own for _, own in one.records))})
    pairs = []
    for id in sorted(set(ours.competition_ids) & set(theirs.competition_ids)):
        both = [(ours.value(measure, id, seed), theirs.value(measure, id, seed)) for seed in seeds]
        if known := [(one, other) for one, other in both if one is not None and other is not None]:
            pairs.append(known)
    return paired_difference(pairs) if pairs else None


def mean_scores(by_seed: Sequence[Mapping[int, float]]) -> list[float | None]:
    """Each agent's mean score on a competition over the seeds of which all of them have a score, by seed.

    An agent without a score has no mean and takes no seed from the others. Where these have no seed in common, each
    mean is over all of an agent's own.

    >>> mean_scores([{0: 0.5, 1: 0.7}, {1: 0.6}, {}])
    [0.7, 0.6, None]
    """
    with_scores = [own.keys() for own in by_seed if own]
    common = set.intersection(*map(set, with_scores)) if with_scores else set()
    return [fmean([own[seed] for seed in common or own]) if own else None for own in by_seed]
