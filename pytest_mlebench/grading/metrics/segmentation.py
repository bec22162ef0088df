"""Metrics of masks, given as runs (see ``pytest_mlebench.data.rle``), and of shapes, given as points."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import KDTree

from pytest_mlebench.data.rle import Runs


def area(runs: Runs) -> int:
    """The number of pixels in a mask."""
    return int((runs[:, 1] - runs[:, 0]).sum())


def intersection(a: Runs, b: Runs) -> int:
    """The number of pixels in both masks; either must have disjoint runs, ``a`` in ascending order.

    >>> intersection(np.array([[0, 3], [9, 14]]), np.array([[2, 11]]))
    3
    """
    if not (len(a) and len(b)):
        return 0
    before = np.concatenate([[0], np.cumsum(a[:, 1] - a[:, 0])])  # pixels of a before each of its runs
    run = np.searchsorted(a[:, 0], b, side="right") - 1  # the run of a that begins at or before each end of b
    covered = np.where(run < 0, 0, before[run] + np.minimum(b, a[run, 1]) - a[run, 0])
    return int((covered[:, 1] - covered[:, 0]).sum())


def join(masks: Sequence[Runs], sizes: Iterable[int]) -> Runs:
    """Many masks as one, each behind the other; ``sizes`` are their numbers of pixels, marked or not.

    >>> join([np.array([[0, 3]]), np.array([[2, 5]])], sizes=[10, 10])
    array([[ 0,  3],
           [12, 15]])
    """
    sizes = np.fromiter(sizes, dtype=np.int64)
    offsets = np.repeat(np.cumsum(sizes) - sizes, [len(runs) for runs in masks])
    return np.concatenate([*masks, np.empty((0, 2), dtype=np.int64)]) + offsets[:, None]


def iou(y_true: Runs, y_pred: Runs, *, empty: float = 1.0) -> float:
    """Intersection over union (Jaccard index) of two masks: |A ∩ B| / |A ∪ B|, ``empty`` if both are empty.

    Range [0, 1], 1 is perfect. Source: Jaccard (1912).

    >>> iou(np.array([[0, 4]]), np.array([[2, 6]]))
    0.3333333333333333
    """
    both = intersection(y_true, y_pred)
    union = area(y_true) + area(y_pred) - both
    return both / union if union else empty


def dice(y_true: Runs, y_pred: Runs, *, empty: float = 1.0) -> float:
    """Dice coefficient of two masks: 2·|A ∩ B| / (|A| + |B|), ``empty`` if both are empty.

    Range [0, 1], 1 is perfect. This is the F1 score of the pixels. Source: Dice (1945).

    >>> dice(np.array([[0, 4]]), np.array([[2, 6]]))
    0.5
    """
    return fbeta(y_true, y_pred, beta=1, empty=empty)


def fbeta(y_true: Runs, y_pred: Runs, *, beta: float, empty: float = 0.0) -> float:
    """F-beta score of the pixels of a mask: (1 + β²)·|A ∩ B| / (β²·|A| + |B|), ``empty`` if both are empty.

    Range [0, 1], 1 is perfect; β below 1 weighs precision more than recall. Source: van Rijsbergen (1979),
    Information Retrieval; scikit-learn's ``fbeta_score`` of the flattened masks.

    >>> fbeta(np.array([[0, 4]]), np.array([[2, 4]]), beta=0.5)
    0.8333333333333334
    """
    total = beta**2 * area(y_true) + area(y_pred)
    return (1 + beta**2) * intersection(y_true, y_pred) / total if total else empty


def hausdorff_distance(a: ArrayLike, b: ArrayLike, *, spacing: ArrayLike = 1.0) -> float:
    """The farthest that a point of one set lies from the nearest point of the other set, either way round.

    ``a`` and ``b`` are whole numbers of shape (points, dimensions), voxels for example, and must not be empty;
    ``spacing`` is the length of a step along each dimension. Euclidean; range [0, ∞), 0 where the sets are equal.
    Source: Hausdorff (1914); Huttenlocher et al. (1993), Comparing images using the Hausdorff distance.

    >>> hausdorff_distance([[0, 0], [0, 1]], [[0, 0], [3, 5]])
    5.0
    """
    first, second, step = np.asarray(a), np.asarray(b), np.asarray(spacing, dtype=np.float64)
    if not (len(first) and len(second)):
        raise ValueError("the Hausdorff distance of an empty set is not defined")
    return max(_directed_hausdorff(first, second, step), _directed_hausdorff(second, first, step))


def _directed_hausdorff(points: NDArray[np.int64], others: NDArray[np.int64], spacing: NDArray[np.float64]) -> float:
    """max over points of the distance to the nearest of the others.

    The distances of neighbours differ by no more than the way between them, so one point of each small block bounds
    those of the others, and few blocks remain that can hold the maximum.
    """
    side = 4
    tree = KDTree(others * spacing, balanced_tree=False, compact_nodes=False)
    blocks = points // side
    keys = np.ravel_multi_index(tuple((blocks - blocks.min(axis=0)).T), tuple(np.ptp(blocks, axis=0) + 1))
    _, chosen, block = np.unique(keys, return_index=True, return_inverse=True)
    distances = tree.query(points[chosen] * spacing)[0]
    reach = float(np.linalg.norm(np.broadcast_to((side - 1) * spacing, points.shape[1:])))
    farthest = float(distances.max())
    rest = points[(distances + reach > farthest)[block]]
    return max(farthest, float(tree.query(rest * spacing)[0].max()))
