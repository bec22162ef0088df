"""What corrected versions of competitions share: splits that keep groups together, files without what leaks, and
randomness that nobody outside can repeat.

``hold_out_groups(key)`` has the signature of ``tables.split``, so that a preparer that takes its split as an argument
is corrected in a line::

    prepare = partial(first.prepare, split=hold_out_groups("PatientID"))

Code and data of competitions are public, so whatever is drawn with a fixed seed can be drawn again, and with it what
the draw decides. Corrected versions draw with ``private_generator``. While real data is prepared, the key is that of
the data store. Synthetic data has no answers to keep, and goldens need the same draws everywhere: without a key the
generator has seed 0.
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
    """Have ``private_generator`` use this key, of 64 bytes at most, in this context."""
    token = _KEY.set(key)
    try:
        yield
    finally:
        _KEY.reset(token)


def private_generator(purpose: str) -> np.random.RandomState:
    """A generator that starts anew at each call; those of different purposes are independent of each other."""
    key = _KEY.get()
    if key is None:
        return np.random.RandomState(0)
    digest = hashlib.blake2b(purpose.encode(), key=key).digest()
    return np.random.RandomState(np.frombuffer(digest, dtype="<u4"))


Split = Callable[..., tuple[Any, Any]]
Key = str | Callable[[Any], Iterable[Hashable]]
"""A column, or what gives a value for each row."""
OVERSHOOT = 0.05
"""The largest share by which a test set of whole groups may exceed the size that was asked for."""


def hold_out_groups(key: Key, *, classes: Key | None = None) -> Split:
    """A split of a table, an array or a list into (train, test) that leaves the rows of a group on one side.

    ``key`` is the column that names the groups, or gives the group of each row. Groups are drawn with the key of the
    data store (see ``private_generator``) until the test has its size in rows: a share where ``test_size`` is a float,
    else a number. A group that would make the test more than ``OVERSHOOT`` larger than asked stays in the training
    data, so the test may be a bit smaller. The order of rows is kept. Neither side is empty: raises ValueError for a
    single group, or if none is small enough.

    With ``classes``, likewise of each row, one group of every class stays in the training data, so that no class is in
    the test alone; all rows of a group must be of one class. The test is smaller than asked where no more can be taken.
    """

    def split(rows: Any, test_size: float | int, **_: Any) -> tuple[Any, Any]:
        codes, names = _codes(rows, key)
        if len(names) < 2:
            raise ValueError(f"all {len(codes)} rows are of one group: they cannot be split")
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
    """Of the groups in the order they were drawn, those that fill the test set without making it too large."""
    held_out, rows = [], 0
    most = min(max(wanted * (1 + OVERSHOOT), 1), sizes.sum() - 1)
    for group, size in zip(drawn.tolist(), sizes[drawn].tolist(), strict=True):
        if rows >= wanted:
            break
        if rows + size <= most:
            held_out.append(group)
            rows += size
    if not held_out:
        smallest = (
            f"the smallest group that can be held out has {sizes[drawn].min():,}" if len(drawn) else "none can be"
        )
        raise ValueError(f"about {wanted:,.0f} rows are to be held out in whole groups, but {smallest}")
    return held_out


def _codes(rows: Any, key: Key) -> tuple[np.ndarray, Any]:
    """The number of each row's group, and the groups' names."""
    groups = rows[key] if isinstance(key, str) else key(rows)
    values = groups if isinstance(groups, np.ndarray) else pd.Series(list(groups), dtype=object)
    return pd.factorize(values, use_na_sentinel=False)


def _take(rows: Any, chosen: np.ndarray) -> Any:
    if isinstance(rows, pd.DataFrame | pd.Series | np.ndarray):
        return rows[chosen]
    return [row for row, is_chosen in zip(rows, chosen, strict=True) if is_chosen]


_HASH = 12
"""Frequencies of an image that its hash has along each side."""
_ALIKE = 21
"""Bits of a hash that may differ between images that look alike: 15 %."""
_BLOCK = 1024


def near_duplicates(images: Iterable[Path]) -> NDArray[np.intp]:
    """A number for each image, the same where images are near-duplicates: scaled, brightened, compressed anew.

    Images are compared by the signs of their low frequencies (a perceptual hash), whatever their sizes and colours;
    what looks like two images that do not look alike joins them. Shape (images,). Raises DataError for what is no
    image. Source: Zauner (2010), Implementation and benchmarking of perceptual image hash functions.
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
        pairs.append(np.argwhere(distance <= _ALIKE) + start)
    left, right = np.concatenate(pairs).T
    graph = coo_array((np.ones(len(left), dtype=bool), (left, right)), shape=(len(hashes),) * 2)
    return np.asarray(connected_components(graph, directed=False)[1], dtype=np.intp)


def _perceptual_hash(path: Path) -> NDArray[np.uint64]:
    from PIL import Image
    from scipy.fft import dctn

    side = 4 * _HASH
    try:
        with Image.open(path) as image:
            image.draft("L", (8 * side, 8 * side))  # a JPEG file is decoded at a fraction of its size
            small = np.asarray(image.convert("L").resize((side, side), Image.Resampling.BOX), dtype=np.float64)
    except OSError as error:
        raise DataError(f"{path} is not an image that can be read: {reason(error)}") from error
    low = dctn(small, norm="ortho")[:_HASH, :_HASH].ravel()[1:]  # without the brightness
    bits = np.zeros(192, dtype=np.uint8)
    bits[: len(low)] = low > np.median(low)
    return np.packbits(bits).view(np.uint64)


def without_fields(records: Iterable[dict[str, Any]], fields: Collection[str]) -> list[dict[str, Any]]:
    """Records of a JSON file without the fields that leak."""
    return [{name: value for name, value in record.items() if name not in fields} for record in records]


def rewrite_json(path: Path, change: Callable[[Any], Any], **options: Any) -> None:
    """Write a JSON file anew; ``options`` as for ``json.dumps``. The file that it was linked to stays as it is."""
    changed = json.dumps(change(json.loads(path.read_bytes())), **options)
    path.unlink()
    path.write_text(changed, encoding="utf-8")
