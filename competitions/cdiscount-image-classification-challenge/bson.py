"""Read files of BSON documents (https://bsonspec.org), and decode only the elements that are used."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pytest_mlebench.errors import DataError

_DOUBLE, _TEXT, _DOCUMENT, _ARRAY, _BINARY = 0x01, 0x02, 0x03, 0x04, 0x05
_INT32, _INT64 = 0x10, 0x12
# Size of a value in bytes, by type. If a value begins with its length: the number of bytes that this does not count.
_SIZES = {_DOUBLE: 8, 0x07: 12, 0x08: 1, 0x09: 8, 0x0A: 0, _INT32: 4, 0x11: 8, _INT64: 8, 0x13: 16}
_UNCOUNTED = {_TEXT: 4, _DOCUMENT: 0, _ARRAY: 0, _BINARY: 5}
_INT32_FORMAT, _INT64_FORMAT = struct.Struct("<i"), struct.Struct("<q")
_LARGEST = 1 << 30


class Element(NamedTuple):
    """An element of a document: type and key begin at ``start``, the value at ``value``; ``end`` is after the value."""

    kind: int
    start: int
    value: int
    end: int


def read_documents(path: Path) -> Iterator[bytes]:
    """Yield the documents of a file as bytes. Raises DataError for a damaged or missing file."""
    try:
        with path.open("rb", buffering=1 << 20) as file:
            while prefix := file.read(4):
                length = _INT32_FORMAT.unpack(prefix)[0] if len(prefix) == 4 else 0
                document = prefix + file.read(length - 4) if 5 <= length <= _LARGEST else b""
                if len(document) != length or not length:
                    raise DataError(f"BSON file {path} is damaged or cut off")
                yield document
    except FileNotFoundError as error:
        raise DataError(f"file {path} is missing in the raw data") from error


def elements(document: bytes) -> dict[bytes, Element]:
    """Return the elements of a document by key, in order, without those of nested documents. Raises DataError."""
    found = {}
    place = 4
    while kind := document[place]:
        end_of_key = document.index(b"\0", place)
        value = end_of_key + 1
        if kind in _SIZES:
            end = value + _SIZES[kind]
        elif kind in _UNCOUNTED:
            end = value + _INT32_FORMAT.unpack_from(document, value)[0] + _UNCOUNTED[kind]
        else:
            raise DataError(f"a BSON document has an element of type {kind:#x}, which is not supported")
        found[document[place + 1 : end_of_key]] = Element(kind, place, value, end)
        place = end
    return found


def integer(document: bytes, element: Element) -> int:
    """Return the value of an int32 or int64 element."""
    form = {_INT32: _INT32_FORMAT, _INT64: _INT64_FORMAT}[element.kind]
    number: int = form.unpack_from(document, element.value)[0]
    return number


def without(document: bytes, element: Element) -> bytes:
    """Return the document without one of its elements."""
    rest = document[4 : element.start] + document[element.end :]
    return _INT32_FORMAT.pack(len(rest) + 4) + rest
