"""Metrics of masks, most of them given as runs (see ``pytest_mlebench.data.authoring.rle``)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import KDTree

from pytest_mlebench.data.authoring.rle import Runs


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
    """The farthest that a pixel of one mask lies from the nearest pixel of the other mask, either way round.

    ``a`` and ``b`` are booleans of one shape, of any dimensions, and neither may be empty; ``spacing`` is the length
    of a step along each dimension. Euclidean; range [0, ∞), 0 where the masks are equal.
    Source: Hausdorff (1914); Huttenlocher et al. (1993), Comparing images using the Hausdorff distance.

    >>> hausdorff_distance([[1, 0, 0, 0], [0, 0, 0, 0]], [[1, 0, 0, 0], [0, 0, 0, 1]])
    3.1622776601683795
    """
    first, second = np.asarray(a, dtype=bool), np.asarray(b, dtype=bool)
    if not (first.any() and second.any()):
        raise ValueError("the Hausdorff distance of an empty mask is not defined")
    step = np.broadcast_to(np.asarray(spacing, dtype=np.float64), first.ndim)
    box = _bounding_box(first | second)
    first, second = first[box], second[box]
    return max(_directed_hausdorff(first, second, step), _directed_hausdorff(second, first, step))


_NEAR = 3
"""Steps along each axis within which the nearest pixel is looked for by trying offsets, before a tree is built."""


def _directed_hausdorff(mask: NDArray[np.bool_], other: NDArray[np.bool_], spacing: NDArray[np.float64]) -> float:
    """max over the pixels of a mask of the distance to the nearest pixel of the other mask.

    Masks that are compared mostly lie close to each other: offsets are tried in the order of their length until every
    pixel has met the other mask. Pixels that are farther away ask a tree of the other mask's surface. Distances of two
    pixels differ by no more than the way between them, so one pixel of a block bounds those of the others; few blocks
    remain that can hold the maximum.
    """
    farthest, points = _nearby(mask & ~other, other, spacing)
    if not len(points):
        return farthest
    surface = KDTree(_points(_surface(other)) * spacing)
    for side in (16, 4, 1):
        if not len(points):
            break
        blocks = points // side
        block = np.ravel_multi_index(tuple(blocks.T), tuple(blocks.max(axis=0) + 1))
        chosen = np.full(block.max() + 1, -1)
        chosen[block] = np.arange(len(points))
        chosen = chosen[chosen >= 0]
        distances = np.zeros(block.max() + 1)
        distances[block[chosen]] = surface.query(points[chosen] * spacing)[0]
        farthest = max(farthest, float(distances.max()))
        points = points[distances[block] + np.linalg.norm((side - 1) * spacing) > farthest]
    return farthest


def _nearby(
    mask: NDArray[np.bool_], other: NDArray[np.bool_], spacing: NDArray[np.float64]
) -> tuple[float, NDArray[np.int64]]:
    """The longest distance of the pixels that lie near the other mask, and the coordinates of the pixels that do not.

    Gives up early where most pixels lie far away.
    """
    padded = np.pad(other, _NEAR).ravel()
    shape = np.array(other.shape) + 2 * _NEAR
    strides = np.append(np.cumprod(shape[:0:-1])[::-1], 1)
    offsets = np.indices((2 * _NEAR + 1,) * other.ndim).reshape(other.ndim, -1).T - _NEAR
    lengths = np.linalg.norm(offsets * spacing, axis=1)
    complete = lengths < (_NEAR + 1) * spacing.min()  # beyond, an offset outside of the cube may be shorter
    order = np.argsort(lengths[complete], kind="stable")
    pixels = (_points(mask) + _NEAR) @ strides
    farthest, start = 0.0, len(pixels)
    for tried, k in enumerate(np.flatnonzero(complete)[order]):
        if not len(pixels) or (tried == 3**other.ndim and len(pixels) > start // 2):
            break
        met = padded[pixels + offsets[k] @ strides]
        if met.any():
            farthest = float(lengths[k])
            pixels = pixels[~met]
    return farthest, np.column_stack(np.unravel_index(pixels, shape)) - _NEAR


def _points(mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """numpy's ``argwhere``, several times as fast for booleans of many dimensions."""
    return np.column_stack(np.unravel_index(np.flatnonzero(mask), mask.shape))


def _surface(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Pixels of a mask next to one that is not in it."""
    inside = mask.copy()
    for axis in range(mask.ndim):
        result, source = np.moveaxis(inside, axis, 0), np.moveaxis(mask, axis, 0)
        result[1:] &= source[:-1]
        result[:-1] &= source[1:]
    return mask & ~inside


def _bounding_box(mask: NDArray[np.bool_]) -> tuple[slice, ...]:
    """The smallest part of an array that holds all of a mask, which must not be empty."""
    box: list[slice] = []
    for axis in range(mask.ndim):
        marked = np.flatnonzero(mask.any(axis=tuple(k for k in range(mask.ndim) if k != axis)))
        box.append(slice(int(marked[0]), int(marked[-1]) + 1))
    return tuple(box)
