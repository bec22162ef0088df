import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from pytest_mlebench.authoring.metrics.classification import kl_divergence

WEIGHTS = arrays(np.float64, (5, 4), elements=st.floats(0, 10)).filter(
    lambda weights: (weights.sum(axis=1) > 0.1).all()
)


def normalised(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    normal: NDArray[np.float64] = weights / weights.sum(axis=1, keepdims=True)
    return normal


def test_it_is_the_mean_of_the_rows_divergences() -> None:
    first = 0.5 * math.log(0.5 / 0.25) + 0.5 * math.log(0.5 / 0.75)
    second = math.log(1 / 0.2)
    assert kl_divergence([[0.5, 0.5], [1.0, 0.0]], [[0.25, 0.75], [0.2, 0.8]]) == pytest.approx((first + second) / 2)


def test_a_class_with_zero_true_probability_adds_nothing() -> None:
    assert kl_divergence([[1, 0, 0]], [[0.5, 0.5, 0]]) == pytest.approx(math.log(2))


def test_a_prediction_of_0_is_clipped() -> None:
    assert kl_divergence([[1, 0]], [[0, 1]]) == pytest.approx(-math.log(1e-15))


def test_a_missing_prediction_has_no_score() -> None:
    assert math.isnan(kl_divergence([[0.5, 0.5]], [[np.nan, 1]]))


@given(WEIGHTS)
def test_the_truth_is_a_perfect_prediction(weights: NDArray[np.float64]) -> None:
    assert kl_divergence(normalised(weights), normalised(weights)) == pytest.approx(0, abs=1e-12)


@given(WEIGHTS, WEIGHTS)
def test_no_prediction_is_better_than_perfect(true: NDArray[np.float64], predicted: NDArray[np.float64]) -> None:
    assert kl_divergence(normalised(true), normalised(predicted)) >= -1e-12


@given(WEIGHTS, WEIGHTS, st.permutations(range(5)))
def test_the_order_of_the_rows_makes_no_difference(
    true: NDArray[np.float64], predicted: NDArray[np.float64], order: list[int]
) -> None:
    true, predicted = normalised(true), normalised(predicted)
    assert kl_divergence(true[order], predicted[order]) == pytest.approx(kl_divergence(true, predicted), abs=1e-12)
