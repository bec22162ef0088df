"""Small videos: MP4 files of JPEG pictures, which common players and libraries decode."""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence

import numpy as np
from PIL import Image

_IDENTITY = struct.pack(">9I", 1 << 16, 0, 0, 0, 1 << 16, 0, 0, 0, 1 << 30)


def mp4(frames: Sequence[np.ndarray], rate: int) -> bytes:
    """A video of uint8 pictures, all of shape (height, width) or (height, width, 3), ``rate`` of them a second."""
    samples = [_jpeg(frame) for frame in frames]
    count, height, width = len(samples), *frames[0].shape[:2]
    start = _box(b"ftyp", b"isom\0\0\2\0isomiso2mp41")
    entry = struct.pack(">6xH16xHHIIIH32sHh", 1, width, height, 72 << 16, 72 << 16, 0, 1, b"", 24, -1)
    table = _box(
        b"stbl",
        _full(b"stsd", struct.pack(">I", 1), _box(b"jpeg", entry)),
        _full(b"stts", struct.pack(">3I", 1, count, 1)),
        _full(b"stsc", struct.pack(">4I", 1, 1, count, 1)),
        _full(b"stsz", struct.pack(f">2I{count}I", 0, count, *map(len, samples))),
        _full(b"stco", struct.pack(">2I", 1, len(start) + 8)),
    )
    place = _box(b"dinf", _full(b"dref", struct.pack(">I", 1), _full(b"url ", flags=1)))
    media = _box(
        b"mdia",
        _full(b"mdhd", struct.pack(">4IHH", 0, 0, rate, count, 0x55C4, 0)),
        _full(b"hdlr", b"\0\0\0\0vide" + bytes(12) + b"Video\0"),
        _box(b"minf", _full(b"vmhd", bytes(8), flags=1), place, table),
    )
    track = _full(
        b"tkhd",
        struct.pack(">5I8xhhhH", 0, 0, 1, 0, count, 0, 0, 0, 0) + _IDENTITY,
        struct.pack(">2I", width << 16, height << 16),
        flags=3,
    )
    header = struct.pack(">4IIH10x", 0, 0, rate, count, 1 << 16, 1 << 8) + _IDENTITY + bytes(24) + struct.pack(">I", 2)
    movie = _box(b"moov", _full(b"mvhd", header), _box(b"trak", track, media))
    return start + _box(b"mdat", *samples) + movie


def _jpeg(frame: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(frame).convert("RGB").save(file, "JPEG", quality=80)
    return file.getvalue()


def _box(kind: bytes, *parts: bytes) -> bytes:
    content = b"".join(parts)
    return struct.pack(">I4s", 8 + len(content), kind) + content


def _full(kind: bytes, *parts: bytes, flags: int = 0) -> bytes:
    return _box(kind, struct.pack(">I", flags), *parts)
