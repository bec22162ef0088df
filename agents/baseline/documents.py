"""Reads files of BSON documents (https://bsonspec.org): their fields as a table, and the positions of pictures."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from archives import MAX_BYTES

SUFFIX = ".bson"
MAX_DOCUMENTS = 30_000
"""Maximum number of documents that are read from a training file."""
_FORMATS = {0x01: "<d", 0x08: "<?", 0x09: "<q", 0x10: "<i", 0x12: "<q"}
_SKIPPED = {0x06: 0, 0x07: 12, 0x0A: 0, 0x11: 8, 0x13: 16}
_TEXT, _DOCUMENT, _ARRAY, _BINARY = 0x02, 0x03, 0x04, 0x05


def read_documents(path: Path, most: int | None = None) -> Iterator[tuple[dict[str, Any], list[tuple[int, int]]]]:
    """Yield the fields of each document, without nested ones, and the positions (start, end) of its binary values."""
    start = count = 0
    with path.open("rb") as file:
        while len(head := file.read(4)) == 4 and (most is None or count < most):
            length = struct.unpack("<i", head)[0]
            if not 5 <= length <= MAX_BYTES:
                return
            content = head + file.read(length - 4)
            fields, places = _elements(content, 0)
            yield fields, [(start + first, start + last) for first, last in places]
            start, count = start + length, count + 1


def _elements(content: bytes, place: int) -> tuple[dict[str, Any], list[tuple[int, int]]]:
    fields: dict[str, Any] = {}
    places = []
    place += 4
    while kind := content[place]:
        end = content.index(b"\0", place)
        key, place = content[place + 1 : end].decode(errors="replace"), end + 1
        if kind in _FORMATS:
            fields[key] = struct.unpack_from(_FORMATS[kind], content, place)[0]
            place += struct.calcsize(_FORMATS[kind])
        elif kind in _SKIPPED:
            place += _SKIPPED[kind]
        elif kind in (_TEXT, _DOCUMENT, _ARRAY, _BINARY):
            length = struct.unpack_from("<i", content, place)[0]
            if kind == _BINARY:
                places.append((place + 5, place + 5 + length))
                place += 5 + length
            elif kind == _TEXT:
                fields[key] = content[place + 4 : place + 3 + length].decode(errors="replace")
                place += 4 + length
            else:
                places += _elements(content, place)[1]
                place += length
        else:
            raise ValueError(f"a BSON document has an element of type {kind:#x}")
    return fields, places


def document_table(path: Path) -> tuple[pd.DataFrame, list[tuple[int, int]]]:
    """Return the fields of the documents that contain pictures, and the position of each one's first picture."""
    found = [
        (fields, places[0])
        for fields, places in read_documents(path, MAX_DOCUMENTS if "train" in path.name.lower() else None)
        if places
    ]
    return pd.DataFrame([fields for fields, _ in found]), [place for _, place in found]
