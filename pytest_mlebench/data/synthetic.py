"""Tiny files for synthetic raw data. Their bytes depend on their content alone, on no encoder's version."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.data.archives import write_zip


def jpeg_like(content: bytes) -> bytes:
    """Bytes with a JPEG file's first and last marks, for preparers that move pictures without opening them."""
    return b"\xff\xd8\xff\xe0" + content + b"\xff\xd9"


def png(pixels: np.ndarray, palette: np.ndarray | None = None) -> bytes:
    """A PNG picture without compression: uint8 or uint16 of shape (height, width), or (height, width, 3 or 4).

    With a ``palette``, uint8 of shape (colours, 3), the pixels are numbers of its colours.
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
    """A zlib stream of stored blocks (RFC 1950, 1951): what zlib itself writes may vary from version to version."""
    parts = [data[k : k + 65535] for k in range(0, len(data), 65535)] or [b""]
    blocks = (
        struct.pack("<BHH", k == len(parts) - 1, len(part), 0xFFFF ^ len(part)) + part for k, part in enumerate(parts)
    )
    return b"\x78\x01" + b"".join(blocks) + struct.pack(">I", zlib.adler32(data))


def write_zipped_csv(path: Path, table: pd.DataFrame, member: str, **options: object) -> None:
    """A zip archive of one table (pandas' ``to_csv`` options may follow)."""
    write_zip(path, {member: table.to_csv(**{"index": False, **options})})  # type: ignore[call-overload]


def wav(samples: np.ndarray, rate: int = 16000) -> bytes:
    """A WAV file of one channel: int16 samples of shape (frames,), ``rate`` of them a second."""
    data = samples.astype("<i2").tobytes()
    header = struct.pack("<4sI4s4sIHHIIHH", b"RIFF", 36 + len(data), b"WAVE", b"fmt ", 16, 1, 1, rate, 2 * rate, 2, 16)
    return header + struct.pack("<4sI", b"data", len(data)) + data


def tfrecord(examples: Iterable[Mapping[str, bytes | str | int]]) -> bytes:
    """A TFRecord file of ``tf.train.Example`` records; text becomes a bytes list, an integer from 0 an int64 list."""
    return b"".join(map(_record, map(_example, examples)))


def _record(data: bytes) -> bytes:
    size = struct.pack("<Q", len(data))
    return size + _masked_crc32c(size) + data + _masked_crc32c(data)


def _example(features: Mapping[str, bytes | str | int]) -> bytes:
    entries = b""
    for name, value in features.items():
        if isinstance(value, int):
            feature = _field(3, _field(1, _varint(value)))
        else:
            feature = _field(1, _field(1, value.encode() if isinstance(value, str) else value))
        entries += _field(1, _field(1, name.encode()) + _field(2, feature))
    return _field(1, entries)


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    low = b""
    while value > 127:
        low, value = low + bytes([value & 127 | 128]), value >> 7
    return low + bytes([value])


def _masked_crc32c(data: bytes) -> bytes:
    """CRC-32C, rotated and shifted as TFRecord wants it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def malformed_rows(good: pd.DataFrame, id: str, unknown: Any) -> dict[str, Any]:
    """Submissions that fit a good one but for their rows; ``unknown`` is a value of the column ``id`` that is no id."""
    return {
        "missing_row": good.iloc[1:],
        "extra_row": pd.concat([good, good.tail(1).assign(**{id: unknown})]),
        "duplicate_id": pd.concat([good.iloc[1:], good.tail(1)]),
        "unknown_id": good.assign(**{id: [unknown, *good[id].iloc[1:]]}),
        "header_only": good.head(0),
        "empty.csv": "",
    }
