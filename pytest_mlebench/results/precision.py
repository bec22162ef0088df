"""How sure a result is: its variance by cause, the seeds that a difference takes, and each competition's weight."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist, fmean

from pytest_mlebench.catalog.catalogue import default_catalogue
from pytest_mlebench.catalog.leaderboard import Leaderboard
from pytest_mlebench.records.record import RunRecord
from pytest_mlebench.results.statistics import (
    DIFFERENCE,
    LEVEL,
    Interval,
    Variance,
    detectable,
    influences,
    power,
    seed_variance,
    seeds_needed,
    split_variance,
)
from pytest_mlebench.results.summary import Measure, SplitSummary

MEASURES: tuple[Measure, ...] = ("any_medal", "percentile")
_WIDTH = 2 * NormalDist().inv_cdf((1 + LEVEL) / 2)
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
    noise, competitions, seeds = seed_variance(by_competition) or None, len(values), summary.seeds
    return Precision(
        measure=measure,
        mean=fmean(map(fmean, by_competition)),
        interval=summary.interval if measure == "any_medal" else summary.percentile_interval,
        competitions=competitions,
        variance=split_variance(by_competition, fmean(rows) * len(scored) / len(runs) if rows else None),
        with_rows=len(rows),
        scored=len(scored),
        seeds_needed=None if noise is None else seeds_needed(noise, competitions=competitions),
        detectable=None if noise is None else detectable(noise, competitions=competitions, seeds=seeds),
        power=None if noise is None else power(noise, competitions=competitions, seeds=seeds, difference=DIFFERENCE),
        influences=influences({id: fmean(own) for id, own in values.items()}),
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
        board = _leaderboard(run)
        ends = [] if board is None else [board.percentile(end) for end in (report.score_low, report.score_high)]
        low, high = ends or (None, None)
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
    same = (board.gold, board.bronze, board.median) == (
        run.report.gold_threshold,
        run.report.bronze_threshold,
        run.report.median_threshold,
    )
    return board if same else None
