"""Statistics against examples worked by hand, against scipy, and against counting all cases."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import astuple
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pytest_mlebench.results.statistics import bootstrap_interval, paired_difference, pass_at_k, rate, sign_test

rates = st.sampled_from([0, 100 / 3, 200 / 3, 100])


def test_a_rate_is_the_mean_over_seeds_and_its_standard_error() -> None:
    # Shares of 50, 100 and 0 per cent: mean 50, sample deviation 50, standard error 50 / √3.
    result = rate([[True, False], [True, True], [False, False]])
    assert result.mean == 50
    assert result.standard_error == pytest.approx(50 / math.sqrt(3))
    assert str(result) == "50.0 % ± 28.9"


def test_a_single_seed_has_no_standard_error_and_no_run_has_no_rate() -> None:
    assert str(rate([[True, False, False]])) == "33.3 %"
    assert math.isnan(rate([]).mean) and str(rate([[]])) == "-"


@given(st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=2, max_size=6))
def test_standard_errors_are_those_of_scipy(seeds: list[list[bool]]) -> None:
    shares = [100 * sum(seed) / 3 for seed in seeds]
    result = rate(seeds)
    assert result.mean == pytest.approx(np.mean(shares))
    assert result.standard_error == pytest.approx(stats.sem(shares))


def test_pass_at_k_of_a_hand_worked_example() -> None:
    # Of 4 runs 0, 1 and 3 succeeded. Of the 6 pairs, 6, 3 and 0 hold no success: 1 - (6 + 3 + 0) / 18 = 1/2.
    assert pass_at_k([0, 1, 3], runs=4, k=2) == pytest.approx(50)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=8), st.integers(1, 5))
def test_pass_at_k_is_the_share_of_all_draws_that_hold_a_success(successes: list[int], k: int) -> None:
    draws = [any(draw) for c in successes for draw in combinations([True] * c + [False] * (5 - c), k)]
    assert pass_at_k(successes, runs=5, k=k) == pytest.approx(100 * np.mean(draws))


@pytest.mark.parametrize("k", [0, 4])
def test_pass_at_k_needs_as_many_runs(k: int) -> None:
    with pytest.raises(ValueError, match=f"pass@{k} cannot be estimated from 3 runs"):
        pass_at_k([1], runs=3, k=k)


def test_the_bootstrap_of_yes_and_no_is_binomial() -> None:
    # 40 draws, each 0 or 100 with the same chance: the mean's quantiles are those of 40 tosses of a coin.
    expected = 100 * stats.binom.ppf([0.025, 0.975], 40, 0.5) / 40
    found = bootstrap_interval([0, 100] * 20)
    assert found is not None
    assert astuple(found) == pytest.approx(tuple(expected))


@pytest.mark.parametrize("size", [7, 22, 75])
def test_bootstrap_intervals_are_those_of_scipy(size: int) -> None:
    values = np.random.default_rng(size).choice([0, 100 / 3, 200 / 3, 100], size)
    scipys = stats.bootstrap([values], np.mean, method="percentile", n_resamples=20_000, rng=1).confidence_interval
    interval = bootstrap_interval(values.tolist())
    step = 100 / 3 / size  # the means lie on a grid, and both intervals end on it, give or take chance
    assert interval is not None
    assert interval.low == pytest.approx(scipys.low, abs=step + 1e-9)
    assert interval.high == pytest.approx(scipys.high, abs=step + 1e-9)


@given(st.lists(rates, min_size=2, max_size=30), st.randoms())
def test_bootstrap_intervals_depend_on_the_values_alone_and_stay_among_them(
    values: list[float], random: object
) -> None:
    interval = bootstrap_interval(values)
    shuffled = values.copy()
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert bootstrap_interval(shuffled) == interval
    if interval is not None:
        assert min(values) - 1e-9 <= interval.low <= interval.high <= max(values) + 1e-9


@pytest.mark.parametrize("values", [[], [50.0], [0.0, 0.0, 0.0]])
def test_there_is_no_interval_where_resampling_shows_nothing(values: list[float]) -> None:
    assert bootstrap_interval(values) is None


@given(st.integers(0, 60), st.integers(0, 60))
def test_the_sign_test_is_scipys_binomial_test(wins: int, losses: int) -> None:
    expected = stats.binomtest(wins, wins + losses).pvalue if wins + losses else 1.0
    assert sign_test(wins, losses) == pytest.approx(expected)


def test_a_paired_difference_of_a_hand_worked_example() -> None:
    difference = paired_difference([100, 100, 50, 0, 0], [0, 50, 50, 0, 50])
    assert difference.mean == pytest.approx(20)  # (100 + 50 + 0 + 0 - 50) / 5
    assert (difference.wins, difference.ties, difference.losses) == (2, 2, 1)
    assert difference.p_value == pytest.approx(1)
    assert difference.interval == bootstrap_interval([100, 50, 0, 0, -50])


@given(st.lists(st.tuples(rates, rates), min_size=1, max_size=20))
def test_a_paired_difference_turns_with_its_sides(pairs: list[tuple[float, float]]) -> None:
    ours, theirs = zip(*pairs, strict=True)
    one, other = paired_difference(ours, theirs), paired_difference(theirs, ours)
    assert one.mean == pytest.approx(-other.mean) == pytest.approx(np.mean(ours) - np.mean(theirs))
    assert (one.wins, one.losses, one.p_value) == (other.losses, other.wins, other.p_value)
    assert one.wins + one.ties + one.losses == one.pairs == len(pairs)


def test_sides_of_different_length_cannot_be_paired() -> None:
    with pytest.raises(ValueError):
        paired_difference([1, 2], [1])
    with pytest.raises(ValueError, match="no pair"):
        paired_difference([], [])


def test_summaries_and_the_command_line_are_had_without_numpy() -> None:
    program = (
        "import sys, pytest_mlebench.cli.main, pytest_mlebench.results.comparison\n"
        "from pytest_mlebench.results.statistics import rate\n"
        "rate([[True], [False]])\n"
        "print(sorted({'numpy', 'pandas', 'scipy', 'docker', 'kaggle'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
