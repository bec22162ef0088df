"""Reads archives of many files, and JSON files that list pictures with their labels."""

from __future__ import annotations

import json
import tarfile
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

MAX_BYTES = 1 << 30
"""Larger archives are not unpacked. Larger tables are sampled while they are read."""
MAX_LISTS = 50
"""If there are more JSON files than this, they are single records, not lists of pictures."""
TARS = (".tar", ".tar.gz", ".tgz")


@cache
def unpacked(path: Path) -> Path | None:
    """Return a folder with the files of a tar or 7z archive; None if it is neither, too large or damaged."""
    name = path.name.lower()
    if not name.endswith((*TARS, ".7z")) or path.stat().st_size > MAX_BYTES:
        return None
    folder = Path(tempfile.mkdtemp(prefix="unpacked-"))
    try:
        if name.endswith(".7z"):
            import py7zr

            with py7zr.SevenZipFile(path) as archive:
                if archive.archiveinfo().uncompressed > MAX_BYTES:
                    return None
                archive.extractall(folder)
        else:
            with tarfile.open(path) as archive:
                _extract(archive, folder)
    except Exception:  # libraries raise any exception for damaged files
        return None
    return folder


def _extract(archive: tarfile.TarFile, folder: Path) -> None:
    """Unpack files and folders, but none outside the folder."""
    if hasattr(tarfile, "data_filter"):
        archive.extractall(folder, filter="data")
        return
    # Python before 3.11.4, as in Debian 12
    inside = [own for own in archive if (folder / own.name).resolve().is_relative_to(folder.resolve())]
    archive.extractall(folder, [own for own in inside if own.isfile() or own.isdir()])


def listed_pictures(data: Path) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield tables of pictures from JSON files in COCO format, with the labels of annotated pictures.

    Only the first annotation of a picture is used. The name is the file's path.
    """
    paths = sorted(data.rglob("*.json"))
    for path in paths if len(paths) <= MAX_LISTS else ():
        if path.stat().st_size > MAX_BYTES:
            continue
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            continue
        images = content.get("images") if isinstance(content, dict) else None
        if not isinstance(images, list) or not images or "file_name" not in images[0]:
            continue
        table = _flat(images)
        key = "image_id" if "image_id" in table else "id"
        if annotations := content.get("annotations"):
            labels = _flat(annotations).drop_duplicates("image_id").set_index("image_id")
            table = table.join(labels.drop(columns=[*table.columns, "id"], errors="ignore"), on=key, how="inner")
        yield path.relative_to(data).as_posix().lower(), table


def _flat(rows: list[dict[str, Any]]) -> pd.DataFrame:
    table = pd.DataFrame(rows)
    simple = [name for name in table if not table[name].map(lambda value: isinstance(value, list | dict)).any()]
    return table[simple]
