"""Metrics of masks, mostly given as runs (see ``pytest_mlebench.authoring.rle``)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.ndimage import distance_transform_edt, find_objects

from pytest_mlebench.authoring.rle import Masks, Runs, common, cut, difference, pixels


def area(runs: Runs) -> int:
    """Return the number of pixels in a mask, given as runs of shape (runs, 2)."""
    return int((runs[:, 1] - runs[:, 0]).sum())


def intersection(a: Runs, b: Runs) -> int:
    """Return the number of pixels in both masks. Each must have disjoint runs; those of ``a`` must be ascending.

    >>> intersection(np.array([[0, 3], [9, 14]]), np.array([[2, 11]]))
    3
    """
    return int(_covered(a, b).sum())


def _covered(a: Runs, b: Runs) -> NDArray[np.int64]:
    """Count the pixels of each run of ``b`` that are in ``a``, whose runs are ascending and disjoint."""
    if not len(a):
        return np.zeros(len(b), dtype=np.int64)
    before = np.concatenate([[0], np.cumsum(a[:, 1] - a[:, 0])])  # pixels of a before each of its runs
    run = np.searchsorted(a[:, 0], b, side="right") - 1  # the run of a that begins at or before each end of b
    covered = np.where(run < 0, 0, before[run] + np.minimum(b, a[run, 1]) - a[run, 0])
    return np.asarray(covered[:, 1] - covered[:, 0])


def join(masks: Sequence[Runs], sizes: Iterable[int]) -> Runs:
    """Concatenate many masks into one; ``sizes`` are the masks' total numbers of pixels, marked or not.

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

    Range [0, 1], 1 is perfect. This equals the F1 score of the pixels. Source: Dice (1945).

    >>> dice(np.array([[0, 4]]), np.array([[2, 6]]))
    0.5
    """
    return fbeta(y_true, y_pred, beta=1, empty=empty)


def dices(y_true: Masks, y_pred: Masks, sizes: ArrayLike, *, empty: float = 1.0) -> NDArray[np.float64]:
    """Return the ``dice`` of many pairs of masks: shape (pairs,). ``sizes`` are the pairs' total numbers of pixels.

    >>> masks = np.array([[0, 4], [0, 2]]), np.array([0, 1])
    >>> dices(masks, (np.array([[2, 6]]), np.array([0])), sizes=[10, 10, 10])
    array([0.5, 0. , 1. ])
    """
    size = np.asarray(sizes, dtype=np.int64)
    offsets = np.cumsum(size) - size
    a, b = (runs + offsets[mask, None] for runs, mask in (y_true, y_pred))
    areas = [np.bincount(mask, runs[:, 1] - runs[:, 0], len(size)) for runs, mask in (y_true, y_pred)]
    both = np.bincount(y_pred[1], _covered(a, b), len(size))
    total = areas[0] + areas[1]
    return np.where(total > 0, 2 * both / np.maximum(total, 1), empty)


def fbeta(y_true: Runs, y_pred: Runs, *, beta: float, empty: float = 0.0) -> float:
    """F-beta score of the pixels of a mask: (1 + β²)·|A ∩ B| / (β²·|A| + |B|), ``empty`` if both are empty.

    Range [0, 1], 1 is perfect; β < 1 gives more weight to precision than to recall. This equals scikit-learn's
    ``fbeta_score`` of the flattened masks. Source: van Rijsbergen (1979), Information Retrieval.

    >>> fbeta(np.array([[0, 4]]), np.array([[2, 4]]), beta=0.5)
    0.8333333333333334
    """
    total = beta**2 * area(y_true) + area(y_pred)
    return (1 + beta**2) * intersection(y_true, y_pred) / total if total else empty


def hausdorff_distance(a: ArrayLike, b: ArrayLike, *, spacing: ArrayLike = 1.0) -> float:
    """Hausdorff distance: the maximum distance from a pixel of either mask to the nearest pixel of the other mask.

    ``a`` and ``b`` are boolean arrays of the same shape, with any number of dimensions. ``spacing`` is the step length
    in each dimension. Distances are Euclidean. Range [0, ∞), 0 if the masks are equal. Raises ValueError if a mask is
    empty. Source: Huttenlocher et al. (1993), Comparing images using the Hausdorff distance; Hausdorff (1914).

    >>> hausdorff_distance([[1, 0, 0, 0], [0, 0, 0, 0]], [[1, 0, 0, 0], [0, 0, 0, 1]])
    3.1622776601683795
    """
    first, second = np.asarray(a, dtype=bool), np.asarray(b, dtype=bool)
    if not (first.any() and second.any()):
        raise ValueError("the Hausdorff distance of an empty mask is not defined")
    step = np.broadcast_to(np.asarray(spacing, dtype=np.float64), first.ndim)
    (box,) = find_objects((first | second).view(np.uint8))  # the bounding box of both
    first, second = first[box], second[box]
    return max(_directed_hausdorff(first, second, step), _directed_hausdorff(second, first, step))


def volume_hausdorff_distance(a: Runs, b: Runs, shape: tuple[int, int, int], *, spacing: ArrayLike = 1.0) -> float:
    """Return the ``hausdorff_distance`` of masks as runs of a volume's voxels, flattened from ``shape`` in C order.

    Runs must be ascending and disjoint. Time and memory depend on the number of marked voxels, not on the shape.

    >>> volume_hausdorff_distance(np.array([[0, 2]]), np.array([[0, 1], [4 * 10**9, 4 * 10**9 + 1]]), (10**9 + 1, 2, 2))
    1000000000.0
    """
    if not (len(a) and len(b)):
        raise ValueError("the Hausdorff distance of an empty mask is not defined")
    a, b, shape = _cropped(a, b, shape)
    if math.prod(shape) <= _DENSE:
        return hausdorff_distance(_filled(a, shape), _filled(b, shape), spacing=spacing)
    step = np.broadcast_to(np.asarray(spacing, dtype=np.float64), len(shape))
    return max(_directed_volume_hausdorff(a, b, shape, step), _directed_volume_hausdorff(b, a, shape, step))


def _cropped(a: Runs, b: Runs, shape: tuple[int, int, int]) -> tuple[Runs, Runs, tuple[int, int, int]]:
    """Crop two masks to their common bounding box; returns the masks and the box's shape."""
    lines = [cut(runs, shape[2]) for runs in (a, b)]
    firsts = [np.column_stack(np.unravel_index(runs[:, 0], shape)) for runs in lines]
    lengths = [runs[:, 1] - runs[:, 0] for runs in lines]
    low = np.min([first.min(axis=0) for first in firsts], axis=0)
    high = np.max([first.max(axis=0) for first in firsts], axis=0)
    high[2] = max(int((first[:, 2] + length).max()) for first, length in zip(firsts, lengths, strict=True)) - 1
    depth, height, width = map(int, high - low + 1)
    steps = np.array([height * width, width, 1])
    starts = [(first - low) @ steps for first in firsts]
    a, b = (np.column_stack([start, start + length]) for start, length in zip(starts, lengths, strict=True))
    return a, b, (depth, height, width)


def _filled(runs: Runs, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    mask = np.zeros(shape, dtype=bool)
    mask.ravel()[pixels(runs)] = True
    return mask


def _directed_volume_hausdorff(
    mask: Runs, other: Runs, shape: tuple[int, int, int], spacing: NDArray[np.float64]
) -> float:
    inside = other
    for step in (1, shape[2], shape[1] * shape[2]):
        # At an edge, the neighbour is in the next row, so an inner voxel may count as surface, which is harmless.
        inside = common(common(inside, other + step), other - step)
    surface, points = (
        np.column_stack(np.unravel_index(pixels(runs), shape))
        for runs in (difference(other, inside), difference(mask, other))
    )
    return _farthest(points, surface, spacing, 0.0)


_DENSE = 1 << 25
"""Maximum number of voxels of volumes that are stored as arrays; a day of scans has at most half as many."""
_NEAR = 3
"""Steps along each axis within which the nearest pixel is searched for by trying offsets, before a tree is built."""
_MANY = 200_000
"""With more pixels than this, irrelevant ones are excluded first, by comparing cells of many pixels."""
_CELLS = 1 << 17
_FEW = 20_000
"""With at most this many pixels, a tree is always queried."""
_BOX = 1 << 21
"""Maximum number of voxels of a box for which all distances cost less than many queries of a tree."""


def _directed_hausdorff(mask: NDArray[np.bool_], other: NDArray[np.bool_], spacing: NDArray[np.float64]) -> float:
    """Return the maximum distance from a pixel of a mask to the nearest pixel of the other mask.

    Compared masks are mostly close to each other. So offsets are tried in order of length, until each pixel has met the
    other mask. For more distant pixels, a tree of the other mask's surface is queried.
    """
    outside = _points(mask & ~other)
    farthest = 0.0
    if 0 < len(outside) <= _MANY:
        farthest, outside = _nearby(outside, other, spacing)
    return _farthest(outside, _points(_surface(other)), spacing, farthest) if len(outside) else farthest


def _farthest(
    points: NDArray[np.int64], surface: NDArray[np.int64], spacing: NDArray[np.float64], farthest: float
) -> float:
    """Return the maximum distance of the points to the surface, or ``farthest`` if that is larger.

    The tree is queried for one point in each block. The results are upper bounds for the points around it. Points that
    may be farther away than the maximum so far are queried in smaller blocks.
    """
    from sklearn.neighbors import KDTree  # scipy's visits all of a flat surface that crosses its splits

    points, farthest = _far_in_box(points, surface, spacing, farthest)
    if not len(points):
        return farthest
    if max(len(points), len(surface)) > _MANY:
        points, surface = _candidates(points, surface, spacing)
    surface_at, points_at = surface * spacing, points * spacing
    tree = KDTree(surface_at)
    bounds = np.full(len(points), np.inf)  # squared
    low = points.min(axis=0)
    for side in (16, 8, 4, 2, 1):
        if not len(points):
            break
        blocks = (points - low) // side + 1
        shape = blocks.max(axis=0) + 2
        strides = np.append(np.cumprod(shape[:0:-1])[::-1], 1)
        block = blocks @ strides
        order = np.lexsort((bounds, block))
        last = np.append(block[order][1:] != block[order][:-1], True)
        queried = order[last]  # the point of each block that may be farthest away
        nearest = tree.query(points_at[queried], return_distance=False)[:, 0]
        lengths = np.linalg.norm((points[queried] - surface[nearest]) * spacing, axis=1)
        farthest = max(farthest, float(lengths.max()))
        if len(points) > _MANY and side * spacing.max() > farthest:
            continue  # blocks are too large for one point's result to exclude the others
        least = (farthest * (1 + 1e-12)) ** 2
        known = block[queried]
        for step in (0, *strides, *-strides):
            index = np.minimum(np.searchsorted(known, block + step), len(known) - 1)
            offset = points_at - surface_at[nearest[index]]
            length = np.where(known[index] == block + step, np.einsum("ij,ij->i", offset, offset), np.inf)
            bounds = np.minimum(bounds, length)
            if not (kept := bounds > least).all():
                points, points_at, bounds, block = points[kept], points_at[kept], bounds[kept], block[kept]
    return farthest


def _far_in_box(
    points: NDArray[np.int64], surface: NDArray[np.int64], spacing: NDArray[np.float64], farthest: float
) -> tuple[NDArray[np.int64], float]:
    """Return the points that may be farthest away, and an updated maximum, which no other point exceeds.

    Computes distances in a box around the points, if there are many points and the box is small.
    """
    if len(points) <= _FEW:
        return points, farthest
    ranges = [(k.min(), k.max(), of.min(), of.max()) for k, of in zip(points.T, surface.T, strict=True)]
    low = np.array([max(least - _NEAR, min(least, other)) for least, _, other, _ in ranges])
    high = np.array([min(most + _NEAR, max(most, other)) for _, most, _, other in ranges])
    if np.prod(high - low + 1) > _BOX:
        return points, farthest
    is_inside = np.ones(len(surface), dtype=bool)
    for axis, of_axis in enumerate(surface.T):
        is_inside &= (of_axis >= low[axis]) & (of_axis <= high[axis])
    if not is_inside.any():
        return points, farthest
    is_free = np.ones(high - low + 1, dtype=bool)
    is_free[tuple((surface[is_inside] - low).T)] = False
    nearest = distance_transform_edt(is_free, sampling=spacing, return_distances=False, return_indices=True)
    place = tuple((points - low).T)
    squares, reach = np.zeros(len(points)), np.full(len(points), np.inf)
    for axis, (_, _, least, most) in enumerate(ranges):
        squares += ((place[axis] - nearest[axis][place]) * spacing[axis]) ** 2
        if least < low[axis]:
            reach = np.minimum(reach, (place[axis] + 1) * spacing[axis])
        if most > high[axis]:
            reach = np.minimum(reach, (high[axis] - low[axis] + 1 - place[axis]) * spacing[axis])
    lengths = np.sqrt(squares)
    is_nearest = lengths <= reach  # no surface outside of the box is nearer
    farthest = max(farthest, float(lengths[is_nearest].max(initial=0)))
    return points[~is_nearest & (lengths > farthest)], farthest


def _candidates(
    points: NDArray[np.int64], surface: NDArray[np.int64], spacing: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the points that may be farthest from the surface, and the surface that may be nearest to one of them.

    The distance of two points differs from that of their cells' centres by at most ``slack``.
    """
    low = np.minimum(points.min(axis=0), surface.min(axis=0))
    extent = np.maximum(points.max(axis=0), surface.max(axis=0)) - low + 1
    width = spacing.min()
    while np.prod(np.ceil(extent / _cell(width, spacing))) > _CELLS:
        width *= 1.25
    cell = _cell(width, spacing)
    shape = tuple(-(-extent // cell))
    strides = np.append(np.cumprod(shape[:0:-1])[::-1], 1)
    places = [np.arange(extent[axis]) // cell[axis] * strides[axis] for axis in range(len(shape))]
    of_points, of_surface = (
        sum(place[of_axis - first] for place, of_axis, first in zip(places, k.T, low, strict=True))
        for k in (points, surface)
    )
    slack = float(np.linalg.norm((cell - 1) * spacing)) * (1 + 1e-9)
    distances = _distances(of_surface, shape, cell * spacing)[of_points]
    is_candidate = distances >= distances.max() - 2 * slack
    reach = _distances(of_points[is_candidate], shape, cell * spacing)[of_surface]
    return points[is_candidate], surface[reach <= distances.max() + 2 * slack]


def _cell(width: float, spacing: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.maximum(np.rint(width / spacing), 1).astype(np.int64)


def _distances(cells: NDArray[np.int64], shape: tuple[int, ...], sampling: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the distance from each cell's centre to the centre of the nearest given cell."""
    is_free = np.ones(shape, dtype=bool)
    is_free.ravel()[cells] = False
    return np.ravel(distance_transform_edt(is_free, sampling=sampling))


def _nearby(
    points: NDArray[np.int64], other: NDArray[np.bool_], spacing: NDArray[np.float64]
) -> tuple[float, NDArray[np.int64]]:
    """Return the maximum distance of points near a mask, and the other points; stops early if most are far away."""
    padded = np.pad(other, _NEAR).ravel()
    shape = np.array(other.shape) + 2 * _NEAR
    strides = np.append(np.cumprod(shape[:0:-1])[::-1], 1)
    offsets = np.indices((2 * _NEAR + 1,) * other.ndim).reshape(other.ndim, -1).T - _NEAR
    lengths = np.linalg.norm(offsets * spacing, axis=1)
    complete = lengths < (_NEAR + 1) * spacing.min()  # for longer ones, an offset outside of the cube may be shorter
    order = np.argsort(lengths[complete], kind="stable")
    pixels = (points + _NEAR) @ strides
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
    """Return numpy's ``argwhere``, several times as fast for booleans with many dimensions."""
    return np.column_stack(np.unravel_index(np.flatnonzero(mask), mask.shape))


def _surface(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the pixels of a mask that are next to a pixel outside of it."""
    inside = mask.copy()
    for axis in range(mask.ndim):
        result, source = np.moveaxis(inside, axis, 0), np.moveaxis(mask, axis, 0)
        result[1:] &= source[:-1]
        result[:-1] &= source[1:]
    return mask & ~inside
