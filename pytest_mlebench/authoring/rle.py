"""Run-length encoded masks: strings such as ``1 3 10 5`` for the pixels 1 to 3 and 10 to 14, counted from 1.

In memory, runs are an int64 array of shape (runs, 2): intervals [start, stop) of the flattened mask, counted from 0,
ascending and disjoint. A mask needs memory only for its runs, even if it has 10⁹ pixels.
"""

from __future__ import annotations

import json
import random
from collections.abc import Hashable, Iterable, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from pytest_mlebench.authoring.files import link_files
from pytest_mlebench.authoring.tables import reads_as, split
from pytest_mlebench.errors import DataError

Runs = NDArray[np.int64]
Masks = tuple[Runs, NDArray[np.intp]]
"""The concatenated runs of many masks, and for each run the index of its mask."""
Order = Literal["C", "F"]
"""Order of the pixels: ``F`` column by column, from the top; ``C`` row by row, from the left."""


def encode_rle(mask: ArrayLike, order: Order = "F") -> str:
    """Encode a mask, of shape (height, width), as a string. Nonzero pixels are marked; an empty mask gives ``""``.

    >>> encode_rle([[1, 1, 0], [1, 0, 1]])
    '1 3 6 1'
    """
    flat = np.asarray(mask).ravel(order) != 0
    runs = np.flatnonzero(np.diff(np.concatenate([[False], flat, [False]]).astype(np.int8))).reshape(-1, 2)
    return " ".join(f"{start + 1} {stop - start}" for start, stop in runs)


def decode_rle(text: str, size: int) -> Runs:
    """Decode a string to the runs of a mask with ``size`` pixels; a blank string is an empty mask.

    Raises ValueError if a number is not a 64-bit integer in Python's syntax, a start or length is not positive, starts
    are not ascending, or a pixel is marked twice. Runs may touch; pixels beyond the last one are ignored. Following
    numpy's broadcasting, a single number marks nothing, and with three numbers, the length applies to both starts.
    Other odd counts raise ValueError.

    >>> decode_rle("1 3 10 5", size=12)
    array([[ 0,  3],
           [ 9, 12]])
    """
    if not (pieces := text.split()):
        return np.empty((0, 2), dtype=np.int64)
    numbers = _whole_numbers(pieces)
    starts, lengths = numbers[::2], numbers[1::2]
    if len(numbers) % 2 and len(numbers) > 3:
        raise ValueError(f"it has {len(numbers)} numbers; pairs of start and length were expected")
    if (starts[1:] < starts[:-1]).any():
        raise ValueError("the starts of its runs are not in ascending order")
    if (numbers <= 0).any():
        raise ValueError(f"starts and lengths must be above 0, not {numbers[numbers <= 0][0]}")
    if len(numbers) == 1:
        return np.empty((0, 2), dtype=np.int64)
    starts = np.minimum(starts - 1, size)
    stops = np.minimum(starts + np.minimum(lengths, size), size)
    starts, stops = starts[starts < size], stops[starts < size]
    if (twice := starts[1:] < stops[:-1]).any():
        raise ValueError(f"pixel {starts[1:][twice][0] + 1} is marked twice")
    return np.column_stack([starts, stops])


def decode_rles(texts: Sequence[str], sizes: ArrayLike) -> Masks:
    """Decode many strings as ``decode_rle`` does, several times as fast. ``sizes`` has shape (strings,).

    Raises ValueError, which does not say which string is invalid.

    >>> runs, masks = decode_rles(["1 3 10 5", "", "2 1"], sizes=[12, 12, 12])
    >>> runs.tolist(), masks.tolist()
    ([[0, 3], [9, 12], [1, 2]], [0, 0, 2])
    """
    pieces = [text.split() for text in texts]
    counts = np.fromiter(map(len, pieces), dtype=np.int64, count=len(pieces))
    if (counts % 2).any():  # odd counts are rare, and have special rules
        masks = [decode_rle(text, size) for text, size in zip(texts, np.asarray(sizes).tolist(), strict=True)]
        return np.concatenate(masks), np.repeat(np.arange(len(masks)), [len(runs) for runs in masks])
    numbers = _whole_numbers(list(chain.from_iterable(pieces)))
    mask = np.repeat(np.arange(len(counts)), counts // 2)
    starts, lengths = numbers[::2], numbers[1::2]
    descends = (starts[1:] < starts[:-1]) & (mask[1:] == mask[:-1])
    if descends.any() or (numbers <= 0).any():
        raise ValueError("a start or a length is invalid")
    size = np.asarray(sizes, dtype=np.int64)[mask]
    is_inside = starts <= size
    starts, lengths, size, mask = starts[is_inside] - 1, lengths[is_inside], size[is_inside], mask[is_inside]
    stops = np.minimum(starts + np.minimum(lengths, size), size)
    if ((starts[1:] < stops[:-1]) & (mask[1:] == mask[:-1])).any():
        raise ValueError("a pixel is marked twice")
    return np.column_stack([starts, stops]), mask


def mask_from_rle(text: str, shape: tuple[int, int], order: Order = "F") -> NDArray[np.bool_]:
    """Decode a string to a boolean mask of ``shape`` (height, width). Raises ValueError as ``decode_rle`` does.

    >>> mask_from_rle("1 3 6 1", (2, 3)).astype(int)
    array([[1, 1, 0],
           [1, 0, 1]])
    """
    size = shape[0] * shape[1]
    mask = np.zeros(size, dtype=bool)
    mask[pixels(decode_rle(text, size))] = True
    return mask.reshape(shape, order=order)


def pixels(runs: Runs) -> NDArray[np.int64]:
    """Return the indices of all pixels in runs, counted from 0, in the order of the runs: shape (pixels,).

    >>> pixels(np.array([[0, 3], [9, 11]]))
    array([ 0,  1,  2,  9, 10])
    """
    lengths = runs[:, 1] - runs[:, 0]
    before = np.cumsum(lengths) - lengths
    return np.repeat(runs[:, 0] - before, lengths) + np.arange(lengths.sum())


def cut(runs: Runs, length: int) -> Runs:
    """Split runs at multiples of ``length``, for example at the ends of rows.

    >>> cut(np.array([[0, 3], [9, 22]]), 10)
    array([[ 0,  3],
           [ 9, 10],
           [10, 20],
           [20, 22]])
    """
    first = runs[:, 0] // length
    counts = (runs[:, 1] - 1) // length - first + 1
    if (counts == 1).all():
        return runs
    line = pixels(np.column_stack([first, first + counts])) * length
    starts, stops = (np.repeat(ends, counts) for ends in runs.T)
    return np.column_stack([np.maximum(starts, line), np.minimum(stops, line + length)])


def union(runs: Runs) -> Runs:
    """Merge runs in any order, which may overlap, into ascending, disjoint runs of the same pixels.

    >>> union(np.array([[9, 11], [0, 3], [2, 5], [5, 6]]))
    array([[ 0,  6],
           [ 9, 11]])
    """
    if not len(runs):
        return runs
    runs = runs[np.argsort(runs[:, 0])]
    reach = np.maximum.accumulate(runs[:, 1])
    is_first = np.concatenate([[True], runs[1:, 0] > reach[:-1]])
    return np.column_stack([runs[is_first, 0], reach[np.roll(is_first, -1)]])


def common(a: Runs, b: Runs) -> Runs:
    """Return the runs of the pixels in both masks. Each mask's runs must be disjoint, but can be in any order.

    >>> common(np.array([[0, 3], [9, 14]]), np.array([[2, 11]]))
    array([[ 2,  3],
           [ 9, 11]])
    """
    return _overlay(a, b, 1, 2)


def difference(a: Runs, b: Runs) -> Runs:
    """Return the runs of the pixels that are only in the first mask. Arguments are those of ``common``.

    >>> difference(np.array([[0, 3], [9, 14]]), np.array([[2, 11]]))
    array([[ 0,  2],
           [11, 14]])
    """
    return _overlay(a, b, 2, 1)


def _overlay(a: Runs, b: Runs, weight: int, wanted: int) -> Runs:
    """Return the runs of pixels whose weights, 1 in ``a`` and ``weight`` in ``b``, sum to ``wanted``."""
    edges = np.concatenate([a[:, 0], b[:, 0], a[:, 1], b[:, 1]])
    steps = np.repeat(np.array([1, weight, -1, -weight], dtype=np.int8), [len(a), len(b), len(a), len(b)])
    order = np.argsort(edges)
    edges, sums = edges[order], np.cumsum(steps[order], dtype=np.int32)
    is_run = (sums[:-1] == wanted) & (edges[:-1] < edges[1:])
    return np.column_stack([edges[:-1][is_run], edges[1:][is_run]])


def _whole_numbers(pieces: list[str]) -> NDArray[np.int64]:
    try:
        return np.fromiter(map(int, pieces), dtype=np.int64, count=len(pieces))
    except OverflowError as error:
        raise ValueError("it has a number of more than 18 digits") from error
    except ValueError as error:
        invalid = next(piece for piece in pieces if not reads_as(int, piece))
        raise ValueError(f"{invalid[:40]!r} is not a whole number") from error


Metadata = dict[str, Any]


def read_metadata(path: Path, encoding: str = "utf-8") -> Metadata:
    """Read COCO-style metadata. Raises DataError unless the k-th annotation belongs to the k-th image."""
    try:
        with path.open(encoding=encoding) as file:
            metadata: Metadata = json.load(file)
    except FileNotFoundError as error:
        raise DataError(f"file {path} is missing in the raw data") from error
    ids = [image["id"] if "id" in image else image["image_id"] for image in metadata["images"]]
    if ids != [annotation["image_id"] for annotation in metadata["annotations"]]:
        raise DataError(f"{path}: there must be one annotation for each image, in the same order")
    return metadata


def write_metadata(metadata: Any, path: Path) -> None:
    """Write ASCII JSON with sorted keys and an indent of four, without a final newline."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("x", encoding="ascii") as file:
        json.dump(metadata, file, indent=4, sort_keys=True)


def select(metadata: Metadata, positions: Iterable[int]) -> Metadata:
    """Return the metadata with only the annotations and images at these positions, in this order."""
    chosen = list(positions)
    return {**metadata, **{key: [metadata[key][k] for k in chosen] for key in ("annotations", "images")}}


def hold_out_by_category(
    metadata: Metadata, image_folder: Path, train_folder: Path, test_folder: Path, *, test_size: float
) -> list[Any]:
    """Split images into two folders, each with a ``metadata.json``; returns the test images' categories in order.

    Training images keep their paths. Test images are renumbered from 0: image 1234 is ``images/001/1234.jpg`` and has
    the id "1234". Their metadata has only images, info and licenses. ``test_size`` is a share of each category.
    """
    categories = [annotation["category_id"] for annotation in metadata["annotations"]]
    train, test = split_by_category(categories, test_size)
    write_metadata(select(metadata, train), train_folder / "metadata.json")
    link_files((metadata["images"][position]["file_name"] for position in train), image_folder, train_folder)

    images = [metadata["images"][position] for position in test]
    names = [f"images/{k // 1000:03d}/{k}.jpg" for k in range(len(test))]
    renamed = [
        {**image, "id": str(k), "file_name": name} for k, (image, name) in enumerate(zip(images, names, strict=True))
    ]
    common = {key: metadata[key] for key in ("info", "licenses")}
    write_metadata({"images": renamed, **common}, test_folder / "metadata.json")
    link_files(dict(zip((image["file_name"] for image in images), names, strict=True)), image_folder, test_folder)
    return [categories[position] for position in test]


def split_by_category(categories: Sequence[Hashable], test_size: float, *, few: int = 5) -> tuple[list[int], list[int]]:
    """Split each category separately; returns the positions of training and test rows.

    A category with fewer than ``few`` rows adds its last row to the test set, or none if it has a single row. Others
    are split by ``tables.split``. Training rows are grouped by category, in order of first appearance; test rows are
    shuffled.
    """
    train: list[int] = []
    test: list[int] = []
    by_category = pd.Series(range(len(categories))).groupby(list(categories), sort=False).indices
    for positions in by_category.values():
        kept, held_out = _split_places(len(positions), test_size, few)
        train += np.asarray(positions)[kept].tolist()
        test += np.asarray(positions)[held_out].tolist()
    random.Random(0).shuffle(test)
    return train, test


@cache  # the split depends only on the number of rows
def _split_places(n: int, test_size: float, few: int) -> tuple[list[int], list[int]]:
    places = list(range(n))
    if n >= few:
        return split(places, test_size=test_size)
    return (places[:-1], places[-1:]) if n > 1 else (places, [])
