import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import f1_score, log_loss

from pytest_mlebench.authoring.metrics.classification import probabilistic_f1, weighted_log_loss

LABELS = arrays(int, 8, elements=st.integers(0, 1))
PROBABILITIES = arrays(float, 8, elements=st.floats(0, 1))


def test_probabilistic_f1_by_hand() -> None:
    # precision 1.2 / 1.6, recall 1.2 / 2
    assert probabilistic_f1([1, 0, 1], [0.8, 0.4, 0.4]) == pytest.approx(2 * 0.75 * 0.6 / 1.35)


@given(LABELS, LABELS)
def test_probabilistic_f1_of_decisions_is_the_f1_score(truth: np.ndarray, predicted: np.ndarray) -> None:
    assume(truth.any())
    assert probabilistic_f1(truth, predicted) == pytest.approx(f1_score(truth, predicted, zero_division=0))


@given(LABELS, PROBABILITIES, st.permutations(range(8)))
def test_probabilistic_f1_is_bounded_and_independent_of_the_order(
    truth: np.ndarray, probability: np.ndarray, order: list[int]
) -> None:
    score = probabilistic_f1(truth, probability)
    assert 0 <= score <= 1 + 1e-12
    assert probabilistic_f1(truth[order], probability[order]) == pytest.approx(score)


def test_probabilistic_f1_is_0_without_hits_or_with_a_missing_prediction() -> None:
    assert probabilistic_f1([1, 0], [0, 0]) == probabilistic_f1([1, 0], [0, 1]) == 0
    assert probabilistic_f1([1, 0], [np.nan, 1]) == 0


def test_weighted_log_loss_by_hand() -> None:
    # (3 ln 2 - ln 0.8) / 4 for the first row, -ln 0.9 for the second
    loss = weighted_log_loss([[1, 0], [0, 1]], [[0.5, 0.2], [0.1, 0.9]], [[3, 1], [7, 2]])
    assert loss == pytest.approx(((3 * np.log(2) - np.log(0.8)) / 4 - np.log(0.9)) / 2)


@given(LABELS, arrays(float, 8, elements=st.floats(0.01, 0.99)))
def test_equal_weights_give_the_log_loss_of_all_values(truth: np.ndarray, probability: np.ndarray) -> None:
    loss = weighted_log_loss(truth.reshape(4, 2), probability.reshape(4, 2), np.ones((4, 2)))
    assert loss == pytest.approx(log_loss(truth, probability, labels=[0, 1]))


@given(LABELS)
def test_a_perfect_weighted_log_loss_is_0_and_certain_errors_stay_finite(truth: np.ndarray) -> None:
    table, weights = truth.reshape(4, 2), np.full((4, 2), 7.0)
    assert weighted_log_loss(table, table, weights) == pytest.approx(0, abs=1e-12)
    assert weighted_log_loss(table, 1 - table, weights) == pytest.approx(-np.log(1e-15), rel=1e-3)
