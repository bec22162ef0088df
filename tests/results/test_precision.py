"""The precision of an agent's results: percentiles, the variance from test rows, and its display in reports."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from pytest_mlebench.authoring.resampling import certainty, mean_of
from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.records.group import RunGroup
from pytest_mlebench.records.record import RunRecord
from pytest_mlebench.reports.tables import precision_sections
from pytest_mlebench.results.overview import overview, precisions, row_variance
from pytest_mlebench.results.summary import SplitSummary, summarise
from tests.groups import record_with, report_of

LOW = default_catalogue().split("low")
HIGHER = next(own for own in LOW if not own.leaderboard.lower_is_better)


def summary_of(*records: RunRecord) -> SplitSummary:
    (summary,) = summarise([RunGroup(folder=Path("g"), records=records)])
    return summary


def with_interval(score: float, low: float, high: float) -> RunRecord:
    """A run of the competition with this score and this interval over resampled test rows."""
    record = record_with(HIGHER, "gold")
    return replace(record, report=replace(report_of(HIGHER, score), score_low=low, score_high=high))


def test_the_percentile_of_a_failure_is_zero_and_a_mean_is_over_competitions() -> None:
    outcomes = [("gold", "crashed"), ("invalid_submission", "no_submission"), ("above_median", "gold")]
    records = [
        record_with(competition, outcome, seed=seed)
        for competition, own in zip(LOW, outcomes, strict=False)
        for seed, outcome in enumerate(own)
    ]
    known = [record.report.percentile or 0.0 for record in records]
    assert [own > 0 for own in known] == [True, False, False, False, True, True]
    summary = summary_of(*records)
    means = [sum(known[k : k + 2]) / 2 for k in (0, 2, 4)]
    assert list(summary.percentiles.values()) == pytest.approx(means)
    assert summary.percentile == pytest.approx(np.mean(means))
    interval = stats.t.interval(0.95, 2, np.mean(means), stats.sem(means))
    assert summary.percentile_interval is not None
    assert summary.percentile_interval.low == pytest.approx(max(0.0, interval[0]))
    assert summary.percentile_interval.high == pytest.approx(min(100.0, interval[1]))


@pytest.mark.parametrize("unknown", [None, math.nan, math.inf, 1e308])
def test_a_competition_without_percentiles_is_excluded_and_the_table_notes_it(unknown: float | None) -> None:
    records = [record_with(competition, "gold") for competition in LOW[:3]]
    lacking = replace(records[0], report=replace(records[0].report, percentile=unknown))
    summary = summary_of(lacking, *records[1:])
    assert set(summary.percentiles) == {record.competition_id for record in records[1:]}
    assert summary_of(lacking).percentile is None
    assert [own.competitions for own in precisions(summary)] == [3, 2]


@pytest.mark.parametrize(("score", "kept"), [(0.0, 0.5), (1.0, None), (-3.0, None)])
def test_the_choice_of_test_rows_matters_only_near_the_threshold(score: float, kept: float | None) -> None:
    # ``score`` is in standard deviations from the bronze threshold.
    board, deviation = HIGHER.leaderboard, 0.01
    at = board.bronze + score * deviation
    width = stats.norm.ppf(0.975) * deviation
    q = stats.norm.cdf(score) if kept is None else kept
    run = with_interval(at, at - width, at + width)
    assert row_variance(run, "any_medal") == pytest.approx(100**2 * q * (1 - q))
    ends = [board.percentile(end) for end in (at - width, at + width)]
    assert ends[0] is not None and ends[1] is not None
    assert row_variance(run, "percentile") == pytest.approx(((ends[1] - ends[0]) / 2 / stats.norm.ppf(0.975)) ** 2)


def test_without_an_interval_there_is_no_row_variance() -> None:
    run = record_with(HIGHER, "gold")
    assert row_variance(run, "any_medal") is None and row_variance(run, "percentile") is None
    other = with_interval(0.9, 0.8, 1.0)
    moved = replace(other, report=replace(other.report, bronze_threshold=0.123))
    assert row_variance(moved, "percentile") is None, "the leaderboard is not the bundled one"
    assert row_variance(with_interval(0.9, 0.9, 0.9), "any_medal") == 0
    for low, high in ((1.0, 0.8), (0.8, math.inf), (math.inf, math.inf), (0.8, math.nan)):
        run = with_interval(0.9, low, high)
        assert row_variance(run, "any_medal") is None and row_variance(run, "percentile") is None


def test_the_row_variance_matches_that_over_other_test_sets() -> None:
    """Compared with the truth: 400 predictors of any accuracy, each on one test of 500 rows; bronze is 80 % right."""
    rng = np.random.default_rng(0)
    found, truth = [], []
    for accuracy in rng.uniform(0.7, 0.9, 400):
        right = rng.random(500) < accuracy
        known = certainty(mean_of(right.astype(float)), None)
        assert known is not None
        run = with_interval(float(right.mean()), known.low, known.high)
        own = row_variance(replace(run, report=replace(run.report, bronze_threshold=0.8)), "any_medal")
        assert own is not None
        found.append(own)
        earned = stats.binom.sf(399, 500, accuracy)
        truth.append(100**2 * earned * (1 - earned))
    assert np.mean(found) == pytest.approx(np.mean(truth), rel=0.1)


def test_a_report_separates_the_variance_of_seeds_and_competitions() -> None:
    always = [record_with(c, "gold", seed=seed) for c in LOW[:6] for seed in range(2)]
    never = [record_with(c, "no_medal", seed=seed) for c in LOW[6:12] for seed in range(2)]
    by_competition, _ = precisions(summary_of(*always, *never))
    assert by_competition.variance.shares == {"competitions": 100.0, "seeds": 0.0}
    assert by_competition.seeds_needed is None and by_competition.power is None  # equal seeds show no noise
    mixed = [record_with(c, "gold" if seed else "no_medal", seed=seed) for c in LOW[:12] for seed in range(2)]
    by_seed, _ = precisions(summary_of(*mixed))
    assert by_seed.variance.shares == {"competitions": 0.0, "seeds": 100.0}
    assert by_seed.seeds_needed is not None and by_seed.seeds_needed > 100
    assert by_seed.detectable is not None and by_seed.detectable > 50


def test_the_most_influential_competition_is_named() -> None:
    records = [record_with(c, "gold" if k == 2 else "no_medal") for k, c in enumerate(LOW[:5])]
    any_medal, _ = precisions(summary_of(*records))
    first, moved = next(iter(any_medal.influences.items()))
    assert first == LOW[2].id and moved == pytest.approx(-20)
    assert (any_medal.seeds_needed, any_medal.detectable, any_medal.power) == (None, None, None)
    view = overview([RunGroup(folder=Path("g"), records=tuple(records))])
    (brief,) = (section.text() for section in precision_sections(view))
    assert f"agent on low: any medal 20.0, 0.0 without {LOW[2].id}" in " ".join(brief.split())
    (full,) = (section.text() for section in precision_sections(view, details=True))
    assert full.count(" without ") > brief.count(" without ")


def test_without_a_complete_seed_there_is_no_precision() -> None:
    begun = summary_of(record_with(LOW[0], "gold"), record_with(LOW[1], "error"))
    assert begun.is_provisional and precisions(begun) == [] and begun.percentile is None
