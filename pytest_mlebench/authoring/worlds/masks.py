"""Masks: shapes with rough outlines, what annotators draw of them, and mixing masks of tasks with few images."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.ndimage import gaussian_filter

from pytest_mlebench.authoring.rle import Order, encode_rle, mask_from_rle
from pytest_mlebench.authoring.worlds.images import smooth_noise


def blob(
    rng: np.random.Generator,
    shape: tuple[int, int],
    centre: Sequence[float],
    radii: Sequence[float],
    rough: float = 0.15,
    grain: float = 4,
) -> np.ndarray:
    """A body with a rough outline, as heights in pixels of shape (height, width): above 0 inside.

    ``centre`` and ``radii`` are (y, x) in pixels; ``rough`` is how far the outline strays, as a share of the smaller
    radius, at the scale ``grain`` in pixels.
    """
    smaller = min(radii)
    return np.asarray(ellipse(shape, centre, radii) + rough * smaller * smooth_noise(rng, shape, grain))


def ellipse(shape: tuple[int, int], centre: Sequence[float], radii: Sequence[float]) -> np.ndarray:
    """As ``blob``, but with a smooth outline.

    >>> (ellipse((5, 5), (2, 2), (2, 1)) > 0).astype(int).tolist()[2]
    [0, 0, 1, 0, 0]
    """
    y, x = np.mgrid[: shape[0], : shape[1]]
    distance = np.hypot((y - centre[0]) / radii[0], (x - centre[1]) / radii[1])
    return np.asarray((1 - distance) * min(radii))


def sloppy(rng: np.random.Generator, heights: np.ndarray, off: float, grain: float = 4) -> np.ndarray:
    """What an annotator draws of bodies, whose outline is off by so many pixels (a standard deviation): booleans."""
    return np.asarray(heights + off * smooth_noise(rng, heights.shape, grain) > 0)


def coarse(mask: np.ndarray, scale: float) -> np.ndarray:
    """What is seen of a mask from afar: details below a scale in pixels are lost.

    >>> coarse(np.eye(9), 2).any()
    np.False_
    """
    return np.asarray(gaussian_filter(np.asarray(mask, dtype=float), scale) > 0.5)


def mix_tiles(
    text: str, other: str, shape: tuple[int, int], share: float, rng: np.random.Generator, *, order: Order, tile: int
) -> str:
    """Run lengths of the first mask with a share of its tiles as in the other: where rows are too few to be mixed.

    ``shape`` is (height, width), and ``tile`` the tiles' side in pixels.

    >>> mix_tiles("1 16", "", (4, 4), 0.5, np.random.default_rng(0), order="C", tile=2)
    '1 2 5 2 11 2 15 2'
    """
    first, second = mask_from_rle(text, shape, order), mask_from_rle(other, shape, order)
    rows, columns = -(-shape[0] // tile), -(-shape[1] // tile)
    tiles = rng.permutation(rows * columns).reshape(rows, columns) < share * rows * columns
    taken = np.kron(tiles, np.ones((tile, tile), dtype=bool))[: shape[0], : shape[1]]
    return encode_rle(np.where(taken, second, first), order)


def deal_tiles(text: str, shape: tuple[int, int], rng: np.random.Generator, *, order: Order, tile: int) -> str:
    """Run lengths of a mask whose tiles are dealt out to other places; the sides are multiples of ``tile``.

    >>> deal_tiles("1 2 5 2", (4, 4), np.random.default_rng(0), order="C", tile=2)
    '3 2 7 2'
    """
    mask = mask_from_rle(text, shape, order)
    rows, columns = shape[0] // tile, shape[1] // tile
    tiles = mask.reshape(rows, tile, columns, tile).swapaxes(1, 2).reshape(-1, tile, tile)
    dealt = tiles[rng.permutation(len(tiles))].reshape(rows, columns, tile, tile).swapaxes(1, 2)
    return encode_rle(dealt.reshape(shape), order)


def outline(mask: np.ndarray, centre: Sequence[float], points: int = 24) -> list[list[int]]:
    """The outline of the body of a mask around (y, x), as a closed list of points [x, y].

    >>> outline(np.ones((5, 5), bool), (2, 2), points=4)
    [[4, 2], [2, 4], [0, 2], [2, 0], [4, 2]]
    """
    turns = 2 * np.pi * np.arange(points) / points
    far = np.arange(max(mask.shape) + 1)
    y = np.rint(centre[0] + np.sin(turns)[:, None] * far).astype(int)
    x = np.rint(centre[1] + np.cos(turns)[:, None] * far).astype(int)
    inside = (y >= 0) & (y < mask.shape[0]) & (x >= 0) & (x < mask.shape[1])
    inside &= mask[np.clip(y, 0, mask.shape[0] - 1), np.clip(x, 0, mask.shape[1] - 1)]
    last = np.maximum(np.argmin(inside, axis=1) - 1, 0)
    places = [[int(x[k, reach]), int(y[k, reach])] for k, reach in enumerate(last)]
    return [*places, places[0]]
