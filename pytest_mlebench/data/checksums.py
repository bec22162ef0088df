"""Digests of prepared data: by bytes, and by content where the bytes depend on a library's version or the clock."""

from __future__ import annotations

import hashlib
import tarfile
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

_BLOCK = 1 << 20

Digest = str | dict[str, Any]
"""An md5 in hexadecimal, or for an archive or a parquet file its members' digests."""


def md5(source: Path | bytes | IO[bytes]) -> str:
    """md5 of a file (read in blocks) or of bytes, in hexadecimal."""
    if isinstance(source, bytes):
        return hashlib.md5(source, usedforsecurity=False).hexdigest()
    if isinstance(source, Path):
        with source.open("rb") as file:
            return md5(file)
    digest = hashlib.md5(usedforsecurity=False)
    for block in iter(lambda: source.read(_BLOCK), b""):
        digest.update(block)
    return digest.hexdigest()


def digest(path: Path) -> Digest:
    """The md5 of a file; for zip, tar and 7z archives those of their members, for parquet that of columns and rows."""
    name = path.name
    if name.endswith(".zip"):
        with zipfile.ZipFile(path) as archive:
            return {info.filename: _member(archive, info) for info in archive.infolist() if not info.is_dir()}
    if name.endswith((".tar", ".tar.gz", ".tgz")):
        with tarfile.open(path) as tar:
            members = [info for info in tar if info.isfile()]
            return {info.name: md5(file) for info in members if (file := tar.extractfile(info))}
    if name.endswith(".7z"):
        import py7zr

        with tempfile.TemporaryDirectory() as folder, py7zr.SevenZipFile(path) as seven:
            seven.extractall(folder)
            return dict(listing(Path(folder)))
    if name.endswith(".parquet"):
        import pandas as pd

        table = pd.read_parquet(path)
        columns = repr([str(column) for column in table.columns])
        return {"columns": md5(columns.encode()), "rows": md5(table.to_csv().encode())}
    return md5(path)


def listing(folder: Path) -> dict[str, Digest]:
    """The digest of every file below a folder, by its path relative to it, sorted."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): digest(path) for path in files}


def differences(expected: Mapping[str, Digest], found: Mapping[str, Digest], where: str) -> list[str]:
    """The differences between two listings, one sentence per file."""
    return [
        *(f"{where}/{name} is missing" for name in sorted(expected.keys() - found.keys())),
        *(f"{where}/{name} should not be there" for name in sorted(found.keys() - expected.keys())),
        *(
            f"{where}/{name}: expected {expected[name]}, found {found[name]}"
            for name in sorted(expected.keys() & found.keys())
            if expected[name] != found[name]
        ),
    ]


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> str:
    with archive.open(info) as file:
        return md5(file)
