"""Masks as run lengths: text such as ``1 3 10 5`` for the pixels 1 to 3 and 10 to 14, counted from 1.

In memory runs are an int64 array of shape (runs, 2): intervals [start, stop) of the flattened mask, counted from 0,
ascending and disjoint. A mask of 10⁹ pixels takes no more memory than its runs.
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
"""The runs of many masks, one mask's behind the other's, and for each run the number of its mask."""
Order = Literal["C", "F"]
"""How pixels are numbered: ``F`` down the first column, then the next; ``C`` along the first row, then the next."""


def encode_rle(mask: ArrayLike, order: Order = "F") -> str:
    """The text of a mask (nonzero is marked); empty text for an empty mask.

    >>> encode_rle([[1, 1, 0], [1, 0, 1]])
    '1 3 6 1'
    """
    flat = np.asarray(mask).ravel(order) != 0
    runs = np.flatnonzero(np.diff(np.concatenate([[False], flat, [False]]).astype(np.int8))).reshape(-1, 2)
    return " ".join(f"{start + 1} {stop - start}" for start, stop in runs)


def decode_rle(text: str, size: int) -> Runs:
    """The runs of a text, for a mask of ``size`` pixels; empty and blank text is the empty mask.

    Numbers are what Python's ``int`` takes, starts must not descend, starts and lengths be above 0, and no pixel may
    be marked twice; otherwise ValueError says what is wrong. Runs that touch are fine, and what lies beyond the last
    pixel is left out. As numpy's broadcasting has it, one number alone marks nothing, and of three numbers the only
    length serves both starts; other odd counts raise.

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
        raise ValueError(f"starts and lengths must be above 0, which {numbers[numbers <= 0][0]} is not")
    if len(numbers) == 1:
        return np.empty((0, 2), dtype=np.int64)
    starts = np.minimum(starts - 1, size)
    stops = np.minimum(starts + np.minimum(lengths, size), size)
    starts, stops = starts[starts < size], stops[starts < size]
    if (twice := starts[1:] < stops[:-1]).any():
        raise ValueError(f"pixel {starts[1:][twice][0] + 1} is marked twice")
    return np.column_stack([starts, stops])


def decode_rles(texts: Sequence[str], sizes: ArrayLike) -> Masks:
    """``decode_rle`` of many texts at once, several times as fast.

    A ValueError does not say which text is wrong, nor how.

    >>> runs, masks = decode_rles(["1 3 10 5", "", "2 1"], sizes=[12, 12, 12])
    >>> runs.tolist(), masks.tolist()
    ([[0, 3], [9, 12], [1, 2]], [0, 0, 2])
    """
    pieces = [text.split() for text in texts]
    counts = np.fromiter(map(len, pieces), dtype=np.int64, count=len(pieces))
    if (counts % 2).any():  # an odd count is rare, and has rules of its own
        masks = [decode_rle(text, size) for text, size in zip(texts, np.asarray(sizes).tolist(), strict=True)]
        return np.concatenate(masks), np.repeat(np.arange(len(masks)), [len(runs) for runs in masks])
    numbers = _whole_numbers(list(chain.from_iterable(pieces)))
    mask = np.repeat(np.arange(len(counts)), counts // 2)
    starts, lengths = numbers[::2], numbers[1::2]
    descends = (starts[1:] < starts[:-1]) & (mask[1:] == mask[:-1])
    if descends.any() or (numbers <= 0).any():
        raise ValueError("a start or a length is wrong")
    size = np.asarray(sizes, dtype=np.int64)[mask]
    is_inside = starts <= size
    starts, lengths, size, mask = starts[is_inside] - 1, lengths[is_inside], size[is_inside], mask[is_inside]
    stops = np.minimum(starts + np.minimum(lengths, size), size)
    if ((starts[1:] < stops[:-1]) & (mask[1:] == mask[:-1])).any():
        raise ValueError("a pixel is marked twice")
    return np.column_stack([starts, stops]), mask


def mask_from_rle(text: str, shape: tuple[int, int], order: Order = "F") -> NDArray[np.bool_]:
    """The mask of a text as booleans of the shape (height, width); raises as ``decode_rle`` does.

    >>> mask_from_rle("1 3 6 1", (2, 3)).astype(int)
    array([[1, 1, 0],
           [1, 0, 1]])
    """
    size = shape[0] * shape[1]
    mask = np.zeros(size, dtype=bool)
    mask[pixels(decode_rle(text, size))] = True
    return mask.reshape(shape, order=order)


def pixels(runs: Runs) -> NDArray[np.int64]:
    """The numbers of all pixels in runs, counted from 0, in the runs' order.

    >>> pixels(np.array([[0, 3], [9, 11]]))
    array([ 0,  1,  2,  9, 10])
    """
    lengths = runs[:, 1] - runs[:, 0]
    before = np.cumsum(lengths) - lengths
    return np.repeat(runs[:, 0] - before, lengths) + np.arange(lengths.sum())


def cut(runs: Runs, length: int) -> Runs:
    """Runs of the same pixels, none of which goes beyond a multiple of ``length``.

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
    """Ascending, disjoint runs of the same pixels, from runs in any order that may overlap.

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
    """The runs of the pixels in both masks, whose runs are disjoint, but in any order.

    >>> common(np.array([[0, 3], [9, 14]]), np.array([[2, 11]]))
    array([[ 2,  3],
           [ 9, 11]])
    """
    return _overlay(a, b, 1, 2)


def difference(a: Runs, b: Runs) -> Runs:
    """The runs of the pixels in the first mask alone, as ``common``.

    >>> difference(np.array([[0, 3], [9, 14]]), np.array([[2, 11]]))
    array([[ 0,  2],
           [11, 14]])
    """
    return _overlay(a, b, 2, 1)


def _overlay(a: Runs, b: Runs, weight: int, wanted: int) -> Runs:
    """The runs of the pixels whose weights, 1 in ``a`` and ``weight`` in ``b``, sum to ``wanted``."""
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
        wrong = next(piece for piece in pieces if not reads_as(int, piece))
        raise ValueError(f"{wrong[:40]!r} is not a whole number") from error


Metadata = dict[str, Any]


def read_metadata(path: Path, encoding: str = "utf-8") -> Metadata:
    """Read metadata; DataError unless the k-th annotation belongs to the k-th image."""
    try:
        with path.open(encoding=encoding) as file:
            metadata: Metadata = json.load(file)
    except FileNotFoundError as error:
        raise DataError(f"file {path} is missing in the raw data") from error
    ids = [image["id"] if "id" in image else image["image_id"] for image in metadata["images"]]
    if ids != [annotation["image_id"] for annotation in metadata["annotations"]]:
        raise DataError(f"{path}: the annotations are not those of the images, one for each in the same order")
    return metadata


def write_metadata(metadata: Any, path: Path) -> None:
    """Write JSON with sorted keys, an indent of four and ASCII alone, without a line feed at the end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("x", encoding="ascii") as file:
        json.dump(metadata, file, indent=4, sort_keys=True)


def select(metadata: Metadata, positions: Iterable[int]) -> Metadata:
    """The metadata with the annotations and images at these positions alone, in this order."""
    chosen = list(positions)
    return {**metadata, **{key: [metadata[key][k] for k in chosen] for key in ("annotations", "images")}}


def hold_out_by_category(
    metadata: Metadata, image_folder: Path, train_folder: Path, test_folder: Path, *, test_size: float
) -> list[Any]:
    """Split images into two folders, each with a ``metadata.json``; returns the test images' categories in order.

    Training images keep their paths. The test images are numbered anew from 0: number 1234 is
    ``images/001/1234.jpg`` with the text "1234" as its id; their metadata hold images, info and licenses alone.
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
    """Positions of train and test rows, where each category is split by itself.

    A category of fewer than ``few`` rows gives its last one to the test, or none if it has one row only; others are
    split as ``tables.split`` does. Train rows follow one another category by category, in order of first appearance;
    test rows are shuffled.
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


@cache  # how rows are split depends on their number alone
def _split_places(n: int, test_size: float, few: int) -> tuple[list[int], list[int]]:
    places = list(range(n))
    if n >= few:
        return split(places, test_size=test_size)
    return (places[:-1], places[-1:]) if n > 1 else (places, [])
