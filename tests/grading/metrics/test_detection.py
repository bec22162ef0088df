import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import average_precision_score

from pytest_mlebench.authoring.metrics.detection import (
    average_precisions,
    box_iou,
    coco_average_precision,
    coco_iou,
    greedy_match,
    greedy_matches,
    paired_box_iou,
    rectangle_corners,
    upright_box_iou,
)

HITS = st.lists(st.booleans(), max_size=30)
PLACES = st.floats(-3, 3).map(lambda value: round(value, 2))
SIZES = st.floats(0.2, 4).map(lambda value: round(value, 2))
UPRIGHT_BOXES = st.tuples(PLACES, PLACES, PLACES, SIZES, SIZES, SIZES, st.floats(-7, 7))


def test_boxes_that_overlap_by_a_quarter() -> None:
    assert box_iou([[0, 0, 2, 2]], [[1, 1, 3, 3]]) == pytest.approx(1 / 7)
    assert coco_iou([[0, 0, 2, 2]], [[1, 1, 2, 2]]) == pytest.approx(1 / 7)


@given(arrays(float, (5, 4), elements=st.floats(0, 9)), arrays(float, (3, 4), elements=st.floats(0, 9)))
def test_box_formats_agree(a: np.ndarray, b: np.ndarray) -> None:
    a[:, 2:] += 0.5
    b[:, 2:] += 0.5
    pairs = np.array([[coco_iou([first], [second])[0] for second in b] for first in a])
    corners = (np.column_stack([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]]) for boxes in (a, b))
    np.testing.assert_allclose(box_iou(*corners), pairs, atol=1e-12)
    assert ((pairs >= 0) & (pairs <= 1 + 1e-12)).all()


def test_boxes_that_only_touch_do_not_overlap() -> None:
    assert box_iou([[0, 0, 1, 1]], [[1, 0, 2, 1]]) == 0
    assert coco_iou([[0, 0, 1, 1]], [[1, 0, 1, 1]]) == 0


def test_boxes_without_area_do_not_overlap_even_themselves() -> None:
    assert box_iou([[3, 3, 3, 3]], [[3, 3, 3, 3]]) == 0


def test_a_missing_corner_gives_no_overlap_or_is_ignored() -> None:
    assert np.isnan(box_iou([[np.nan, 0, 1, 1]], [[0, 0, 1, 1]]))
    assert coco_iou([[np.nan, 0, 1, 1]], [[0, 0, 1, 1]]) == 1


def test_no_boxes_give_an_empty_matrix() -> None:
    assert box_iou([], [[0, 0, 1, 1]]).shape == (0, 1)


@given(UPRIGHT_BOXES, UPRIGHT_BOXES)
def test_upright_boxes_overlap_as_much_as_their_polygons(first: tuple[float, ...], second: tuple[float, ...]) -> None:
    a, b = np.array([first]), np.array([second])
    bases = (shapely.polygons(rectangle_corners(box[:, :2], box[:, [4, 3]], box[:, 6]))[0] for box in (a, b))
    height = min(a[0, 2] + a[0, 5] / 2, b[0, 2] + b[0, 5] / 2) - max(a[0, 2] - a[0, 5] / 2, b[0, 2] - b[0, 5] / 2)
    both = shapely.area(shapely.intersection(*bases)) * max(height, 0)
    expected = both / (a[0, 3:6].prod() + b[0, 3:6].prod() - both)
    assert upright_box_iou(a, b)[0] == pytest.approx(expected, abs=1e-9)
    assert upright_box_iou(b, a)[0] == pytest.approx(expected, abs=1e-9)


@given(UPRIGHT_BOXES)
def test_an_upright_box_after_a_full_turn_is_the_same(box: tuple[float, ...]) -> None:
    turned = (*box[:6], box[6] + np.pi)
    assert upright_box_iou([box, box], [box, turned]) == pytest.approx([1, 1])


def test_an_upright_box_at_a_distant_height_overlaps_nothing() -> None:
    box = [0, 0, 0, 1, 1, 1, 0]
    boxes = [[0, 0, z, 1, 1, height, 0] for z, height in ((5, 1), (np.inf, 1), (0, np.inf), (np.inf, np.inf))]
    assert upright_box_iou([box] * 4, boxes).tolist() == [0, 0, 0, 0]


def test_no_upright_boxes_have_no_overlaps() -> None:
    assert upright_box_iou(np.empty((0, 7)), np.empty((0, 7))).shape == (0,)


def test_disjoint_and_nested_upright_boxes() -> None:
    box, small, apart = [0, 0, 0, 4, 4, 4, 0.3], [0, 0, 0, 2, 2, 2, 1], [9, 0, 0, 2, 2, 2, 1]
    assert upright_box_iou([box, box], [small, apart]) == pytest.approx([1 / 8, 0])


def test_each_prediction_takes_the_best_remaining_match() -> None:
    assert greedy_match([[0.9, 0.8], [0.95, 0.7], [0.6, 0.6]], 0.5).tolist() == [0, 1, -1]


def test_an_overlap_equal_to_the_threshold_is_not_enough() -> None:
    assert greedy_match([[0.5]], 0.5).tolist() == [-1]


def test_undefined_overlaps_match_nothing() -> None:
    assert greedy_match([[np.nan, 0.6]], 0.5).tolist() == [1]
    assert greedy_match(np.empty((2, 0)), 0.5).tolist() == [-1, -1]
    assert greedy_match(np.empty((0, 2)), 0.5).tolist() == []


def test_coco_takes_the_best_precision_at_each_of_101_levels() -> None:
    # recall 1/2 at precision 1, for 51 levels; recall 1 at precision 2/3, for 50
    assert coco_average_precision([True, False, True], 2) == pytest.approx((51 + 50 * 2 / 3) / 101)
    assert coco_average_precision([False, True], 2) == pytest.approx(51 * 0.5 / 101)
    assert coco_average_precision([], 3) == coco_average_precision([False], 3) == 0


@given(HITS, st.integers(0, 5))
def test_average_precisions_lie_between_0_and_1(hits: list[bool], missed: int) -> None:
    positives = max(sum(hits) + missed, 1)
    for value in (coco_average_precision(hits, positives), average_precisions(hits, [0] * len(hits), [positives])[0]):
        assert 0 <= value <= 1 + 1e-12


def test_the_area_below_the_curve_uses_the_best_precision_to_the_right() -> None:
    # precision 0, 1/2, 2/3 becomes 2/3 everywhere; two of four found
    assert average_precisions([False, True, True], [0, 0, 0], [4]) == pytest.approx([2 / 4 * 2 / 3])


@given(st.lists(HITS, min_size=1, max_size=4))
def test_groups_are_independent(groups: list[list[bool]]) -> None:
    positives = [max(sum(hits), 1) for hits in groups]
    together = average_precisions(
        [hit for hits in groups for hit in hits], np.repeat(np.arange(len(groups)), list(map(len, groups))), positives
    )
    alone = [average_precisions(hits, [0] * len(hits), [n])[0] for hits, n in zip(groups, positives, strict=True)]
    assert together == pytest.approx(alone)


@given(HITS)
def test_an_area_with_non_increasing_precision_is_at_least_the_step_sum(hits: list[bool]) -> None:
    if any(hits):
        steps = average_precision_score(hits, np.arange(len(hits))[::-1])
        assert average_precisions(hits, [0] * len(hits), [sum(hits)])[0] >= steps - 1e-12


def test_finding_all_first_is_perfect_and_later_predictions_cost_nothing() -> None:
    assert average_precisions([True, True, False], [0, 0, 0], [2]).tolist() == [1]
    assert coco_average_precision([True, True, False], 2) == pytest.approx(1)


def test_pairwise_overlaps_match_the_full_matrix() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-1, 4, (20, 4)).astype(float) for _ in range(2))
    a[0, 0] = np.nan
    left, right = np.divmod(np.arange(400), 20)
    np.testing.assert_array_equal(paired_box_iou(a, b, left, right).reshape(20, 20), box_iou(a, b))


@pytest.mark.parametrize("pairs", [1, 7, 10**6])
def test_matching_many_images_equals_matching_each_one(pairs: int) -> None:
    rng = np.random.default_rng(1)
    images = [rng.choice([0.4, 0.6, 0.8, 0.9, np.nan], rng.integers(0, 6, 2)) for _ in range(60)]
    predictions, objects = (np.array([image.shape[side] for image in images]) for side in (0, 1))
    before = np.cumsum(objects) - objects
    first = np.repeat(before, predictions)
    overlaps = np.full((predictions.sum(), objects.sum()), np.nan)
    starts = np.cumsum(predictions) - predictions
    for image, row, column in zip(images, starts, before, strict=True):
        overlaps[row : row + image.shape[0], column : column + image.shape[1]] = image
    expected = [
        match + column if match >= 0 else -1
        for image, column in zip(images, before, strict=True)
        for match in greedy_match(image, 0.5)
    ]
    last = first + np.repeat(objects, predictions)
    found = greedy_matches(lambda a, b: overlaps[a, b], first, last, 0.5, pairs=pairs)
    assert found.tolist() == expected
