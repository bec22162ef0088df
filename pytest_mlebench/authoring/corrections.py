"""Helpers for corrected versions of competitions: group splits, private randomness, and removal of leaks.

``hold_out_groups(key)`` returns a function that can replace ``tables.split``. A preparer that takes its split as an
argument is therefore corrected in one line::

    prepare = partial(first.prepare, split=hold_out_groups("PatientID"))

Competitions' code and data are public, so anyone can repeat a draw with a fixed seed, and thus find the answers.
Corrected versions draw with ``private_generator``. When real data is prepared, its key is derived from the data
store's. Synthetic data has no secret answers, and golden results must be reproducible: the seed is then 0.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pytest_mlebench.errors import DataError, reason

_KEY: ContextVar[bytes | None] = ContextVar("key of private randomness", default=None)


@contextmanager
def keyed(key: bytes | None) -> Iterator[None]:
    """Let ``private_generator`` use this key, of at most 64 bytes, in a ``with`` block."""
    token = _KEY.set(key)
    try:
        yield
    finally:
        _KEY.reset(token)


def private_generator(purpose: str) -> np.random.RandomState:
    """Return a new generator for a purpose. Each call yields the same numbers; purposes are independent."""
    key = _KEY.get()
    if key is None:
        return np.random.RandomState(0)
    digest = hashlib.blake2b(purpose.encode(), key=key).digest()
    return np.random.RandomState(np.frombuffer(digest, dtype="<u4"))


Split = Callable[..., tuple[Any, Any]]
Key = str | Callable[[Any], Iterable[Hashable]]
"""A column, or a function that returns a value for each row."""
OVERSHOOT = 0.05
"""Maximum share by which a test set of whole groups may exceed the requested size."""


def hold_out_groups(key: Key, *, classes: Key | None = None) -> Split:
    """Return a function that splits rows into (train, test) and keeps each group of rows on one side.

    The function takes ``rows`` (a table, an array or a list) and ``test_size`` (a share if it is a float, or a number
    of rows); it ignores other arguments. ``key`` is the column with the groups, or a function that returns each row's
    group. Groups are drawn with ``private_generator`` until the test set has the requested size. A group that would
    make it more than 5 % too large (``OVERSHOOT``) stays in the training data, so the test set may be slightly too
    small. The order of rows is kept. Raises ValueError if there is only one group, or none fits.

    ``classes``, a column or a function like ``key``, keeps one group of each class in the training data. All rows of a
    group must have the same class. The test set is smaller if no more groups can be taken.
    """

    def split(rows: Any, test_size: float | int, **_: Any) -> tuple[Any, Any]:
        codes, names = _codes(rows, key)
        if len(names) < 2:
            raise ValueError(f"all {len(codes)} rows belong to one group: they cannot be split")
        wanted = test_size if isinstance(test_size, int) else test_size * len(codes)
        drawn = private_generator("groups").permutation(len(names))
        if classes is not None:
            class_of = np.empty(len(names), dtype=np.int64)
            class_of[codes] = _codes(rows, classes)[0]
            drawn = drawn[np.asarray(pd.Series(class_of[drawn]).duplicated())]
        held_out = _fitting(drawn, np.bincount(codes), wanted)
        is_test = np.isin(codes, held_out)
        return _take(rows, ~is_test), _take(rows, is_test)

    return split


def _fitting(drawn: NDArray[np.intp], sizes: NDArray[np.intp], wanted: float) -> list[int]:
    """Choose groups, in the order they were drawn, that fill the test set without making it too large."""
    held_out, rows = [], 0
    limit = min(max(wanted * (1 + OVERSHOOT), 1), sizes.sum() - 1)
    for group, size in zip(drawn.tolist(), sizes[drawn].tolist(), strict=True):
        if rows >= wanted:
            break
        if rows + size <= limit:
            held_out.append(group)
            rows += size
    if not held_out:
        smallest = f"the smallest available has {sizes[drawn].min():,} rows" if len(drawn) else "none is available"
        raise ValueError(f"cannot hold out about {wanted:,.0f} rows in whole groups: {smallest}")
    return held_out


def _codes(rows: Any, key: Key) -> tuple[np.ndarray, Any]:
    """Return the number of each row's group, and the groups' names."""
    groups = rows[key] if isinstance(key, str) else key(rows)
    values = groups if isinstance(groups, np.ndarray) else pd.Series(list(groups), dtype=object)
    return pd.factorize(values, use_na_sentinel=False)


def _take(rows: Any, chosen: np.ndarray) -> Any:
    if isinstance(rows, pd.DataFrame | pd.Series | np.ndarray):
        return rows[chosen]
    return [row for row, is_chosen in zip(rows, chosen, strict=True) if is_chosen]


_HASH = 12
"""Number of frequencies in each dimension that an image's hash uses."""
_MAX_DISTANCE = 21
"""Maximum number of different hash bits of near-duplicates: 15 %."""
_BLOCK = 1024


def near_duplicates(images: Iterable[Path]) -> NDArray[np.intp]:
    """Group near-duplicate images, such as scaled, brightened or recompressed copies; returns shape (images,).

    Near-duplicates get the same number. Images are compared by the signs of their low frequencies (a perceptual hash),
    independently of size and colour. Two different images get the same number if a third one resembles both. Raises
    DataError if a file is not an image.
    Source: Zauner (2010), Implementation and benchmarking of perceptual image hash functions.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    hashes = np.stack([_perceptual_hash(path) for path in images])
    pairs = []
    for start in range(0, len(hashes), _BLOCK):
        rows, others = hashes[start : start + _BLOCK], hashes[start:]
        distance = np.zeros((len(rows), len(others)), dtype=np.uint8)
        for word in range(hashes.shape[1]):
            distance += np.bitwise_count(rows[:, None, word] ^ others[None, :, word])
        pairs.append(np.argwhere(distance <= _MAX_DISTANCE) + start)
    left, right = np.concatenate(pairs).T
    graph = coo_array((np.ones(len(left), dtype=bool), (left, right)), shape=(len(hashes),) * 2)
    return np.asarray(connected_components(graph, directed=False)[1], dtype=np.intp)


def _perceptual_hash(path: Path) -> NDArray[np.uint64]:
    from PIL import Image
    from scipy.fft import dctn

    side = 4 * _HASH
    try:
        with Image.open(path) as image:
            image.draft("L", (8 * side, 8 * side))  # JPEG files are decoded at reduced size
            small = np.asarray(image.convert("L").resize((side, side), Image.Resampling.BOX), dtype=np.float64)
    except OSError as error:
        raise DataError(f"{path} is not an image that can be read: {reason(error)}") from error
    low = dctn(small, norm="ortho")[:_HASH, :_HASH].ravel()[1:]  # without the brightness
    bits = np.zeros(192, dtype=np.uint8)
    bits[: len(low)] = low > np.median(low)
    return np.packbits(bits).view(np.uint64)


def without_fields(records: Iterable[dict[str, Any]], fields: Collection[str]) -> list[dict[str, Any]]:
    """Return a JSON file's records without the given fields, for example those that leak answers."""
    return [{name: value for name, value in record.items() if name not in fields} for record in records]


def rewrite_json(path: Path, change: Callable[[Any], Any], **options: Any) -> None:
    """Replace a JSON file by ``change(content)``; hard links keep the old one. ``options`` are for ``json.dumps``."""
    changed = json.dumps(change(json.loads(path.read_bytes())), **options)
    path.unlink()
    path.write_text(changed, encoding="utf-8")
