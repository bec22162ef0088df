"""Metrics of masks, most of them given as runs (see ``pytest_mlebench.data.authoring.rle``)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import KDTree

from pytest_mlebench.data.authoring.rle import Runs, common, difference, pixels


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


def volume_hausdorff_distance(a: Runs, b: Runs, shape: tuple[int, int, int], *, spacing: ArrayLike = 1.0) -> float:
    """``hausdorff_distance`` of masks as runs of a volume's voxels, flattened from ``shape`` in C order.

    Runs must be ascending and disjoint. What it takes goes by the number of voxels that are marked, not by the shape.

    >>> volume_hausdorff_distance(np.array([[0, 2]]), np.array([[0, 1], [4 * 10**9, 4 * 10**9 + 1]]), (10**9, 2, 2))
    1000000000.0
    """
    if not (len(a) and len(b)):
        raise ValueError("the Hausdorff distance of an empty mask is not defined")
    layer = shape[1] * shape[2]
    first = min(a[0, 0], b[0, 0]) // layer
    depth = int((max(a[-1, 1], b[-1, 1]) - 1) // layer - first + 1)
    a, b, shape = a - first * layer, b - first * layer, (depth, *shape[1:])
    if depth * layer <= _DENSE:
        return hausdorff_distance(_filled(a, shape), _filled(b, shape), spacing=spacing)
    step = np.broadcast_to(np.asarray(spacing, dtype=np.float64), len(shape))
    return max(_directed_volume_hausdorff(a, b, shape, step), _directed_volume_hausdorff(b, a, shape, step))


def _filled(runs: Runs, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    mask = np.zeros(shape, dtype=bool)
    mask.ravel()[pixels(runs)] = True
    return mask


def _directed_volume_hausdorff(
    mask: Runs, other: Runs, shape: tuple[int, int, int], spacing: NDArray[np.float64]
) -> float:
    inside = other
    for step in (1, shape[2], shape[1] * shape[2]):
        # Beyond an edge lies the next row: a voxel there may count as surface that is none, which does no harm.
        inside = common(common(inside, other + step), other - step)
    surface, points = (
        np.column_stack(np.unravel_index(pixels(runs), shape))
        for runs in (difference(other, inside), difference(mask, other))
    )
    return _farthest(points, surface, spacing, 0.0)


_DENSE = 1 << 25
"""Voxels up to which volumes are held as arrays; a day of scans has half as many at most."""
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
    return _farthest(points, _points(_surface(other)), spacing, farthest) if len(points) else farthest


def _farthest(
    points: NDArray[np.int64], surface: NDArray[np.int64], spacing: NDArray[np.float64], farthest: float
) -> float:
    """The longest distance of the points to the nearest of the surface, if it is longer than ``farthest``."""
    tree = KDTree(surface * spacing)
    for side in (16, 4, 1):
        if not len(points):
            break
        blocks = points // side
        block = np.ravel_multi_index(tuple(blocks.T), tuple(blocks.max(axis=0) + 1))
        if block.max() > _DENSE:
            block = np.unique(block, return_inverse=True)[1]
        chosen = np.full(block.max() + 1, -1)
        chosen[block] = np.arange(len(points))
        chosen = chosen[chosen >= 0]
        distances = np.zeros(block.max() + 1)
        distances[block[chosen]] = tree.query(points[chosen] * spacing)[0]
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
