"""Metadata of images in the manner of COCO: JSON objects with parallel lists ``annotations`` and ``images``."""

from __future__ import annotations

import json
import random
from collections.abc import Hashable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.files import link_files
from pytest_mlebench.authoring.tables import split
from pytest_mlebench.errors import DataError

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
