import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from pytest_mlebench.authoring.metrics.classification import weighted_roc_auc

binary_rows = st.lists(st.tuples(st.integers(0, 1), st.integers(-5, 5)), min_size=2, max_size=40).filter(
    lambda rows: len({label for label, _ in rows}) == 2
)


def test_a_constant_score_gives_the_area_under_the_diagonal_of_each_strip() -> None:
    # right of the diagonal: 0.4 - 0.08 = 0.32 below 0.4, and 0.6 - 0.42 = 0.18 above
    assert weighted_roc_auc([0, 1, 1], [3, 3, 3]) == pytest.approx((2 * 0.32 + 0.18) / 1.4)


def test_a_false_alarm_at_the_top_costs_double() -> None:
    # five of each; one negative is ranked first, or last before the lowest positive
    labels = [1] * 5 + [0] * 5
    first = weighted_roc_auc(labels, [9, 8, 7, 6, 5, 10, 1, 1, 1, 1])
    late = weighted_roc_auc(labels, [9, 8, 7, 6, 4, 5, 1, 1, 1, 1])
    assert first == pytest.approx(1 - 0.2)
    assert late == pytest.approx(1 - 0.2 * 0.2 / 1.4)


def test_the_curve_is_interpolated_at_an_edge_between_its_points() -> None:
    # a tie of a positive and a negative: the curve goes from (0, 0) to (0.5, 0.5), then up to (0.5, 1)
    low, high = 0.4 - 0.08, 0.1 * 0.55 + 0.5 * 0.5
    assert weighted_roc_auc([1, 0, 1, 0], [2, 2, 1, 0]) == pytest.approx((2 * low + high) / 1.4)


def test_inverted_scores_give_zero() -> None:
    assert weighted_roc_auc([0, 0, 1, 1], [4, 3, 2, 1]) == 0


@given(binary_rows)
def test_with_equal_weights_it_is_the_usual_area(rows: list[tuple[int, int]]) -> None:
    labels, scores = map(np.array, zip(*rows, strict=True))
    expected = roc_auc_score(labels, scores)
    assert weighted_roc_auc(labels, scores, weights=(1, 1)) == pytest.approx(expected)
    assert weighted_roc_auc(labels, scores, tpr_thresholds=(0, 1), weights=(7,)) == pytest.approx(expected)


@given(binary_rows, st.randoms(use_true_random=False))
def test_only_the_ranking_matters_and_not_the_order_of_rows(rows, random) -> None:  # type: ignore[no-untyped-def]
    labels, scores = map(np.array, zip(*rows, strict=True))
    score = weighted_roc_auc(labels, scores)
    assert 0 <= score <= 1 + 1e-12
    order = random.sample(range(len(rows)), len(rows))
    assert weighted_roc_auc(labels[order], 100.0 + 3 * scores[order]) == pytest.approx(score)


@given(binary_rows)
def test_scores_equal_to_the_labels_are_perfect(rows: list[tuple[int, int]]) -> None:
    labels = [label for label, _ in rows]
    assert weighted_roc_auc(labels, labels) == pytest.approx(1)
