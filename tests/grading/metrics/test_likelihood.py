import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from scipy.stats import laplace

from pytest_mlebench.authoring.metrics.classification import laplace_log_likelihood

VALUES = arrays(np.float64, 6, elements=st.floats(-1e4, 1e4))
SCALES = arrays(np.float64, 6, elements=st.floats(1e-2, 1e4))


def test_an_exact_prediction_costs_the_logarithm_of_its_scale() -> None:
    assert laplace_log_likelihood([2000], [2000], [100]) == pytest.approx(-math.log(100 * math.sqrt(2)))


def test_a_small_scale_counts_as_the_smallest() -> None:
    assert laplace_log_likelihood([2000], [1900], [-5], min_scale=70) == laplace_log_likelihood([2000], [1900], [70])


def test_a_large_error_counts_as_the_largest() -> None:
    limited = laplace_log_likelihood([2000], [-np.inf], [70], max_error=1000)
    assert limited == pytest.approx(-math.sqrt(2) * 1000 / 70 - math.log(70 * math.sqrt(2)))


@pytest.mark.parametrize("position", range(3))
def test_a_missing_value_has_no_score(position: int) -> None:
    values = [[2000.0], [2000.0], [100.0]]
    values[position] = [math.nan]
    assert math.isnan(laplace_log_likelihood(*values, max_error=1000))


@given(VALUES, VALUES, SCALES)
def test_it_is_the_mean_log_density_of_the_laplace_distribution(
    true: NDArray[np.float64], predicted: NDArray[np.float64], scale: NDArray[np.float64]
) -> None:
    scale += 100  # scipy takes the logarithm of a density, which must not vanish
    expected = laplace.logpdf(true, loc=predicted, scale=scale / math.sqrt(2)).mean()
    assert laplace_log_likelihood(true, predicted, scale) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@given(VALUES, VALUES, SCALES)
def test_no_prediction_is_better_than_the_truth(
    true: NDArray[np.float64], predicted: NDArray[np.float64], scale: NDArray[np.float64]
) -> None:
    assert laplace_log_likelihood(true, predicted, scale) <= laplace_log_likelihood(true, true, scale)


@given(VALUES, VALUES, SCALES, st.permutations(range(6)))
def test_the_order_of_the_rows_makes_no_difference(
    true: NDArray[np.float64], predicted: NDArray[np.float64], scale: NDArray[np.float64], order: list[int]
) -> None:
    shuffled = laplace_log_likelihood(true[order], predicted[order], scale[order])
    assert shuffled == pytest.approx(laplace_log_likelihood(true, predicted, scale))
