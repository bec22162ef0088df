"""Statistics compared with hand calculations, with scipy, and with enumeration of all cases."""

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

from pytest_mlebench.results.statistics import (
    detectable,
    holm,
    influences,
    mean_interval,
    paired_difference,
    pass_at_k,
    power,
    rate,
    seed_variance,
    seeds_needed,
    share_interval,
    sign_test,
    split_variance,
)

rates = st.sampled_from([0, 100 / 3, 200 / 3, 100])


def test_a_rate_is_the_mean_over_seeds_and_its_standard_error() -> None:
    # Shares of 50, 100 and 0 %: mean 50, sample deviation 50, standard error 50 / √3.
    result = rate([[True, False], [True, True], [False, False]])
    assert result.mean == 50
    assert result.standard_error == pytest.approx(50 / math.sqrt(3))
    assert str(result) == "50.0 % ± 28.9"


def test_a_single_seed_has_no_standard_error_and_no_run_has_no_rate() -> None:
    assert str(rate([[True, False, False]])) == "33.3 %"
    assert math.isnan(rate([]).mean) and str(rate([[]])) == "-"


@given(st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=2, max_size=6))
def test_standard_errors_match_scipy(seeds: list[list[bool]]) -> None:
    shares = [100 * sum(seed) / 3 for seed in seeds]
    result = rate(seeds)
    assert result.mean == pytest.approx(np.mean(shares))
    assert result.standard_error == pytest.approx(stats.sem(shares))


def test_pass_at_k_of_a_hand_worked_example() -> None:
    # Of 4 runs, 0, 1 and 3 succeeded. Of the 6 pairs, 6, 3 and 0 contain no success: 1 - (6 + 3 + 0) / 18 = 1/2.
    assert pass_at_k([0, 1, 3], runs=4, k=2) == pytest.approx(50)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=8), st.integers(1, 5))
def test_pass_at_k_is_the_share_of_all_draws_with_a_success(successes: list[int], k: int) -> None:
    draws = [any(draw) for c in successes for draw in combinations([True] * c + [False] * (5 - c), k)]
    assert pass_at_k(successes, runs=5, k=k) == pytest.approx(100 * np.mean(draws))


@pytest.mark.parametrize("k", [0, 4])
def test_pass_at_k_needs_at_least_k_runs(k: int) -> None:
    with pytest.raises(ValueError, match=f"pass@{k} cannot be estimated from 3 runs"):
        pass_at_k([1], runs=3, k=k)


@given(st.lists(st.integers(0, 1000).map(lambda tenths: tenths / 10), min_size=2, max_size=30))
def test_the_interval_of_a_mean_matches_scipy(values: list[float]) -> None:
    found = mean_interval(values)
    error = stats.sem(values)
    if found is None:
        assert len(set(values)) == 1
    else:
        assert astuple(found) == pytest.approx(
            stats.t.interval(0.95, len(values) - 1, np.mean(values), error), abs=1e-6
        )


def test_an_interval_is_clipped_to_the_range_of_values() -> None:
    found = mean_interval([90, 95, 100], low=0, high=100)
    assert (
        found is not None and found.high == 100 and found.low == pytest.approx(95 - 4.3027 * 5 / math.sqrt(3), abs=1e-3)
    )


@pytest.mark.parametrize("values", [[], [50.0], [7.0, 7.0, 7.0]])
def test_the_mean_of_equal_values_has_no_interval(values: list[float]) -> None:
    assert mean_interval(values) is None


@given(st.lists(st.sampled_from([0.0, 100.0]), min_size=1, max_size=80))
def test_the_interval_of_single_seeds_matches_scipys_wilson_interval(values: list[float]) -> None:
    # With rates of 0 and 100, the effective number is at least n - 1; the code uses at least n.
    expected = stats.binomtest(int(sum(values)) // 100, len(values)).proportion_ci(method="wilson")
    found = share_interval(values)
    assert found is not None
    assert astuple(found) == pytest.approx((100 * expected.low, 100 * expected.high), abs=1e-9)


def test_seeds_that_agree_less_give_a_narrower_interval_of_a_rate() -> None:
    # If half of each competition's seeds succeed, the mean is known better than if one seed succeeds on half of them.
    assert share_interval([50.0] * 10 + [25.0, 75.0] * 5) != share_interval([0.0, 100.0] * 10)
    few, many = share_interval([25.0, 75.0] * 10), share_interval([0.0, 100.0] * 10)
    assert few is not None and many is not None and few.high - few.low < many.high - many.low
    assert share_interval([]) is None


@given(st.integers(0, 60), st.integers(0, 60))
def test_the_sign_test_matches_scipys_binomial_test(wins: int, losses: int) -> None:
    expected = stats.binomtest(wins, wins + losses).pvalue if wins + losses else 1.0
    assert sign_test(wins, losses) == pytest.approx(expected)


def test_the_intervals_of_a_difference_stay_within_the_possible_range() -> None:
    found = paired_difference([[(100, 0), (100, 0)], [(100, 0), (100, 100)], [(0, 0), (0, 100)]])
    assert found.interval is not None and found.seeds_interval is not None
    assert (found.interval.low, found.seeds_interval.high) == (-100, 100)


def test_a_paired_difference_of_a_hand_worked_example() -> None:
    difference = paired_difference([[(100, 0)], [(100, 50)], [(50, 50)], [(0, 0)], [(0, 50)]])
    assert difference.mean == pytest.approx(20)  # (100 + 50 + 0 + 0 - 50) / 5
    assert (difference.wins, difference.ties, difference.losses) == (2, 2, 1)
    assert difference.p_value == pytest.approx(1)
    assert difference.interval == mean_interval([100, 50, 0, 0, -50])
    assert difference.seeds_interval is None


def test_the_interval_over_seeds_matches_a_linear_model() -> None:
    # Fit a mean difference for each competition by least squares; then take the mean of these and its error.
    pairs = [[(60, 50), (70, 40)], [(30, 40), (50, 50), (20, 10)]]
    by_run = np.array([10, 30, -10, 0, 10])
    design = np.array([[1, 0], [1, 0], [0, 1], [0, 1], [0, 1]])
    means, residual, *_ = np.linalg.lstsq(design, by_run, rcond=None)
    weights = np.array([0.5, 0.5])
    error = math.sqrt(residual[0] / 3 * weights @ np.linalg.inv(design.T @ design) @ weights)
    found = paired_difference(pairs)
    assert found.seeds_interval is not None and found.runs == 5
    expected = stats.t.interval(0.95, 3, weights @ means, error)
    assert astuple(found.seeds_interval) == pytest.approx(expected)


@given(st.lists(st.tuples(rates, rates), min_size=1, max_size=20))
def test_a_paired_difference_is_antisymmetric(pairs: list[tuple[float, float]]) -> None:
    one, other = (paired_difference([[own] for own in side]) for side in (pairs, [pair[::-1] for pair in pairs]))
    ours, theirs = zip(*pairs, strict=True)
    assert one.mean == pytest.approx(-other.mean) == pytest.approx(np.mean(ours) - np.mean(theirs))
    assert (one.wins, one.losses, one.p_value) == (other.losses, other.wins, other.p_value)
    assert one.wins + one.ties + one.losses == one.competitions == len(pairs)


def test_comparing_no_pairs_is_an_error() -> None:
    empty: list[list[tuple[float, float]]] = [[]]
    for nothing in ([], empty):
        with pytest.raises(ValueError, match="no pair"):
            paired_difference(nothing)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_adjusted_p_values_follow_holms_definition(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    for level in (0.01, 0.05, 0.2):
        rejected = 0  # step down: the smallest p against level / m, the next against level / (m - 1), …
        for rank, p in enumerate(sorted(p_values)):
            if p * (len(p_values) - rank) > level:
                break
            rejected += 1
        assert sum(p <= level for p in adjusted) == rejected


@given(st.lists(st.lists(st.integers(0, 100).map(float), min_size=3, max_size=3), min_size=2, max_size=8))
def test_variances_match_scipys_analysis_of_variance(table: list[list[float]]) -> None:
    found = split_variance(table, rows=None)
    within = np.var(table, axis=1, ddof=1).mean()
    between = 3 * np.var(np.mean(table, axis=1), ddof=1)
    assert found.seeds == pytest.approx(within)
    assert found.competitions == pytest.approx(max(0.0, (between - within) / 3), abs=1e-6)
    if within > 1:
        assert between / within == pytest.approx(stats.f_oneway(*table).statistic)


def test_the_row_variance_is_subtracted_from_that_of_competitions() -> None:
    table = [[10.0, 30.0], [50.0, 70.0], [90.0, 70.0]]
    without, with_rows = split_variance(table, None), split_variance(table, 100.0)
    assert without.competitions is not None and with_rows.competitions == pytest.approx(without.competitions - 100)
    assert (with_rows.seeds, with_rows.rows) == (without.seeds, 100)
    assert sum(with_rows.shares.values()) == pytest.approx(100)


def test_a_single_seed_cannot_separate_seeds_from_competitions() -> None:
    found = split_variance([[10.0], [50.0]], 5.0)
    assert (found.competitions, found.seeds, found.rows) == (None, None, 5.0) and found.shares == {}
    assert seed_variance([[10.0], [50.0]]) is None


@pytest.mark.parametrize(("competitions", "seeds"), [(1, 2), (3, 3), (22, 3), (75, 16), (75, 40)])
@pytest.mark.parametrize("difference", [0.0, 5.0, 20.0])
def test_power_matches_scipys_noncentral_t(competitions: int, seeds: int, difference: float) -> None:
    freedom = competitions * (seeds - 1)
    shift, bound = difference / math.sqrt(2 * 900 / competitions / seeds), stats.t.ppf(0.975, freedom)
    expected = 100 * float(stats.nct.sf(bound, freedom, shift) + stats.nct.cdf(-bound, freedom, shift))
    if math.isnan(expected):  # beyond scipy's numerical limits, where power is 100
        assert shift > 20
        expected = 100
    assert power(900, competitions=competitions, seeds=seeds, difference=difference) == pytest.approx(expected, abs=0.2)


@given(st.floats(0.01, 2500), st.integers(1, 75))
def test_one_seed_fewer_than_needed_has_too_little_power(noise: float, competitions: int) -> None:
    seeds = seeds_needed(noise, competitions=competitions)
    assert power(noise, competitions=competitions, seeds=seeds, difference=5) >= 80
    assert seeds == 2 or power(noise, competitions=competitions, seeds=seeds - 1, difference=5) < 80
    least = detectable(noise, competitions=competitions, seeds=seeds)
    assert least <= 5 and power(noise, competitions=competitions, seeds=seeds, difference=least) >= 80


def test_without_noise_two_seeds_detect_everything_and_one_nothing() -> None:
    assert seeds_needed(0, competitions=3) == 2 and power(0, competitions=3, seeds=2, difference=5) == 100
    with pytest.raises(ValueError, match="single seed"):
        power(1, competitions=3, seeds=1, difference=5)


@given(st.dictionaries(st.text(max_size=3), st.integers(0, 100).map(float), min_size=2, max_size=9))
def test_influences_are_leave_one_out_means(values: dict[str, float]) -> None:
    found = influences(values)
    for id, moved in found.items():
        others = [value for other, value in values.items() if other != id]
        assert np.mean(others) - np.mean(list(values.values())) == pytest.approx(moved, abs=1e-9)
    sizes = [abs(moved) for moved in found.values()]
    assert sizes == sorted(sizes, reverse=True) and not influences({"a": 1.0})


def test_summaries_and_the_command_line_work_without_numpy() -> None:
    program = (
        "import sys, pytest_mlebench.cli.main, pytest_mlebench.results.overview\n"
        "from pytest_mlebench.results.statistics import rate\n"
        "rate([[True], [False]])\n"
        "print(sorted({'numpy', 'pandas', 'scipy', 'docker', 'kaggle'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
