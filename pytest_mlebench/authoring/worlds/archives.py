"""Archives whose bytes depend on their members alone: no times, no compressor's version."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from pathlib import Path

_COPY = b"\x01\x01\x00"
"""One coder, whose id is one byte long: the one that stores."""


def write_stored_7z(path: Path, members: Mapping[str, bytes | str]) -> None:
    """A 7z archive of these members, uncompressed, in this order: bytes or text (as UTF-8), none of which is empty."""
    contents = [text.encode() if isinstance(text, str) else text for text in members.values()]
    total, count = _number(sum(map(len, contents))), _number(len(contents))
    sizes = b"".join(_number(len(content)) for content in contents[:-1])
    sums = struct.pack(f"<{len(contents)}I", *map(zlib.crc32, contents))
    names = b"\0" + "".join(name + "\0" for name in members).encode("utf-16-le")
    packed = b"\x06\0\x01\x09" + total + b"\0"
    folder = b"\x07\x0b\x01\0" + _COPY + b"\x0c" + total + b"\0"
    streams = b"\x08\x0d" + count + b"\x09" + sizes + b"\x0a\x01" + sums + b"\0"
    files = b"\x05" + count + b"\x11" + _number(len(names)) + names + b"\0"
    header = b"\x01\x04" + packed + folder + streams + b"\0" + files + b"\0"
    start = struct.pack("<QQI", sum(map(len, contents)), len(header), zlib.crc32(header))
    path.write_bytes(
        b"7z\xbc\xaf\x27\x1c\0\x04" + struct.pack("<I", zlib.crc32(start)) + start + b"".join(contents) + header
    )


def _number(value: int) -> bytes:
    """As 7z writes numbers: leading ones of the first byte count the bytes that follow, lowest first.

    >>> _number(5).hex(), _number(300).hex(), _number(20_000_000).hex()
    ('05', '812c', 'e1002d31')
    """
    for extra in range(8):
        if value < 1 << (7 * (extra + 1)):
            first = (0xFF00 >> extra & 0xFF) | value >> (8 * extra)
            return bytes([first]) + (value & (1 << 8 * extra) - 1).to_bytes(extra, "little")
    return b"\xff" + value.to_bytes(8, "little")
