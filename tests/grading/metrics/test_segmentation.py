import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from scipy.ndimage import distance_transform_edt
from scipy.spatial.distance import directed_hausdorff
from sklearn.metrics import f1_score, fbeta_score, jaccard_score
from sklearn.neighbors import KDTree

from pytest_mlebench.authoring.metrics import segmentation
from pytest_mlebench.authoring.metrics.segmentation import (
    area,
    dice,
    dices,
    fbeta,
    hausdorff_distance,
    intersection,
    iou,
    join,
    volume_hausdorff_distance,
)
from pytest_mlebench.authoring.rle import Runs, decode_rle, encode_rle

SIZE = 30
MASKS = arrays(bool, SIZE)
EMPTY = np.empty((0, 2), dtype=np.int64)


def runs(mask: np.ndarray) -> Runs:
    return decode_rle(encode_rle(mask), mask.size)


@given(MASKS, MASKS)
def test_areas_of_runs_match_the_masks(a: np.ndarray, b: np.ndarray) -> None:
    assert area(runs(a)) == a.sum()
    assert intersection(runs(a), runs(b)) == (a & b).sum()


@given(MASKS, MASKS, st.sampled_from([0.5, 1, 2]))
def test_overlaps_agree_with_scikit_learn_on_the_pixels(a: np.ndarray, b: np.ndarray, beta: float) -> None:
    assume(a.any() or b.any())
    assert iou(runs(a), runs(b)) == pytest.approx(jaccard_score(a, b, zero_division=0))
    assert dice(runs(a), runs(b)) == pytest.approx(f1_score(a, b, zero_division=0))
    assert fbeta(runs(a), runs(b), beta=beta) == pytest.approx(fbeta_score(a, b, beta=beta, zero_division=0))


@given(MASKS)
def test_the_same_mask_overlaps_itself_fully(mask: np.ndarray) -> None:
    assume(mask.any())
    assert iou(runs(mask), runs(mask)) == dice(runs(mask), runs(mask)) == fbeta(runs(mask), runs(mask), beta=2) == 1


def test_two_empty_masks_score_the_given_value() -> None:
    assert iou(EMPTY, EMPTY) == dice(EMPTY, EMPTY) == 1
    assert fbeta(EMPTY, EMPTY, beta=0.5) == 0
    assert np.isnan(dice(EMPTY, EMPTY, empty=np.nan))


def test_one_empty_mask_scores_zero() -> None:
    mask = np.array([[3, 8]])
    assert iou(EMPTY, mask) == dice(mask, EMPTY) == fbeta(EMPTY, mask, beta=0.5) == 0


def test_a_lower_beta_weighs_precision_more() -> None:
    truth, half, double = np.array([[0, 10]]), np.array([[0, 5]]), np.array([[0, 20]])
    assert fbeta(truth, half, beta=0.5) > fbeta(truth, double, beta=0.5)
    assert fbeta(truth, half, beta=2) < fbeta(truth, double, beta=2)


@given(st.lists(st.tuples(MASKS, MASKS), min_size=1, max_size=5))
def test_the_dice_of_joined_masks_counts_the_pixels_of_all_images_together(
    pairs: list[tuple[np.ndarray, np.ndarray]],
) -> None:
    truth, predicted = (join([runs(pair[side]) for pair in pairs], [SIZE] * len(pairs)) for side in (0, 1))
    both = sum((a & b).sum() for a, b in pairs)
    total = sum(a.sum() + b.sum() for a, b in pairs)
    assert dice(truth, predicted) == pytest.approx(2 * both / total if total else 1)


@given(st.lists(st.tuples(MASKS, MASKS), min_size=1, max_size=5))
def test_the_dice_of_many_pairs_matches_each_pair(pairs: list[tuple[np.ndarray, np.ndarray]]) -> None:
    sides = []
    for side in (0, 1):
        of_side = [runs(pair[side]) for pair in pairs]
        sides.append((np.concatenate(of_side), np.repeat(np.arange(len(pairs)), [len(k) for k in of_side])))
    expected = [dice(runs(a), runs(b), empty=np.nan) for a, b in pairs]
    truth, predicted = sides
    np.testing.assert_array_equal(dices(truth, predicted, [SIZE] * len(pairs), empty=np.nan), expected)


def test_joining_no_masks_gives_an_empty_mask() -> None:
    assert join([], []).shape == (0, 2)


@settings(deadline=None)
@given(
    array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=24).flatmap(
        lambda shape: st.tuples(*[arrays(bool, shape)] * 2)
    )
)
def test_the_hausdorff_distance_agrees_with_scipy(masks: tuple[np.ndarray, np.ndarray]) -> None:
    a, b = masks
    assume(a.any() and b.any())
    spacing = np.array([1.0, 0.3, 2.5])[: a.ndim]
    first, second = np.argwhere(a) * spacing, np.argwhere(b) * spacing
    expected = max(directed_hausdorff(first, second)[0], directed_hausdorff(second, first)[0])
    assert hausdorff_distance(a, b, spacing=spacing) == pytest.approx(expected)
    assert hausdorff_distance(b, a, spacing=spacing) == pytest.approx(expected)


def test_the_hausdorff_distance_of_large_shapes_agrees_with_scipy() -> None:
    z, y, x = np.mgrid[:40, :60, :60]
    ball = (z - 20) ** 2 + (y - 30) ** 2 + (x - 30) ** 2 < 15**2
    shell = ball & ((z - 20) ** 2 + (y - 30) ** 2 + (x - 30) ** 2 > 12**2)
    first, second = np.argwhere(ball), np.argwhere(shell)
    expected = max(directed_hausdorff(first, second)[0], directed_hausdorff(second, first)[0])
    assert hausdorff_distance(ball, shell) == pytest.approx(expected)


@settings(deadline=None)
@given(
    array_shapes(min_dims=3, max_dims=3, min_side=1, max_side=12).flatmap(
        lambda shape: st.tuples(*[arrays(bool, shape)] * 2)
    ),
    st.sampled_from([(40_000_000, 12, 12), (12, 9_000, 9_000), (12, 12, 30_000_000), (12, 12, 12)]),
)
def test_the_distance_of_runs_in_a_volume_matches_the_masks(
    masks: tuple[np.ndarray, np.ndarray], shape: tuple[int, int, int]
) -> None:
    assume(masks[0].any() and masks[1].any())
    spacing = (0.5, 1, 2)
    a, b = (
        np.column_stack([starts, starts + 1])
        for starts in (np.ravel_multi_index(np.nonzero(mask), shape) for mask in masks)
    )
    expected = hausdorff_distance(*masks, spacing=spacing)
    assert volume_hausdorff_distance(a, b, shape, spacing=spacing) == pytest.approx(expected)


def test_a_ball_and_its_shell_in_a_huge_volume() -> None:
    z, y, x = np.indices((30, 30, 30)) - 14
    ball = z**2 + y**2 + x**2 <= 144
    shell = ball & (z**2 + y**2 + x**2 > 121)
    far = np.array([[4_000_000_000, 4_000_000_001]])
    runs_of = [np.column_stack([k, k + 1]) for k in (np.flatnonzero(ball), np.flatnonzero(shell))]
    shape = (10_000_000, 30, 30)
    a, b = (np.concatenate([runs, far]) for runs in runs_of)
    assert volume_hausdorff_distance(a, b, shape) == hausdorff_distance(ball, shell)


def hausdorff_by_transforms(a: np.ndarray, b: np.ndarray, spacing: np.ndarray) -> float:
    ways = ((a, b), (b, a))
    return max(float(distance_transform_edt(~other, sampling=spacing)[mask].max()) for mask, other in ways)


VOLUME = (36, 40, 44)


def shapes(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two masks of balls, shells, stripes, sheets or noise, anywhere in a volume."""
    rng = np.random.default_rng(seed)
    masks = []
    for _ in range(2):
        axes = np.indices(VOLUME)
        from_middle = np.linalg.norm(axes - rng.uniform(0, VOLUME, 3)[:, None, None, None], axis=0)
        part = axes[rng.integers(3)] < rng.integers(2, 40)
        radius = rng.uniform(2, 20)
        masks.append(
            [
                from_middle <= radius,
                np.abs(from_middle - radius) < 1,
                (axes[rng.integers(3)] % 3 == 0) & part,
                (rng.random(VOLUME) < rng.choice([0.3, 0.001])) & part,
            ][rng.integers(4)]
        )
        masks[-1][tuple(rng.integers(VOLUME))] = True
    return masks[0], masks[1]


@pytest.mark.full
@pytest.mark.parametrize("many", [0, 10**9])
@pytest.mark.parametrize("few", [10, 10**9])
def test_the_hausdorff_distance_matches_distance_transforms(
    many: int, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segmentation, "_MANY", many)
    monkeypatch.setattr(segmentation, "_FEW", few)
    monkeypatch.setattr(segmentation, "_CELLS", 500)
    spacing = 1 / np.array(VOLUME)
    for seed in range(12):
        a, b = shapes(seed)
        expected = hausdorff_by_transforms(a, b, spacing)
        assert hausdorff_distance(a, b, spacing=spacing) == pytest.approx(expected, rel=1e-12), seed


@pytest.fixture
def trees(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, KDTree]]:
    """Records the number of points of each query, and the tree."""
    asked: list[tuple[int, KDTree]] = []

    class CountedTree(KDTree):  # type: ignore[misc]
        def query(self, points: np.ndarray, **options: bool) -> np.ndarray:
            asked.append((len(points), self))
            return np.asarray(super().query(points, **options))

    monkeypatch.setattr("sklearn.neighbors.KDTree", CountedTree)
    return asked


def test_pixels_equally_far_from_a_shell_need_few_distances(trees: list[tuple[int, KDTree]]) -> None:
    z, y, x = np.indices((60, 60, 60)) - 30
    from_middle = z**2 + y**2 + x**2
    ball, shell = from_middle <= 26**2, (from_middle > 27**2) & (from_middle <= 28**2)
    assert hausdorff_distance(ball, shell) == np.sqrt(np.min(from_middle[shell]))
    assert 0 < sum(points for points, _ in trees) < ball.sum() / 25


def test_flat_surfaces_on_both_sides_need_few_distances(trees: list[tuple[int, KDTree]]) -> None:
    sheets, disk = np.zeros((2, 60, 100, 100), dtype=bool)
    sheets[[0, -1]] = True
    disk[30, 30:70, 30:70] = True
    assert hausdorff_distance(disk, sheets) == np.linalg.norm([30, 30, 30])
    asked = sum(points for points, _ in trees)
    assert 0 < sum(tree.get_n_calls() for tree in {id(tree): tree for _, tree in trees}.values()) < 200 * asked


def test_equal_masks_have_zero_distance() -> None:
    assert hausdorff_distance([[1, 0], [1, 1]], [[1, 0], [1, 1]]) == 0


def test_an_empty_mask_has_no_hausdorff_distance() -> None:
    with pytest.raises(ValueError, match="empty"):
        hausdorff_distance([[0, 0]], [[0, 1]])
