"""Digests of prepared data: by bytes, and by content where the bytes depend on a library's version or the clock."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.io import locks
from pytest_mlebench.io.units import format_size

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


SIDES = ("public", "private")
DESCRIPTION = "public/description.md"
"""Not listed, as it may be replaced (see ``DataStore.prepare``)."""


def checksum_errors(dataset: Dataset) -> list[str]:
    """How the prepared files differ from the competition's checksums; empty if they match or there are none."""
    wrong = []
    for name, expected in _checksums(dataset):
        path = dataset.prepared / name
        if not path.is_file():
            wrong.append(f"{name} is missing")
        elif (found := digest(path)) != expected:
            wrong.append(f"{name}: expected {expected}, found {found}")
    return wrong


def listing_errors(dataset: Dataset) -> list[str]:
    """How the prepared files' names and sizes differ from the listing; empty if they match or there is none.

    Files with a checksum are left out.
    """
    try:
        with gzip.open(dataset.listing, "rt", encoding="utf-8") as lines:
            expected = dict(map(json.loads, lines))
    except FileNotFoundError:
        return []
    except (OSError, EOFError, ValueError) as error:
        return [f"{dataset.listing.name} is damaged: {error}"]
    found = dict(prepared_files(dataset.prepared))
    for name, _ in _checksums(dataset):
        expected.pop(name, None)
        found.pop(name, None)
    return [
        *(f"{name} is missing" for name in sorted(expected.keys() - found.keys())),
        *(f"{name} should not be there" for name in sorted(found.keys() - expected.keys())),
        *(
            f"{name} has changed: expected {format_size(expected[name])}, found {format_size(found[name])}"
            for name in sorted(expected.keys() & found.keys())
            if expected[name] != found[name]
        ),
    ]


def fingerprint(dataset: Dataset) -> dict[str, str]:
    """What distinguishes prepared data from other data of the competition, as runs record it.

    It is made when data is prepared. For data that another program prepared, it is made here, and kept if this user
    may write to its folder.
    """
    known = dataset.state.get("fingerprint")
    if isinstance(known, dict):
        return known
    made = make_fingerprint(dataset)
    with suppress(OSError, locks.LockHeld), locks.hold(dataset.lock_file, "fingerprints", dataset.competition.id):
        dataset.note(fingerprint=made)
    return made


def make_fingerprint(dataset: Dataset) -> dict[str, str]:
    """Digests of the names and sizes of the public files, and of the answers."""
    public = sorted(entry for entry in prepared_files(dataset.prepared) if entry[0].startswith("public/"))
    return {"public_names_and_sizes": md5(json.dumps(public).encode()), "answers": md5(dataset.answers)}


def write_listing(prepared: Path, target: Path) -> int:
    """List names and sizes of all prepared files in a file of compressed JSON lines; returns their total size."""
    total = 0
    with gzip.open(target, "wt", encoding="utf-8", compresslevel=1) as lines:
        for entry in prepared_files(prepared):
            lines.write(json.dumps(entry) + "\n")
            total += entry[1]
    return total


def prepared_files(prepared: Path) -> Iterator[tuple[str, int]]:
    """Relative path and size of each prepared file but the description."""
    for folder, _, names in os.walk(prepared):
        inside = Path(folder).relative_to(prepared).as_posix()
        for name in names:
            if (path := f"{inside}/{name}") != DESCRIPTION:
                yield path, os.lstat(os.path.join(folder, name)).st_size  # noqa: PTH118  (there may be a million)


def _checksums(dataset: Dataset) -> Iterator[tuple[str, Digest]]:
    for side in SIDES:
        tree = dataset.competition.checksums.get(side) or {}
        yield from _flatten(tree, dataset.prepared, f"{side}/")


def _flatten(tree: Mapping[str, Any], prepared: Path, prefix: str) -> Iterator[tuple[str, Digest]]:
    for name, value in tree.items():
        path = prefix + name
        if isinstance(value, Mapping) and not (prepared / path).is_file():  # an archive's mapping is of its members
            yield from _flatten(value, prepared, f"{path}/")
        else:
            yield path, value
