"""Intervals have their nominal coverage and power is correct, on simulated agents with known true rates."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from pytest_mlebench.results.statistics import (
    LEVEL,
    Interval,
    mean_interval,
    paired_difference,
    power,
    seeds_needed,
    share_interval,
    split_variance,
)

SIMULATIONS = 2000
NOMINAL, WITHIN = 100 * LEVEL, 2.0
Floats = NDArray[np.float64]

pytestmark = pytest.mark.full


def rates_of(rng: np.random.Generator, competitions: int, mean: float, spread: float = 0.6) -> Floats:
    """Probability of a medal on each competition: mostly near 0 or 1, as for real agents."""
    return rng.beta(mean * spread, (1 - mean) * spread, (SIMULATIONS, competitions))


def percentiles_of(rng: np.random.Generator, skill: Floats, seeds: int) -> Floats:
    """Percentiles of an agent with these means per competition on the logit scale. Seeds vary, and some fail."""
    logit = skill[..., None] + rng.normal(0, 0.8, (*skill.shape, seeds))
    failed = rng.random(logit.shape) < 0.07
    return np.where(failed, 0.0, 100 / (1 + np.exp(-logit)))


def covered(intervals: Iterable[Interval | None], truth: Floats | float) -> float:
    """Percentage of intervals that contain the truth; a missing interval does not."""
    truths = np.broadcast_to(truth, SIMULATIONS)
    hits = [own is not None and own.low <= true <= own.high for own, true in zip(intervals, truths, strict=True)]
    return float(100 * np.mean(hits))


@pytest.mark.parametrize(
    ("competitions", "seeds", "mean"), [(22, 3, 0.3), (38, 3, 0.2), (75, 1, 0.3), (75, 3, 0.17), (75, 3, 0.6)]
)
def test_intervals_of_medal_rates_cover_the_rate_over_all_competitions(
    competitions: int, seeds: int, mean: float
) -> None:
    rng = np.random.default_rng(competitions * seeds)
    found = 100 * rng.binomial(seeds, rates_of(rng, competitions, mean)) / seeds
    share = covered(map(share_interval, found.tolist()), 100 * mean)
    assert share == pytest.approx(NOMINAL, abs=WITHIN)


@pytest.mark.parametrize("competitions", [3, 7])
def test_intervals_of_few_competitions_are_too_wide_rather_than_too_narrow(competitions: int) -> None:
    rng = np.random.default_rng(competitions)
    found = 100 * rng.binomial(2, rates_of(rng, competitions, 0.3)) / 2
    assert covered(map(share_interval, found.tolist()), 30.0) >= NOMINAL - WITHIN


@pytest.mark.parametrize(("competitions", "seeds"), [(10, 3), (22, 1), (22, 3), (75, 3)])
def test_intervals_of_percentiles_cover_the_mean_over_all_competitions(competitions: int, seeds: int) -> None:
    rng = np.random.default_rng(competitions + seeds)
    truth = float(percentiles_of(rng, rng.normal(0.5, 1.2, 400_000), 1).mean())
    skill = rng.normal(0.5, 1.2, (SIMULATIONS, competitions))
    found = percentiles_of(rng, skill, seeds).mean(axis=2)
    assert covered(map(mean_interval, found.tolist()), truth) == pytest.approx(NOMINAL, abs=WITHIN)


def pairs_of(ours: Floats, theirs: Floats) -> list[list[tuple[float, float]]]:
    return [list(zip(one, other, strict=True)) for one, other in zip(ours.tolist(), theirs.tolist(), strict=True)]


@pytest.mark.parametrize(("competitions", "seeds"), [(22, 3), (75, 2)])
def test_intervals_of_differences_cover_both_truths(competitions: int, seeds: int) -> None:
    """Over competitions: the mean over all possible ones. Over seeds: the mean over the ones that were run."""
    rng = np.random.default_rng(competitions)
    rates = rates_of(rng, competitions, 0.3, spread=1.5)
    better = np.clip(rates + rng.normal(0.1, 0.15, rates.shape), 0, 1)
    ours, theirs = (100.0 * (rng.random((*p.shape, seeds)) < p[..., None]) for p in (better, rates))
    found = [paired_difference(pairs_of(one, other)) for one, other in zip(ours, theirs, strict=True)]
    gains = 100 * (better - rates)
    assert covered((own.interval for own in found), float(gains.mean())) == pytest.approx(NOMINAL, abs=WITHIN)
    assert covered((own.seeds_interval for own in found), gains.mean(axis=1)) == pytest.approx(NOMINAL, abs=WITHIN)


def shown(p: Sequence[float] | Floats, difference: float, *, seeds: int, seed: int) -> float:
    """Percentage of simulations in which scipy's t test over seeds detects the difference in medal rates."""
    rng, ours = np.random.default_rng(seed), np.asarray(p)
    shape = (SIMULATIONS, len(ours), seeds)
    won = 100.0 * (rng.random(shape) < (ours + difference / 100)[:, None]) - 100.0 * (rng.random(shape) < ours[:, None])
    noise = won.var(axis=2, ddof=1).mean(axis=1)
    statistic = won.mean(axis=(1, 2)) / np.sqrt(noise / (len(ours) * seeds))
    return float(100 * np.mean(2 * stats.t.sf(abs(statistic), len(ours) * (seeds - 1)) < 1 - LEVEL))


@pytest.mark.parametrize(("competitions", "seeds", "difference"), [(22, 3, 20), (22, 5, 10), (75, 3, 5), (75, 6, 7)])
def test_power_is_the_frequency_of_detecting_the_difference(competitions: int, seeds: int, difference: float) -> None:
    p = np.random.default_rng(1).beta(0.8, 1.2, competitions) * (1 - difference / 100)
    noise = float(100**2 * (p * (1 - p) + (p + difference / 100) * (1 - p - difference / 100)).mean() / 2)
    expected = power(noise, competitions=competitions, seeds=seeds, difference=difference)
    assert shown(p, difference, seeds=seeds, seed=2) == pytest.approx(expected, abs=5)


@pytest.mark.parametrize("competitions", [22, 75])
def test_the_needed_seeds_detect_five_points_four_times_in_five(competitions: int) -> None:
    p = np.random.default_rng(3).beta(0.8, 1.2, competitions) * 0.95
    noise = float(100**2 * (p * (1 - p)).mean())
    seeds = seeds_needed(noise, competitions=competitions)
    assert 5 < seeds < 100
    assert shown(p, 5, seeds=seeds, seed=4) == pytest.approx(80, abs=5)


def test_variances_match_the_simulated_ones() -> None:
    """Variances of competitions, seeds, and test rows (shared by a competition's seeds), as means over 2,000 splits."""
    rng = np.random.default_rng(5)
    truth = np.array([400.0, 100.0, 50.0])
    shapes = ((22, 1), (22, 3), (22, 1))
    by_competition, by_seed, by_rows = (
        rng.normal(0, math.sqrt(own), (SIMULATIONS, *shape)) for own, shape in zip(truth, shapes, strict=True)
    )
    tables = by_competition + by_seed + by_rows
    found = [split_variance(table, rows=50.0) for table in tables.tolist()]
    means = [np.mean([getattr(own, name) for own in found]) for name in ("competitions", "seeds", "rows")]
    assert means == pytest.approx(truth, rel=0.03)
