import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from pytest_mlebench.authoring.metrics.ranking import lwlrap

LABELS = arrays(np.int64, (6, 5), elements=st.integers(0, 1)).filter(lambda labels: labels.any())
SCORES = arrays(np.float64, (6, 5), elements=st.integers(-4, 4))


def by_definition(labels: np.ndarray, scores: np.ndarray) -> float:
    precisions = [
        sum(true[k] and clip[k] >= clip[j] for k in range(len(clip)))
        / sum(clip[k] >= clip[j] for k in range(len(clip)))
        for true, clip in zip(labels, scores, strict=True)
        for j in np.flatnonzero(true)
    ]
    return float(sum(precisions) / len(precisions))


def test_the_precision_at_each_true_label_counts_once() -> None:
    # ranks 1 and 3 of the first clip: precisions 1 and 2/3; rank 2 of the second: 1/2
    assert lwlrap([[1, 0, 1], [0, 1, 0]], [[0.9, 0.5, 0.1], [0.8, 0.7, 0.1]]) == pytest.approx((1 + 2 / 3 + 1 / 2) / 3)


def test_equal_scores_count_against_the_prediction() -> None:
    assert lwlrap([[1, 0, 0, 0]], [[0.5, 0.5, 0.5, 0.5]]) == 0.25


def test_clips_without_labels_are_left_out() -> None:
    assert lwlrap([[0, 0], [1, 0]], [[0.1, 0.9], [0.1, 0.9]]) == lwlrap([[1, 0]], [[0.1, 0.9]])


def test_no_labels_at_all_give_no_score() -> None:
    assert math.isnan(lwlrap([[0, 0]], [[0.1, 0.9]]))


@given(LABELS, SCORES)
def test_the_score_follows_its_definition(labels: NDArray[np.float64], scores: NDArray[np.float64]) -> None:
    assert lwlrap(labels, scores) == pytest.approx(by_definition(labels, scores))


@given(LABELS)
def test_scores_equal_to_the_truth_are_perfect(labels: NDArray[np.float64]) -> None:
    assert lwlrap(labels, labels) == pytest.approx(1)


@given(LABELS, SCORES, st.permutations(range(6)))
def test_the_order_of_the_clips_makes_no_difference(
    labels: NDArray[np.float64], scores: NDArray[np.float64], order: list[int]
) -> None:
    assert lwlrap(labels[order], scores[order]) == pytest.approx(lwlrap(labels, scores))


@given(LABELS, SCORES)
def test_only_the_order_of_the_scores_matters(labels: NDArray[np.float64], scores: NDArray[np.float64]) -> None:
    assert lwlrap(labels, np.exp(scores) * 1e6) == pytest.approx(lwlrap(labels, scores))
