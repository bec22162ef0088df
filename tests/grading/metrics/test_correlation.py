import itertools
import math
from random import Random

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pytest_mlebench.authoring.metrics.ranking import inversions, kendall_tau, pearson, spearman

ORDERS = st.lists(st.integers(2, 9).flatmap(lambda n: st.permutations(range(n))), min_size=1, max_size=6)
NUMBERS = st.integers(-5, 5).map(float)
COLUMNS = st.integers(3, 12).flatmap(
    lambda n: st.tuples(st.lists(NUMBERS, min_size=n, max_size=n), st.lists(NUMBERS, min_size=n, max_size=n))
)


@given(st.lists(st.integers(0, 9), max_size=12))
def test_inversions_are_the_pairs_in_the_wrong_order(values: list[int]) -> None:
    assert inversions(values) == sum(left > right for left, right in itertools.combinations(values, 2))


def test_kendall_tau_pools_swaps_and_pairs_over_the_lists() -> None:
    # Two of the first list's three pairs are wrong, and not the second's only pair: 1 - 4 * 2 / (6 + 2).
    assert kendall_tau(["abc", "xy"], ["cab", "xy"]) == 0


def test_kendall_tau_of_lists_without_pairs_is_undefined() -> None:
    assert math.isnan(kendall_tau([["a"]], [["a"]]))


@pytest.mark.parametrize("predicted", ["ab", "abd", "aab", "abcd"])
def test_kendall_tau_rejects_different_items(predicted: str) -> None:
    with pytest.raises(ValueError, match="same items"):
        kendall_tau(["abc"], [predicted])


@given(ORDERS)
def test_kendall_tau_is_one_for_the_true_order_and_minus_one_for_its_reverse(orders: list[list[int]]) -> None:
    assert kendall_tau(orders, orders) == 1
    assert kendall_tau(orders, [order[::-1] for order in orders]) == -1


@given(st.integers(2, 9).flatmap(lambda n: st.permutations(range(n))))
def test_kendall_tau_of_one_list_matches_scipy(order: list[int]) -> None:
    expected = stats.kendalltau(range(len(order)), order).statistic
    assert kendall_tau([range(len(order))], [order]) == pytest.approx(expected)


@given(ORDERS, st.randoms())
def test_kendall_tau_does_not_depend_on_the_order_of_the_lists(orders: list[list[int]], random: Random) -> None:
    shuffled = random.sample(orders, len(orders))
    assert kendall_tau([sorted(order) for order in orders], orders) == kendall_tau(
        [sorted(order) for order in shuffled], shuffled
    )


def test_pearson_matches_a_hand_calculation() -> None:
    # Deviations (-1, 0, 1) and (-4/3, 2/3, 2/3): 2 / sqrt(2 * 24 / 9).
    assert pearson([1, 2, 3], [1, 3, 3]) == pytest.approx(2 / math.sqrt(2 * 24 / 9))


@given(COLUMNS)
def test_pearson_matches_scipy_if_it_is_defined(columns: tuple[list[float], list[float]]) -> None:
    true, predicted = columns
    defined = len(set(true)) > 1 and len(set(predicted)) > 1
    score = pearson(true, predicted)
    assert (score == pytest.approx(stats.pearsonr(true, predicted).statistic)) if defined else math.isnan(score)


@given(COLUMNS, st.floats(0.01, 100), st.floats(-100, 100))
def test_pearson_does_not_depend_on_scale_and_shift(
    columns: tuple[list[float], list[float]], scale: float, shift: float
) -> None:
    true, predicted = map(np.array, columns)
    assert pearson(true, scale * predicted + shift) == pytest.approx(pearson(true, predicted), nan_ok=True, abs=1e-6)


@given(COLUMNS, st.randoms())
def test_pearson_does_not_depend_on_the_order_of_rows(columns: tuple[list[float], list[float]], random: Random) -> None:
    true, predicted = map(np.array, columns)
    order = random.sample(range(len(true)), len(true))
    assert pearson(true[order], predicted[order]) == pytest.approx(pearson(true, predicted), nan_ok=True)


@pytest.mark.parametrize(
    "predicted", [[0.1, 0.1, 0.1], [1, np.nan, 2], [1, np.inf, 2], [np.nan, np.nan, np.nan], [True, True, True]]
)
@pytest.mark.filterwarnings("error")
def test_pearson_of_constant_missing_or_infinite_values_is_undefined_without_a_warning(predicted: list[float]) -> None:
    assert math.isnan(pearson([1, 2, 3], predicted))


def test_pearson_of_huge_values_does_not_overflow() -> None:
    assert pearson([1, 2, 4], [1e200, 2e200, 4e200]) == pytest.approx(1)


def test_pearson_is_computed_per_column() -> None:
    scores = pearson([[1, 1], [2, 2], [3, 3]], [[3, 7], [2, 7], [1, 7]])
    assert scores == pytest.approx([-1, math.nan], nan_ok=True)


def test_spearman_gives_ties_their_mean_rank() -> None:
    # Ranks (1, 2, 3, 4) and (1.5, 1.5, 3, 4): covariance 4.5 of sqrt(5 * 4.5).
    assert spearman([1, 2, 3, 4], [7, 7, 8, 9]) == pytest.approx(4.5 / math.sqrt(5 * 4.5))


@given(COLUMNS)
def test_spearman_matches_scipy_if_it_is_defined(columns: tuple[list[float], list[float]]) -> None:
    true, predicted = columns
    if len(set(true)) > 1 and len(set(predicted)) > 1:
        assert spearman(true, predicted) == pytest.approx(stats.spearmanr(true, predicted).statistic)


@given(COLUMNS)
def test_spearman_depends_only_on_ranks(columns: tuple[list[float], list[float]]) -> None:
    true, predicted = map(np.array, columns)
    assert spearman(true, np.exp(predicted)) == pytest.approx(spearman(true, predicted), nan_ok=True)


def test_spearman_ranks_infinite_values_and_text_like_other_values() -> None:
    assert spearman([1, 2, 3], [0, 5, np.inf]) == pytest.approx(1)
    assert spearman(pd.Series([1, 2, 3]), pd.Series(["0.1", "0.2", "high"])) == pytest.approx(1)


def test_spearman_with_a_missing_value_is_undefined() -> None:
    assert math.isnan(spearman([1, 2, 3], [1, np.nan, 3]))
