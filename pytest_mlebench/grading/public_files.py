"""What public files hold: their bytes and those of archives in them, tables, and what they say beside their content."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.grading.headers import header

MAX_BYTES = 1 << 26
"""Of a file or member that is looked into; larger ones are only compared as a whole."""
MAX_TOTAL = 1 << 30
_MAX_DEPTH = 3
_MAX_COLUMNS = 500
_SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": ","}
_IMAGES = {".jpg", ".jpeg", ".png", ".tif", ".tiff", ".bmp", ".gif", ".webp"}
_UNPACKED = {".gz": gzip.decompress, ".bz2": bz2.decompress, ".xz": lzma.decompress}
_BROKEN = (
    OSError,
    EOFError,
    ValueError,
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    RuntimeError,
)


@dataclass(frozen=True)
class PublicFile:
    """A public file, or what lies in an archive: ``train.zip/images/1.jpg``.

    ``noted`` is what the file system or the archive says of it: its time, a comment.
    """

    name: str
    content: bytes
    noted: tuple[tuple[str, str], ...] = ()

    @property
    def suffix(self) -> str:
        return PurePosixPath(self.name).suffix.lower()


def entries(public: Path) -> Iterator[PublicFile]:
    """The public files that are not too large, each before what it holds; in the order of their names, members of
    archives in the order in which they lie there."""
    total = 0
    for path in sorted(public.rglob("*")):
        if not path.is_file() or (size := path.stat().st_size) > MAX_BYTES or total + size > MAX_TOTAL:
            continue
        total += size
        noted = (("time of change", str(path.stat().st_mtime_ns)),)
        yield from _opened(PublicFile(path.relative_to(public).as_posix(), path.read_bytes(), noted), _MAX_DEPTH)


def table(entry: PublicFile) -> pd.DataFrame | None:
    """The table of texts that an entry is: CSV, TSV, JSON, Parquet or TFRecord; None if it is none."""
    try:
        found = _table(entry)
    except Exception:  # whatever readers raise for what is no table
        return None
    return None if found is None or not len(found.columns) else found.rename(columns=str)


def metadata(entry: PublicFile) -> dict[str, str]:
    """What a file says beside its content: size, time, comments; an image's header and EXIF; others' ``header``."""
    found = {"size in bytes": str(len(entry.content)), "last bytes": entry.content[-4:].hex(), **dict(entry.noted)}
    if entry.suffix in _IMAGES:
        found.update(_of_image(entry.content))
    return found | header(entry.content, entry.suffix)


def _of_image(content: bytes) -> dict[str, str]:
    from PIL import Image

    try:
        with Image.open(io.BytesIO(content)) as image:
            said = {"mode": image.mode, "format": image.format, "width and height": image.size, **image.info}
            said |= {f"EXIF tag {tag}": value for tag, value in image.getexif().items()}
            said |= {f"tag {tag}": value for tag, value in getattr(image, "tag_v2", {}).items()}
    except Exception:  # whatever Pillow raises for what is no image
        return {}
    return {f"image header's {name}": repr(value)[:1000] for name, value in said.items()}


def _opened(entry: PublicFile, depth: int) -> Iterator[PublicFile]:
    yield entry
    if depth:
        try:
            yield from (found for member in _members(entry) for found in _opened(member, depth - 1))
        except _BROKEN:
            return


def _members(entry: PublicFile) -> Iterator[PublicFile]:
    content = entry.content
    if content[:4] == b"PK\x03\x04":
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for member in archive.infolist():
                if not member.is_dir() and member.file_size <= MAX_BYTES:
                    noted = {"time": member.date_time, "comment": member.comment, "extra field": member.extra}
                    shown = tuple((f"archive's {key}", str(value)) for key, value in noted.items())
                    yield PublicFile(f"{entry.name}/{member.filename}", archive.read(member), shown)
    elif content[:6] == b"7z\xbc\xaf\x27\x1c":
        yield from _members_of_7z(entry)
    elif content[257:262] == b"ustar" or entry.name.endswith((".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")):
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            for item in archive:
                if item.isfile() and item.size <= MAX_BYTES and (file := archive.extractfile(item)):
                    of_item: dict[str, Any] = {
                        "time": item.mtime,
                        "owner": (item.uid, item.gid, item.uname),
                        "mode": item.mode,
                    }
                    shown = tuple((f"archive's {key}", str(value)) for key, value in of_item.items())
                    yield PublicFile(f"{entry.name}/{item.name}", file.read(), shown)
    elif unpack := _UNPACKED.get(entry.suffix):
        yield PublicFile(entry.name.removesuffix(entry.suffix), unpack(content))


def _members_of_7z(entry: PublicFile) -> Iterator[PublicFile]:
    import py7zr

    with tempfile.TemporaryDirectory() as folder, py7zr.SevenZipFile(io.BytesIO(entry.content)) as archive:
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
        return _of_records(_json(entry.content))
    if entry.suffix == ".npy":
        return _of_array(entry.content)
    if entry.suffix in (".parquet", ".pq"):
        return pd.read_parquet(io.BytesIO(entry.content)).reset_index().astype(str)
    if entry.suffix.startswith(".tfrec"):
        from pytest_mlebench.data.authoring.tfrecord import read_examples

        with tempfile.NamedTemporaryFile() as file:
            file.write(entry.content)
            file.flush()
            return _of_records([_short(example) for example in read_examples(Path(file.name))])
    return None


def _of_array(content: bytes) -> pd.DataFrame | None:
    """Fields of a structured array, or columns of one with two dimensions at most and not too many columns."""
    array = np.load(io.BytesIO(content), allow_pickle=False)
    if array.ndim > 2 or array.shape[1:] > (_MAX_COLUMNS,) or not array.ndim:
        return None
    named = (
        array if array.dtype.names else {f"column {k}": own for k, own in enumerate(array.reshape(len(array), -1).T)}
    )
    return pd.DataFrame(named).astype(str)


def _json(content: bytes) -> Any:
    try:
        return json.loads(content)
    except json.JSONDecodeError:
        return [json.loads(line) for line in content.splitlines() if line.strip()]


def _of_records(values: Any) -> pd.DataFrame | None:
    if isinstance(values, dict) and values and all(isinstance(own, dict) for own in values.values()):
        values = [{"key": key, **own} for key, own in values.items()]
    if not isinstance(values, list) or not values or not all(isinstance(own, dict) for own in values):
        return None
    plain = [{key: value for key, value in own.items() if not isinstance(value, dict | list)} for own in values]
    return pd.DataFrame(plain).fillna("").astype(str)


def _short(example: dict[str, Any]) -> dict[str, str]:
    """The features of one short value as text: no images."""
    found = {}
    for name, values in example.items():
        if len(values) == 1 and len(str(values[0])) < 1000:
            value = values[0]
            found[name] = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return found
