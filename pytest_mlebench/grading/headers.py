"""What files of signals, images and arrays say beside their content: the tags, chunks and fields of their headers."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable, Iterator

import numpy as np

_SHOWN = 500
"""Characters of a value."""
_MAX_ITEMS = 2000


def header(content: bytes, suffix: str) -> dict[str, str]:
    """The items of a DICOM, WAV, AIFF, NIfTI, NumPy or Parquet file's header, by their names; empty for other files.

    Of a NumPy array the first and the last value, too. A broken file's items end where it breaks.
    """
    found: dict[str, str] = {}
    read = next((read for is_ours, read in _READERS if is_ours(content, suffix)), None)
    if read is not None:
        try:
            for count, (name, value) in enumerate(read(content)):
                found[name] = (found[name] + "\\" + value if name in found else value)[:_SHOWN]
                if count >= _MAX_ITEMS:
                    break
        except Exception:  # whatever readers raise for what is broken
            return found
    return found


Items = Iterator[tuple[str, str]]
_IMPLICIT, _DEFLATED, _BIG_ENDIAN = "1.2.840.10008.1.2", "1.2.840.10008.1.2.1.99", "1.2.840.10008.1.2.2"
_LONG = {b"OB", b"OW", b"OF", b"OD", b"OL", b"OV", b"SQ", b"UT", b"UN", b"UC", b"UR", b"SV", b"UV"}
_NUMBERS = {b"US": "H", b"SS": "h", b"UL": "I", b"SL": "i", b"FL": "f", b"FD": "d", b"SV": "q", b"UV": "Q"}
_UNDEFINED = 0xFFFFFFFF
_PIXELS = 0x7FE0


def _of_dicom(content: bytes) -> Items:
    """Data elements, those of sequences too, up to the pixels; see DICOM PS3.5, chapter 7."""
    syntax, place = "", 132
    while place + 8 <= len(content):
        is_meta = content[place : place + 2] == b"\2\0"
        if not is_meta and syntax == _DEFLATED:
            content, place, syntax = zlib.decompress(content[place:], -zlib.MAX_WBITS), 0, "1.2.840.10008.1.2.1"
        order = ">" if syntax == _BIG_ENDIAN and not is_meta else "<"
        group, element = struct.unpack_from(f"{order}HH", content, place)
        kind = content[place + 4 : place + 6]
        if group == 0xFFFE or (syntax == _IMPLICIT and not is_meta):
            kind, (length,), place = b"", struct.unpack_from(f"{order}I", content, place + 4), place + 8
        elif kind in _LONG:
            (length,), place = struct.unpack_from(f"{order}I", content, place + 8), place + 12
        else:
            (length,), place = struct.unpack_from(f"{order}H", content, place + 6), place + 8
        if group == 0xFFFE or kind == b"SQ" or (length == _UNDEFINED and group != _PIXELS):
            continue  # a sequence or an item of one: its elements follow
        if length == _UNDEFINED:
            return
        value = content[place : place + length]
        place += length
        if group != _PIXELS:
            text = _numbers(value, order + _NUMBERS[kind]) if kind in _NUMBERS else _text(value)
            syntax = text if (group, element) == (2, 0x10) else syntax
            yield f"DICOM tag ({group:04X},{element:04X})", text


def _of_chunks(content: bytes) -> Items:
    """The chunks of a RIFF or IFF file but that of the sound, and those within a list; of the sound its size."""
    order = "<" if content[:4] == b"RIFF" else ">"

    def walk(start: int, end: int, above: str) -> Items:
        while start + 8 <= end:
            (length,) = struct.unpack_from(f"{order}I", content, start + 4)
            name = above + content[start : start + 4].decode("latin-1")
            value = content[start + 8 : min(start + 8 + length, end)]
            if name in ("data", "SSND"):
                yield f"size of chunk {name}", str(length)
            elif name == "LIST":
                yield from walk(start + 12, start + 8 + len(value), f"{value[:4].decode('latin-1')} ")
            else:
                yield f"chunk {name}", _text(value)
            start += 8 + length + length % 2

    yield from walk(12, len(content), "")


_NIFTI = {
    "data_type": (4, "10s"),
    "db_name": (14, "18s"),
    "dim": (40, "8h"),
    "intent": (56, "3fh"),
    "datatype": (70, "2h"),
    "pixdim": (76, "8f"),
    "scl": (112, "2f"),
    "cal": (124, "2f"),
    "glmax and glmin": (140, "2i"),
    "descrip": (148, "80s"),
    "aux_file": (228, "24s"),
    "intent_name": (328, "16s"),
}
"""Places and forms of fields of NIfTI-1: https://nifti.nimh.nih.gov/pub/dist/src/niftilib/nifti1.h."""


def _of_nifti(content: bytes) -> Items:
    order = "<" if content[:4] == b"\x5c\1\0\0" else ">"
    for name, (place, form) in _NIFTI.items():
        values = struct.unpack_from(order + form, content, place)
        yield f"NIfTI field {name}", _text(values[0]) if form.endswith("s") else " ".join(map(str, values))
    (start,) = struct.unpack_from(f"{order}f", content, 108)
    yield "NIfTI extension", _text(content[348 : int(start)])


def _of_array(content: bytes) -> Items:
    long = content[6] > 1
    (length,) = struct.unpack_from("<I" if long else "<H", content, 8)
    start = 12 if long else 10
    yield "NumPy header", content[start : start + length].decode("latin-1")
    values = np.load(io.BytesIO(content), allow_pickle=False).ravel()
    yield "first value", str(values[0])
    yield "last value", str(values[-1])


def _of_parquet(content: bytes) -> Items:
    from pytest_mlebench.grading.arrow import module

    parquet = module("pyarrow.parquet")
    if parquet is None:
        return
    found = parquet.read_metadata(io.BytesIO(content))
    yield "number of rows", str(found.num_rows)
    yield "writer", str(found.created_by)
    for key, value in (found.metadata or {}).items():
        if key not in (b"pandas", b"ARROW:schema"):
            yield f"metadata {key.decode('utf-8', 'replace')}", value.decode("utf-8", "replace")


def _text(value: bytes) -> str:
    """A text without its padding, or bytes in hexadecimal digits."""
    text = value.rstrip(b"\0 ").decode("utf-8", "replace").strip()
    return text if text.isprintable() else value[:_SHOWN].hex()


def _numbers(value: bytes, form: str) -> str:
    return " ".join(str(number) for (number,) in struct.iter_unpack(form, value[: 8 * _SHOWN]))


_READERS: tuple[tuple[Callable[[bytes, str], bool], Callable[[bytes], Items]], ...] = (
    (lambda content, _: content[128:132] == b"DICM", _of_dicom),
    (lambda content, _: content[:4] in (b"RIFF", b"FORM"), _of_chunks),
    (lambda content, _: content[344:347] in (b"n+1", b"ni1"), _of_nifti),
    (lambda content, _: content[:6] == b"\x93NUMPY", _of_array),
    (lambda content, suffix: content[:4] == b"PAR1" and suffix in (".parquet", ".pq"), _of_parquet),
)
