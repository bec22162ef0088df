"""Small files for synthetic raw data, whose bytes do not depend on an encoder's version, and test submissions."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.archives import write_zip


def jpeg_like(content: bytes) -> bytes:
    """Return bytes with the markers of a JPEG file, for preparers that move images without decoding them.

    >>> jpeg_like(b"cat")
    b'\\xff\\xd8\\xff\\xe0cat\\xff\\xd9'
    """
    return b"\xff\xd8\xff\xe0" + content + b"\xff\xd9"


def png(pixels: np.ndarray, palette: np.ndarray | None = None) -> bytes:
    """Return an uncompressed PNG file of uint8 or uint16 pixels: shape (height, width), or (height, width, 3 or 4).

    With a ``palette``, uint8 of shape (colours, 3), the pixels are indices of its colours.

    >>> png(np.zeros((2, 3), dtype=np.uint8))[:4]
    b'\\x89PNG'
    """
    height, width = pixels.shape[:2]
    depth = 8 * pixels.dtype.itemsize
    colour = 3 if palette is not None else {1: 0, 3: 2, 4: 6}[1 if pixels.ndim == 2 else pixels.shape[2]]
    rows = np.ascontiguousarray(pixels.astype(pixels.dtype.newbyteorder(">"))).tobytes()
    stride = len(rows) // height
    data = b"".join(b"\0" + rows[k : k + stride] for k in range(0, len(rows), stride))
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    colours = [] if palette is None else [(b"PLTE", palette.tobytes())]
    chunks = ((b"IHDR", header), *colours, (b"IDAT", _stored(data)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks
    )


def _stored(data: bytes) -> bytes:
    """Return a zlib stream of stored blocks (RFC 1950, 1951), because zlib's own output depends on its version."""
    parts = [data[k : k + 65535] for k in range(0, len(data), 65535)] or [b""]
    blocks = (
        struct.pack("<BHH", k == len(parts) - 1, len(part), 0xFFFF ^ len(part)) + part for k, part in enumerate(parts)
    )
    return b"\x78\x01" + b"".join(blocks) + struct.pack(">I", zlib.adler32(data))


def write_zipped_csv(path: Path, table: pd.DataFrame, member: str, **options: object) -> None:
    """Write a zip archive with one table as CSV, without the index; ``options`` are those of pandas' ``to_csv``."""
    write_zip(path, {member: table.to_csv(**{"index": False, **options})})  # type: ignore[call-overload]


def wav(samples: np.ndarray, rate: int = 16000) -> bytes:
    """Return a WAV file with one channel: int16 samples of shape (frames,), ``rate`` of them per second.

    >>> len(wav(np.zeros(8, dtype=np.int16)))  # a header of 44 bytes, and 2 bytes per sample
    60
    """
    data = samples.astype("<i2").tobytes()
    header = struct.pack("<4sI4s4sIHHIIHH", b"RIFF", 36 + len(data), b"WAVE", b"fmt ", 16, 1, 1, rate, 2 * rate, 2, 16)
    return header + struct.pack("<4sI", b"data", len(data)) + data


def patterns(count: int, rng: np.random.Generator) -> list[bytes]:
    """Return PNG images of random patterns. About a third are near-duplicates with different brightness and noise.

    Each pattern has 8 by 8 fields, which are dark or bright.
    """
    drawn: list[np.ndarray] = []
    for _ in range(count):
        is_copy = len(drawn) > 0 and rng.random() < 0.3
        drawn.append(drawn[rng.integers(len(drawn))] if is_copy else rng.integers(0, 2, (8, 8)))
    shades = (np.kron(60 + 100 * pattern, np.ones((6, 6))) + rng.integers(0, 40) for pattern in drawn)
    return [png((shade + rng.integers(-4, 5, shade.shape)).astype(np.uint8)) for shade in shades]


def first_value(table: pd.DataFrame, column: str, **values: Any) -> dict[str, pd.DataFrame]:
    """Return one table for each keyword argument, with its value in the first row of a column.

    >>> first_value(pd.DataFrame({"p": [1, 2]}), "p", high=3)["high"]["p"].tolist()
    [3, 2]
    """
    return {name: table.assign(**{column: [value, *table[column].iloc[1:]]}) for name, value in values.items()}


def standard(
    good: pd.DataFrame, id: str, unknown: Any, target: str = "", also: str = "", *, without: str = ""
) -> dict[str, Any]:
    """Return the usual test submissions: ``noisy`` (``good`` itself), ``noisy_shuffled``, and those of ``malformed``.

    >>> good = pd.DataFrame({"id": [1, 2], "price": [10, 20]})
    >>> list(standard(good, "id", -1, "price", "missing_column"))[:4]
    ['noisy', 'noisy_shuffled', 'missing_row', 'extra_row']
    """
    rejected = malformed(good, id, unknown, target, also, without=without)
    return {"noisy": good, "noisy_shuffled": good.sample(frac=1, random_state=0), **rejected}


def malformed(
    good: pd.DataFrame, id: str, unknown: Any, target: str = "", also: str = "", *, without: str = ""
) -> dict[str, Any]:
    """Return copies of a good submission with one defect each, by name. A grader must reject all of them.

    By default these are ``missing_row``, ``extra_row``, ``duplicate_id`` (which replaces another row), ``unknown_id``
    (the value ``unknown`` in the column ``id``), ``header_only`` and ``empty.csv``. ``without`` excludes names, and
    ``also`` adds names, both separated by spaces: ``missing_id``, ``renamed_id``, ``nan_id``, and for the column
    ``target`` ``missing_column``, ``renamed_column`` and ``all_text``. These change a single value of it:
    ``nan_prediction``, ``text_prediction``, ``infinite``, ``above_one``, ``negative``.

    >>> good = pd.DataFrame({"id": [1, 2], "price": [10, 20]})
    >>> malformed(good, "id", -1, "price", "negative")["negative"]["price"].tolist()
    [-0.01, 20.0]
    """

    def first(column: str, value: Any) -> pd.DataFrame:
        return first_value(good, column, changed=value)["changed"]

    rows: dict[str, Callable[[], Any]] = {
        "missing_row": lambda: good.iloc[1:],
        "extra_row": lambda: pd.concat([good, good.tail(1).assign(**{id: unknown})]),
        "duplicate_id": lambda: pd.concat([good.iloc[1:], good.tail(1)]),
        "unknown_id": lambda: first(id, unknown),
        "header_only": lambda: good.head(0),
        "empty.csv": lambda: "",
    }
    more: dict[str, Callable[[], Any]] = {
        "missing_id": lambda: good.drop(columns=id),
        "renamed_id": lambda: good.rename(columns={id: f"{id}_"}),
        "nan_id": lambda: first(id, None),
        "missing_column": lambda: good.drop(columns=target),
        "renamed_column": lambda: good.rename(columns={target: f"{target}_"}),
        "all_text": lambda: good.assign(**{target: "text"}),
        "nan_prediction": lambda: first(target, None),
        "text_prediction": lambda: first(target, "text"),
        "infinite": lambda: first(target, math.inf),
        "above_one": lambda: first(target, 1.01),
        "negative": lambda: first(target, -0.01),
    }
    return {name: (rows | more)[name]() for name in [*rows, *also.split()] if name not in without.split()}
