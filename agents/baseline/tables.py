"""Finds and reads the tables of a competition: CSV, TSV and JSON files, plain or in zip and 7z archives."""

from __future__ import annotations

import io
import os
import re
import shutil
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pandas as pd
from archives import MAX_BYTES, unpacked

SEED = int(os.environ.get("SEED") or 0)
"""The run's seed, from which all randomness follows."""

SUFFIXES = (".csv", ".tsv", ".json", ".jsonl")
CHUNK_ROWS = 200_000
MAX_TABLES = 50
LONG_EXPONENT = r"[eE][+-]?\d{5}"


def to_numbers(values: pd.Series) -> pd.Series:
    """Convert a column to numbers; other values become NaN.

    Before version 3, pandas crashes at some exponents of ten digits, which random names of files contain by chance.
    """
    if not pd.api.types.is_numeric_dtype(values):
        values = values.mask(values.astype(str).str.contains(LONG_EXPONENT))
    return pd.to_numeric(values, errors="coerce")


@dataclass(frozen=True)
class Source:
    """A table: a file, or a member of a zip archive."""

    path: Path
    member: str = ""

    @property
    def name(self) -> str:
        """The file's name in lower case, such as ``train.csv``."""
        return Path(self.member or self.path.name).name.lower()

    @property
    def size(self) -> int:
        if not self.member:
            return self.path.stat().st_size
        with zipfile.ZipFile(self.path) as archive:
            return archive.getinfo(self.member).file_size

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        if not self.member:
            with self.path.open("rb") as file:
                yield file
        else:
            with zipfile.ZipFile(self.path) as archive, archive.open(self.member) as file:
                yield file

    def copy(self, target: Path) -> None:
        """Copy the table's bytes to a file."""
        with self.open() as source, target.open("wb") as copy:
            shutil.copyfileobj(source, copy)

    def columns(self) -> list[str]:
        """Return the header; empty if this is not a table."""
        try:
            if self.name.endswith((".json", ".jsonl")):
                return list(self.read().columns)
            with self.open() as file:
                # Enough for one line of a wide table. The limit is for files that are not tables: a line can be huge.
                head = file.readline(1 << 20)
            return list(pd.read_csv(io.BytesIO(head), sep=self._separator, encoding_errors="replace", nrows=0).columns)
        except Exception:
            return []

    def read(self, *, as_text: list[str] | None = None) -> pd.DataFrame:
        """Return the table. The columns ``as_text`` (None: all) are unconverted strings, with '' for missing values."""
        if self.name.endswith((".json", ".jsonl")):
            return self._read_json(as_text)
        options = {"sep": self._separator, "encoding_errors": "replace"}
        if as_text is None:
            options |= {"dtype": str, "keep_default_na": False}
        else:
            options |= {"dtype": dict.fromkeys(as_text, str), "low_memory": False}
        share = MAX_BYTES / max(self.size, 1)
        with self.open() as file:
            if share >= 1 or as_text is None:
                table = pd.read_csv(file, **options)
            else:
                chunks = pd.read_csv(file, chunksize=CHUNK_ROWS, **options)
                table = pd.concat([chunk.sample(frac=share, random_state=SEED) for chunk in chunks])
        return table.fillna(dict.fromkeys(as_text or [], ""))

    @property
    def _separator(self) -> str:
        return "\t" if self.name.endswith(".tsv") else ","

    def read_cells(self) -> pd.DataFrame:
        """Return a JSON table with lists and dictionaries in its cells."""
        if self.size > MAX_BYTES:
            raise ValueError(f"the JSON file {self.name} is too large to read")
        with self.open() as file:
            content = file.read()
        lines = not content.lstrip().startswith(b"[")
        return pd.read_json(io.BytesIO(content), lines=lines, dtype=False, convert_dates=False)

    def _read_json(self, as_text: list[str] | None) -> pd.DataFrame:
        table = self.read_cells()
        for column in table:
            kept_as_text = as_text is None or column in as_text
            if kept_as_text or table[column].map(lambda value: isinstance(value, list | dict)).any():
                table[column] = table[column].astype(str)
        return table


def find_tables(data: Path) -> list[Source]:
    """Return the tables at the top of a folder, then those one level below."""
    folders = [_tables_in(folder) for folder in sorted(data.iterdir()) if folder.is_dir()]
    # Hundreds of small files, or members of an archive, are single records, not tables.
    return sum((tables for tables in folders if len(tables) <= MAX_TABLES), _tables_in(data))


def _tables_in(folder: Path) -> list[Source]:
    return [source for path in sorted(folder.iterdir()) if path.is_file() for source in _sources(path)]


def _sources(path: Path) -> Iterator[Source]:
    name = path.name.lower()
    if name.endswith(SUFFIXES):
        yield Source(path)
    elif name.endswith(".7z"):
        folder = unpacked(path)
        found = [own for own in sorted(folder.rglob("*")) if own.name.lower().endswith(SUFFIXES)] if folder else []
        yield from (Source(own) for own in found if len(found) <= MAX_TABLES and own.is_file())
    elif name.endswith(".zip"):
        try:
            with zipfile.ZipFile(path) as archive:
                members = [member for member in archive.namelist() if member.lower().endswith(SUFFIXES)]
        except (OSError, zipfile.BadZipFile):
            return
        members = [member for member in members if not member.startswith("__MACOSX")]
        yield from (Source(path, member) for member in members if len(members) <= MAX_TABLES)


def find_test_in_form(data: Path) -> Source | None:
    """Return a test table in the format of a submission, such as sentences to complete with their ids."""
    for source in find_texts(data):
        columns = source.columns() if source.name.startswith("test") else []
        if len(columns) == 2 and columns[0].lower() == "id":
            return source
    return None


def find_texts(data: Path) -> Iterator[Source]:
    """Yield the text files at the top of a folder, plain or in zip archives."""
    for path in sorted(data.iterdir()):
        if path.suffix.lower() == ".txt":
            yield Source(path)
        elif path.suffix.lower() == ".zip":
            with zipfile.ZipFile(path) as archive:
                members = archive.namelist()
            yield from (Source(path, member) for member in members if member.lower().endswith(".txt"))


def find_sample(tables: list[Source]) -> Source | None:
    """Return the sample submission, by its name; the most likely names are tried first."""
    tables = [table for table in tables if table.name.endswith((".csv", ".tsv"))]
    for pattern in (r"sample.*submission", r"submission", r"random.?predictions", r"^sample"):
        for table in tables:
            if re.search(pattern, table.name):
                return table
    return None
