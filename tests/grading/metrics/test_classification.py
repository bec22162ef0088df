import math
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn import metrics

from pytest_mlebench.authoring.metrics.classification import log_loss, matthews_corrcoef

EPS = 2.0**-52


def problem(seed: int, rows: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return np.eye(classes, dtype=int)[rng.integers(0, classes, rows)], rng.dirichlet(np.ones(classes), rows)


problems = st.builds(problem, st.integers(0, 2**32 - 1), st.integers(1, 30), st.integers(2, 6))


def test_log_loss_is_the_mean_logarithm_of_the_true_class_probability() -> None:
    assert log_loss([[1, 0, 0], [0, 0, 1]], [[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]]) == pytest.approx(
        -(math.log(0.5) + math.log(0.8)) / 2
    )


def test_log_loss_of_certain_correct_predictions_uses_the_clipped_probability() -> None:
    assert log_loss([[1, 0], [0, 1]], [[1, 0], [0, 1]]) == pytest.approx(EPS)


def test_log_loss_of_a_certain_mistake_is_bounded_by_clipping() -> None:
    assert log_loss([[1, 0]], [[0, 1]]) == pytest.approx(-math.log(EPS))
    assert log_loss([[1, 0]], [[0, 1]], eps=0.01) == pytest.approx(-math.log(0.01))


def test_log_loss_does_not_rescale_rows() -> None:
    assert log_loss([[1, 0]], [[0.3, 0.3]]) == pytest.approx(-math.log(0.3))


def test_log_loss_weights_classes_by_the_truth() -> None:
    assert log_loss([[0.5, 0.5]], [[0.2, 0.8]]) == pytest.approx(-(math.log(0.2) + math.log(0.8)) / 2)


@given(problems)
def test_log_loss_matches_scikit_learn(case: tuple[NDArray[np.int64], NDArray[np.float64]]) -> None:
    truth, probability = case
    labels = range(truth.shape[1])
    assert log_loss(truth, probability) == pytest.approx(metrics.log_loss(truth.argmax(1), probability, labels=labels))


@given(problems, st.randoms())
def test_log_loss_does_not_depend_on_the_order_of_rows_or_classes(
    case: tuple[NDArray[np.int64], NDArray[np.float64]], random: Random
) -> None:
    truth, probability = case
    rows, classes = (random.sample(range(size), size) for size in truth.shape)
    shuffled = log_loss(truth[rows][:, classes], probability[rows][:, classes])
    assert shuffled == pytest.approx(log_loss(truth, probability))


@given(problems)
def test_log_loss_lies_between_the_perfect_and_the_worst(case: tuple[NDArray[np.int64], NDArray[np.float64]]) -> None:
    truth, probability = case
    assert log_loss(truth, truth) <= log_loss(truth, probability) + 1e-15 <= -math.log(EPS) + 1e-12


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(-1, 3)), max_size=9).map(lambda pairs: [(0, 0), (1, 0), *pairs])
)
def test_the_matthews_correlation_matches_scikit_learn(pairs: list[tuple[int, int]]) -> None:
    truth, predicted = zip((0, 0), (1, 0), *pairs, strict=True)
    assert matthews_corrcoef(truth, predicted) == metrics.matthews_corrcoef(truth, predicted)


def test_the_matthews_correlation_accepts_any_number_of_distinct_labels() -> None:
    labels = np.arange(2**63, 2**63 + 200_000, dtype=np.uint64)
    assert matthews_corrcoef(labels, labels) == 1  # a matrix of all pairs of labels would take 320 GB
    assert matthews_corrcoef(np.arange(200_000) % 2, labels) == 0
