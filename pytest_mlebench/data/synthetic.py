"""Tiny files for synthetic raw data. Their bytes depend on their content alone, on no encoder's version."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.data.archives import write_zip


def jpeg_like(content: bytes) -> bytes:
    """Bytes with a JPEG file's first and last marks, for preparers that move pictures without opening them."""
    return b"\xff\xd8\xff\xe0" + content + b"\xff\xd9"


def png(pixels: np.ndarray) -> bytes:
    """A PNG picture without compression: uint8 or uint16 of shape (height, width), or (height, width, 3 or 4)."""
    height, width = pixels.shape[:2]
    depth = 8 * pixels.dtype.itemsize
    colour = {1: 0, 3: 2, 4: 6}[1 if pixels.ndim == 2 else pixels.shape[2]]
    rows = np.ascontiguousarray(pixels.astype(pixels.dtype.newbyteorder(">"))).tobytes()
    stride = len(rows) // height
    data = b"".join(b"\0" + rows[k : k + stride] for k in range(0, len(rows), stride))
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", _stored(data)), (b"IEND", b""))
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
