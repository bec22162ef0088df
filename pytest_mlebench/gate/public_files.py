"""Reads public files and members of archives, as tables and with their metadata, such as headers."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.archives import ArchiveError, archive_errors
from pytest_mlebench.authoring.tables import module
from pytest_mlebench.data.dataset import read_parquet
from pytest_mlebench.io.files import scratch

_SHOWN = 500
"""Maximum number of characters of a value."""
_MAX_ITEMS = 2000


def header(content: bytes, suffix: str) -> dict[str, str]:
    """Return the header items of a DICOM, WAV, AIFF, NIfTI, NumPy, gzip or Parquet file, by name; empty for others.

    The items of a NumPy array include its first and last value, those of a broken file end where it breaks.
    """
    found: dict[str, str] = {}
    read = next((read for is_ours, read in _READERS if is_ours(content, suffix)), None)
    if read is not None:
        try:
            for count, (name, value) in enumerate(read(content)):
                found[name] = (found[name] + "\\" + value if name in found else value)[:_SHOWN]
                if count >= _MAX_ITEMS:
                    break
        except Exception:  # readers raise all kinds of errors
            return found
    return found


Items = Iterator[tuple[str, str]]
_IMPLICIT, _DEFLATED, _BIG_ENDIAN = "1.2.840.10008.1.2", "1.2.840.10008.1.2.1.99", "1.2.840.10008.1.2.2"
_LONG = {b"OB", b"OW", b"OF", b"OD", b"OL", b"OV", b"SQ", b"UT", b"UN", b"UC", b"UR", b"SV", b"UV"}
_NUMBERS = {b"US": "H", b"SS": "h", b"UL": "I", b"SL": "i", b"FL": "f", b"FD": "d", b"SV": "q", b"UV": "Q"}
_UNDEFINED = 0xFFFFFFFF
_PIXELS = 0x7FE0


def _of_dicom(content: bytes) -> Items:
    """Yield data elements, including those of sequences, up to the pixels; see DICOM PS3.5, chapter 7."""
    syntax, offset = "", 132
    while offset + 8 <= len(content):
        is_meta = content[offset : offset + 2] == b"\2\0"
        if not is_meta and syntax == _DEFLATED:
            unpacked = zlib.decompressobj(-zlib.MAX_WBITS).decompress(content[offset:], MAX_BYTES)
            content, offset, syntax = unpacked, 0, "1.2.840.10008.1.2.1"
        order = ">" if syntax == _BIG_ENDIAN and not is_meta else "<"
        group, element = struct.unpack_from(f"{order}HH", content, offset)
        kind = content[offset + 4 : offset + 6]
        if group == 0xFFFE or (syntax == _IMPLICIT and not is_meta):
            kind, (length,), offset = b"", struct.unpack_from(f"{order}I", content, offset + 4), offset + 8
        elif kind in _LONG:
            (length,), offset = struct.unpack_from(f"{order}I", content, offset + 8), offset + 12
        else:
            (length,), offset = struct.unpack_from(f"{order}H", content, offset + 6), offset + 8
        if group == 0xFFFE or kind == b"SQ" or (length == _UNDEFINED and group != _PIXELS):
            continue  # a sequence or an item of one: its elements follow
        if length == _UNDEFINED:
            return
        value = content[offset : offset + length]
        offset += length
        if group != _PIXELS:
            text = _numbers(value, order + _NUMBERS[kind]) if kind in _NUMBERS else _text(value)
            syntax = text if (group, element) == (2, 0x10) else syntax
            yield f"DICOM tag ({group:04X},{element:04X})", text


def _of_chunks(content: bytes) -> Items:
    """Yield the chunks of a RIFF or IFF file, including those in lists; for the sound, only its size."""
    order = "<" if content[:4] == b"RIFF" else ">"

    def walk(start: int, end: int, prefix: str) -> Items:
        while start + 8 <= end:
            (length,) = struct.unpack_from(f"{order}I", content, start + 4)
            name = prefix + content[start : start + 4].decode("latin-1")
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
"""Offsets and formats of NIfTI-1 fields: https://nifti.nimh.nih.gov/pub/dist/src/niftilib/nifti1.h."""


def _of_nifti(content: bytes) -> Items:
    order = "<" if content[:4] == b"\x5c\1\0\0" else ">"
    for name, (offset, form) in _NIFTI.items():
        values = struct.unpack_from(order + form, content, offset)
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


def _of_gzip(content: bytes) -> Items:
    """See RFC 1952, chapter 2.3."""
    flags, time, level, system = struct.unpack_from("<BIBB", content, 3)
    yield "gzip flags", str(flags)
    yield "gzip time", str(time)
    yield "gzip level and system", f"{level} {system}"
    offset = 10
    if flags & 4:
        (length,) = struct.unpack_from("<H", content, offset)
        yield "gzip extra field", content[offset + 2 : offset + 2 + length].hex()
        offset += 2 + length
    for flag, name in ((8, "name"), (16, "comment")):
        if flags & flag:
            end = content.index(b"\0", offset)
            yield f"gzip {name}", content[offset:end].decode("latin-1")
            offset = end + 1


def _of_parquet(content: bytes) -> Items:
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
    """Return a string without its padding, or bytes as hexadecimal digits."""
    text = value.rstrip(b"\0 ").decode("utf-8", "replace").strip()
    return text if text.isprintable() else value[:_SHOWN].hex()


def _numbers(value: bytes, form: str) -> str:
    return " ".join(str(number) for (number,) in struct.iter_unpack(form, value[: 8 * _SHOWN]))


_READERS: tuple[tuple[Callable[[bytes, str], bool], Callable[[bytes], Items]], ...] = (
    (lambda content, _: content[128:132] == b"DICM", _of_dicom),
    (lambda content, _: content[:4] in (b"RIFF", b"FORM"), _of_chunks),
    (lambda content, _: content[344:347] in (b"n+1", b"ni1"), _of_nifti),
    (lambda content, _: content[:6] == b"\x93NUMPY", _of_array),
    (lambda content, _: content[:3] == b"\x1f\x8b\x08", _of_gzip),
    (lambda content, suffix: content[:4] == b"PAR1" and suffix in (".parquet", ".pq"), _of_parquet),
)


MAX_BYTES = 1 << 26
"""Maximum size of a file or archive member that is read; larger ones are only compared as a whole."""
_MAX_DEPTH = 3
_MAX_COLUMNS = 500
_SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": ","}
_TEXTS = {".csv", ".tsv", ".txt", ".json", ".jsonl"}
_IMAGES = {".jpg", ".jpeg", ".png", ".tif", ".tiff", ".bmp", ".gif", ".webp"}
_COMPRESSED: Mapping[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


@dataclass(frozen=True)
class PublicFile:
    """A public file, or a member of an archive, such as ``train.zip/images/1.jpg``.

    ``noted`` is its metadata in the file system (all numbers) or in the archive, such as times or a comment. The
    content of a compressed file has the metadata of that file.
    """

    name: str
    content: bytes
    noted: tuple[tuple[str, str], ...] = ()

    @property
    def suffix(self) -> str:
        return PurePosixPath(self.name).suffix.lower()


def entries(public: Path, max_total: int = 1 << 30) -> Iterator[PublicFile]:
    """Yield the public files in order of name, each before its members, which are in the archive's order.

    Files above ``MAX_BYTES``, and files beyond a total of ``max_total`` bytes, have metadata but no content. Members
    above ``MAX_BYTES``, and an archive's members from the first beyond the total, are left out.
    """
    total = 0
    paths = list(public.rglob("*"))  # each folder in the order of its directory
    positions = {path: str(position) for position, path in enumerate(paths)}
    for path in sorted(paths):
        if not path.is_file():
            continue
        status = path.stat()
        noted = (
            ("time of change", str(status.st_mtime_ns)),
            ("time of the inode's change", str(status.st_ctime_ns)),
            ("inode", str(status.st_ino)),
            ("mode", str(status.st_mode)),
            ("owner", str(status.st_uid << 32 | status.st_gid)),
            ("links", str(status.st_nlink)),
            ("extended attributes", str(_attributes(path))),
            ("blocks", str(status.st_blocks)),
            ("place in the directory", positions[path]),
        )
        name, size = path.relative_to(public).as_posix(), status.st_size
        if size > MAX_BYTES or total + size > max_total:
            yield PublicFile(name, b"", (*noted, ("size in bytes", str(size))))
        else:
            for entry in _with_members(PublicFile(name, path.read_bytes(), noted), _MAX_DEPTH):
                if total + len(entry.content) > max_total:
                    break
                total += len(entry.content)
                yield entry


def _attributes(path: Path) -> int:
    """Return a checksum of the names and values of a file's extended attributes; 0 if it has none."""
    try:
        names = sorted(os.listxattr(path))
        return zlib.crc32(repr([(name, os.getxattr(path, name)) for name in names]).encode()) if names else 0
    except OSError:  # the file system does not support them
        return 0


def table(entry: PublicFile) -> pd.DataFrame | None:
    """Return an entry as a table of strings (from CSV, TSV, JSON, Parquet or TFRecord); None if it is not a table."""
    try:
        found = _table(entry)
    except Exception:  # readers raise all kinds of errors
        return None
    return None if found is None or not len(found.columns) else found.rename(columns=str)


def text_table(path: Path) -> pd.DataFrame | None:
    """Read a CSV or TSV file as a table of strings; None if it is not one. Raises ArchiveError if it is damaged."""
    with archive_errors(path), suppress(ValueError, ImportError):  # pandas needs another package for Zstandard
        return pd.read_csv(path, sep="\t" if path.suffix == ".tsv" else ",", dtype=str, keep_default_na=False)
    return None


def metadata(entry: PublicFile) -> dict[str, str]:
    """Return a file's metadata: size, times, comments; an image's header and EXIF; other files' ``header``."""
    content = entry.content
    found = {"size in bytes": str(len(content)), "last bytes": content[-4:].hex(), **dict(entry.noted)}
    if (extra := _bytes_after_end(content)) is not None:
        found["bytes after the end"] = str(extra)
    elif entry.suffix in _TEXTS:
        found["first bytes"] = content[:3].hex()  # show a byte order mark
        found["line ends"] = str((content.count(b"\r") > 0, len(content) - len(content.rstrip())))
    if entry.suffix in _IMAGES:
        found.update(_of_image(entry.content))
    return found | header(entry.content, entry.suffix)


def _bytes_after_end(content: bytes) -> int | None:
    """Return the number of bytes after the end of a PNG, JPEG or RIFF file; None for others."""
    if content[:8] == b"\x89PNG\r\n\x1a\n":
        return len(content) - content.rfind(b"IEND") - 8
    if content[:2] == b"\xff\xd8":
        return len(content) - content.rfind(b"\xff\xd9") - 2
    if content[:4] == b"RIFF":
        return len(content) - 8 - int.from_bytes(content[4:8], "little")
    return None


def _of_image(content: bytes) -> dict[str, str]:
    from PIL import Image

    try:
        with Image.open(io.BytesIO(content)) as image:
            items = {"mode": image.mode, "format": image.format, "width and height": image.size, **image.info}
            if tables := getattr(image, "quantization", None):
                items["quantization"] = zlib.crc32(repr(tables).encode())  # shows the quality of a JPEG
            items |= {f"EXIF tag {tag}": value for tag, value in image.getexif().items()}
            items |= {f"tag {tag}": value for tag, value in getattr(image, "tag_v2", {}).items()}
    except Exception:  # Pillow raises all kinds of errors
        return {}
    return {f"image header's {name}": repr(value)[:1000] for name, value in items.items()}


def _with_members(entry: PublicFile, depth: int) -> Iterator[PublicFile]:
    yield entry
    if depth:
        with suppress(ArchiveError, OSError), archive_errors(entry.name):
            yield from (found for member in _members(entry) for found in _with_members(member, depth - 1))


def _members(entry: PublicFile) -> Iterator[PublicFile]:
    content = entry.content
    if content[:4] == b"PK\x03\x04":
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for member in archive.infolist():
                if not member.is_dir() and member.file_size <= MAX_BYTES:
                    noted = {
                        "time": member.date_time,
                        "comment": member.comment,
                        "extra field": member.extra,
                        "attributes": (member.external_attr, member.internal_attr, member.flag_bits),
                        "writer": (member.create_system, member.create_version, member.extract_version),
                        "compression": member.compress_type,
                    }
                    yield _member(entry, member.filename, archive.read(member), noted)
    elif content[:6] == b"7z\xbc\xaf\x27\x1c":
        yield from _members_of_7z(entry)
    elif content[257:262] == b"ustar" or entry.name.endswith((".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")):
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            for item in archive:
                if item.isfile() and item.size <= MAX_BYTES and (file := archive.extractfile(item)):
                    of_item: dict[str, Any] = {
                        "time": item.mtime,
                        "owner": (item.uid, item.gid, item.uname, item.gname),
                        "mode": item.mode,
                        "headers": sorted(item.pax_headers.items()),
                    }
                    yield _member(entry, item.name, file.read(), of_item)
    elif unpacked := _COMPRESSED.get(entry.suffix):
        with unpacked(io.BytesIO(content)) as opened:
            content = opened.read(MAX_BYTES + 1)
        if len(content) <= MAX_BYTES:
            yield PublicFile(entry.name.removesuffix(entry.suffix), content, entry.noted)


def _member(entry: PublicFile, name: str, content: bytes, noted: Mapping[str, Any]) -> PublicFile:
    shown = tuple((f"archive's {key}", str(value)) for key, value in noted.items())
    return PublicFile(f"{entry.name}/{name}", content, shown)


def _members_of_7z(entry: PublicFile) -> Iterator[PublicFile]:
    import py7zr

    with scratch() as folder, py7zr.SevenZipFile(io.BytesIO(entry.content)) as archive:
        if sum(member.uncompressed or 0 for member in archive.list()) > MAX_BYTES:
            return
        archive.extractall(folder)
        for path in sorted(Path(folder).rglob("*")):
            if path.is_file():
                yield PublicFile(f"{entry.name}/{path.relative_to(folder).as_posix()}", path.read_bytes())


def _table(entry: PublicFile) -> pd.DataFrame | None:
    if separator := _SEPARATORS.get(entry.suffix):
        text = entry.content.decode("utf-8")
        return pd.read_csv(io.StringIO(text), sep=separator, dtype=str, keep_default_na=False)
    if entry.suffix in (".json", ".jsonl", ".ndjson"):
        return _records_table(_json(entry.content))
    if entry.suffix == ".npy":
        return _array_table(entry.content)
    if entry.suffix in (".parquet", ".pq"):
        return read_parquet(io.BytesIO(entry.content)).reset_index().astype(str)
    if entry.suffix.startswith(".tfrec"):
        from pytest_mlebench.authoring.tfrecord import read_examples

        with tempfile.NamedTemporaryFile() as file:
            file.write(entry.content)
            file.flush()
            return _records_table([_short_features(example) for example in read_examples(Path(file.name))])
    return None


def _array_table(content: bytes) -> pd.DataFrame | None:
    """Return the fields of a structured array, or the columns of one with at most two dimensions; None for others."""
    array = np.load(io.BytesIO(content), allow_pickle=False)
    if array.ndim > 2 or array.shape[1:] > (_MAX_COLUMNS,) or not array.ndim:
        return None
    named = (
        array if array.dtype.names else {f"column {k}": col for k, col in enumerate(array.reshape(len(array), -1).T)}
    )
    return pd.DataFrame(named).astype(str)


def _json(content: bytes) -> Any:
    try:
        return json.loads(content)
    except json.JSONDecodeError:
        return [json.loads(line) for line in content.splitlines() if line.strip()]


def _records_table(values: Any) -> pd.DataFrame | None:
    if isinstance(values, dict) and values and all(isinstance(row, dict) for row in values.values()):
        values = [{"key": key, **row} for key, row in values.items()]
    if not isinstance(values, list) or not values or not all(isinstance(row, dict) for row in values):
        return None
    plain = [{key: value for key, value in row.items() if not isinstance(value, dict | list)} for row in values]
    return pd.DataFrame(plain).fillna("").astype(str)


def _short_features(example: dict[str, Any]) -> dict[str, str]:
    """Return the features with one short value as strings, without images."""
    found = {}
    for name, values in example.items():
        if len(values) == 1 and len(str(values[0])) < 1000:
            value = values[0]
            found[name] = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return found
