"""Reads and writes TFRecord files of ``tf.train.Example`` without TensorFlow. Checksums are not verified.

Sources: TensorFlow's guide "TFRecord and tf.train.Example", and the encoding of protocol buffers.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from pytest_mlebench.errors import DataError

Feature = list[bytes] | list[int] | list[float]
"""The values of a bytes list, an int64 list or a float list."""

_VARINT, _FIXED64, _DELIMITED, _FIXED32 = 0, 1, 2, 5  # wire types of protocol buffers
_EMPTY = memoryview(b"")
_HEAD, _TAIL = 12, 4
"""Number of bytes before a record (its length and the length's checksum) and after it (its checksum)."""


def read_examples(path: Path) -> Iterator[dict[str, Feature]]:
    """Yield the examples of a TFRecord file: features by name. Raises DataError if the file is invalid or missing."""
    return (_parsed(path, record) for record in read_records(path))


def _parsed(path: Path, record: bytes) -> dict[str, Feature]:
    with _damage_named(path):
        return parse_example(record)


@contextmanager
def _damage_named(path: Path) -> Iterator[None]:
    try:
        yield
    except (IndexError, ValueError, struct.error) as error:
        raise DataError(f"{path} contains a record that is not a tf.train.Example: {error}") from error


def read_records(path: Path) -> Iterator[bytes]:
    """Yield the raw records of a TFRecord file. Raises DataError if the file is truncated or missing."""
    return (frame[_HEAD:-_TAIL] for frame in _frames(path))


def _frames(path: Path) -> Iterator[bytes]:
    """Yield the records with their lengths and checksums."""
    try:
        remaining = path.stat().st_size
        with path.open("rb") as file:
            while remaining:
                head = file.read(_HEAD)
                length = struct.unpack("<Q", head[:8])[0] if len(head) == _HEAD else remaining
                remaining -= _HEAD + length + _TAIL
                if remaining < 0:
                    raise DataError(f"TFRecord file {path} is damaged or cut off")
                yield head + file.read(length + _TAIL)
    except FileNotFoundError as error:
        raise DataError(f"file {path} is missing in the raw data") from error


def parse_example(record: bytes) -> dict[str, Feature]:
    """Parse a serialised ``tf.train.Example``; returns its features by name. A feature without values is an empty list.

    Raises IndexError, ValueError or struct.error if it is invalid.
    """
    return {name: _values(_bytes(parts.get(2, _EMPTY))) for name, parts, _ in _features(record)}


def _features(record: bytes) -> Iterator[tuple[str, dict[int, int | memoryview], memoryview]]:
    """Yield the name of each feature, the fields of its entry, and the entry itself."""
    for field, container in _fields(memoryview(record)):
        for _, found in _fields(_bytes(container)) if field == 1 else ():
            entry = _bytes(found)
            parts = dict(_fields(entry))
            yield bytes(_bytes(parts.get(1, _EMPTY))).decode(), parts, entry


def _values(feature: memoryview) -> Feature:
    for kind, data in _fields(feature):
        values = [value for field, value in _fields(_bytes(data)) if field == 1]
        if kind == 1:
            return [bytes(_bytes(value)) for value in values]
        if kind == 2:
            return [number for value in values for (number,) in struct.iter_unpack("<f", _bytes(value))]
        if kind == 3:
            return [number for value in values for number in _integers(value)]
    return []


def _integers(value: int | memoryview) -> Iterator[int]:
    """Yield one int64, or several packed ones."""
    if isinstance(value, int):
        yield value - (1 << 64) if value >> 63 else value
        return
    position = 0
    while position < len(value):
        number, position = _varint(value, position)
        yield from _integers(number)


def _fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Yield the fields of a protocol buffer message: number, and an integer (varint) or bytes."""
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        if (kind := tag & 7) == _VARINT:
            value, position = _varint(data, position)
            yield tag >> 3, value
            continue
        if kind == _DELIMITED:
            size, position = _varint(data, position)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise ValueError(f"wire type {kind} is unknown")
        if position + size > len(data):
            raise ValueError("a field is longer than its message")
        yield tag >> 3, data[position : position + size]
        position += size


def _varint(data: memoryview, position: int) -> tuple[int, int]:
    """Return an integer that is encoded with seven bits per byte, and the position after it."""
    value = shift = 0
    while shift < 70:
        byte = data[position]
        value |= (byte & 127) << shift
        position, shift = position + 1, shift + 7
        if byte < 128:
            return value, position
    raise ValueError("a number has more than 64 bits")


def _bytes(value: int | memoryview) -> memoryview:
    if isinstance(value, int):
        raise ValueError("found a number instead of bytes")
    return value


def tfrecord(examples: Iterable[Mapping[str, bytes | str | int]]) -> bytes:
    """Return a TFRecord file of ``tf.train.Example`` records; strings become bytes lists, integers ≥ 0 int64 lists."""
    return b"".join(_framed(_example(features)) for features in examples)


def keep_features(path: Path, names: Collection[str]) -> None:
    """Replace a TFRecord file with one whose records have only these features, byte for byte.

    Files that are hard-linked to it are not modified. Raises DataError if the file is invalid or missing.
    """
    new = path.with_name(f".{path.name}.new")
    with new.open("xb") as file:
        for record in read_records(path):
            with _damage_named(path):
                kept = b"".join(_field(1, bytes(entry)) for name, _, entry in _features(record) if name in names)
            file.write(_framed(_field(1, kept)))
    new.replace(path)


def copy_records(source: Path, target: Path, is_wanted: Callable[[dict[str, Feature]], bool]) -> int:
    """Copy the records for which ``is_wanted`` is true, byte for byte, to a new file; returns their number.

    ``is_wanted`` takes a record's features by name. Raises DataError if the source is invalid or missing.
    """
    count = 0
    with target.open("xb") as file:
        for frame in _frames(source):
            if is_wanted(_parsed(source, frame[_HEAD:-_TAIL])):
                file.write(frame)
                count += 1
    return count


def _example(features: Mapping[str, bytes | str | int]) -> bytes:
    entries = b""
    for name, value in features.items():
        if isinstance(value, int):
            feature = _field(3, _field(1, _encoded(value)))
        else:
            feature = _field(1, _field(1, value.encode() if isinstance(value, str) else value))
        entries += _field(1, _field(1, name.encode()) + _field(2, feature))
    return _field(1, entries)


def _field(number: int, content: bytes) -> bytes:
    return _encoded(number << 3 | _DELIMITED) + _encoded(len(content)) + content


def _encoded(value: int) -> bytes:
    low = b""
    while value > 127:
        low, value = low + bytes([value & 127 | 128]), value >> 7
    return low + bytes([value])


def _framed(record: bytes) -> bytes:
    """Return a record with its length and the checksums of both."""
    size = struct.pack("<Q", len(record))
    return size + _masked_crc32c(size) + record + _masked_crc32c(record)


def _masked_crc32c(data: bytes) -> bytes:
    """Return the CRC-32C, rotated and shifted as TFRecord requires."""
    table, crc = _crc32c_table(), 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


@cache
def _crc32c_table() -> tuple[int, ...]:
    table = []
    for crc in range(256):
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return tuple(table)
