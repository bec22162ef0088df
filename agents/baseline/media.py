"""Converts pictures and sounds to rows of numbers, so that models for tables can learn from them."""

from __future__ import annotations

import io
import re
import time
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from archives import listed_pictures, unpacked
from documents import SUFFIX as DOCUMENTS
from documents import document_table
from readings import (
    ARRAYS,
    SCANS,
    SOUNDS,
    array_numbers,
    folder_numbers,
    plane_numbers,
    read_array,
    read_scan,
    read_sound,
)
from tables import SEED, Source, to_numbers

PICTURES = (".jpg", ".jpeg", ".png", ".tif", ".tiff", ".bmp", ".gif")
SUFFIXES = (*PICTURES, *SOUNDS, *SCANS, *ARRAYS)
LEAST_FOUND = 0.9
"""Minimum share of the sample submission's ids that must be names of files."""
MIN_FILES = 200
"""Minimum number of training files that are read, however long that takes."""
LABEL = "label"
_FILE = "file of the row"
_TRAIN, _SIDE, _SIDES, _BANDS = re.compile("train", re.I), 32, (4, 8), 32
_PREFIX = re.compile(r"([A-Za-z]+)[._-]?\d+")
_END = re.compile(r".*_([A-Za-z0-9]+)")


@dataclass(frozen=True)
class File:
    """The file of an id: a file or a part of it, a member of a zip archive, or a folder of scans.

    ``name`` is its path, and ``part`` is its start and end in a file.
    """

    path: Path
    name: str
    member: str = ""
    part: tuple[int, int] | None = None

    @property
    def keys(self) -> tuple[str, str]:
        """Names that tables may use for it."""
        return Path(self.name).name, Path(self.name).stem

    def read(self) -> bytes:
        if self.part is not None:
            with self.path.open("rb") as file:
                file.seek(self.part[0])
                return file.read(self.part[1] - self.part[0])
        if not self.member:
            return self.path.read_bytes()
        with zipfile.ZipFile(self.path) as archive:
            return archive.read(self.member)


@dataclass(frozen=True, eq=False)
class Frame:
    """A generated table with the interface of ``tables.Source``."""

    name: str
    table: pd.DataFrame

    def columns(self) -> list[str]:
        return list(self.table.columns)

    def read(self, *, as_text: list[str] | None = None) -> pd.DataFrame:
        made = {}
        for name in self.table:
            values = self.table[name].astype(object)
            if as_text is None or name in as_text:
                made[name] = values.fillna("").astype(str)
            else:  # numbers may be written as text
                found = to_numbers(values.replace("", np.nan))
                made[name] = found if found.notna().sum() == (values.fillna("") != "").sum() else values
        return pd.DataFrame(made)


def find_files(data: Path) -> list[File]:
    """Find files that are not tables, and folders of scans. Includes archives, unless they are unpacked in the data."""
    found, folders = [], {}
    beside = [(path, path.relative_to(data).as_posix()) for path in sorted(data.rglob("*"))]
    for archive, folder in [(path, unpacked(path)) for path, _ in beside if path.is_file()]:
        members = sorted(folder.rglob("*")) if folder else []
        beside += [(path, f"{archive.name}/{path.relative_to(folder).as_posix()}") for path in members]
    for path, name in beside:
        suffix = path.suffix.lower()
        if suffix in SUFFIXES and not (suffix == ".csv" and path.parent == data):
            found.append(File(path, name))
            if suffix in SCANS:
                own = (path.parent, path.parent.parent)
                folders |= {folder: File(folder, folder.relative_to(data).as_posix()) for folder in own}
        elif path.suffix.lower() == ".zip" and path.is_file() and not path.with_suffix("").is_dir():
            try:
                with zipfile.ZipFile(path) as archive:
                    members = archive.namelist()
            except (OSError, zipfile.BadZipFile):
                continue
            found += [
                File(path, f"{name}/{member}", member)
                for member in members
                if Path(member).suffix.lower() in (*PICTURES, *SOUNDS) and not member.startswith("__MACOSX")
            ]
    return [*found, *folders.values()]


def _recorded_files(data: Path, id: str) -> tuple[list[File], list[Source | Frame]]:
    """Return pictures in BSON files whose documents have an id, and tables of these documents; largest file first."""
    files, tables = [], []
    for path in sorted(data.glob(f"*{DOCUMENTS}"), key=lambda path: -path.stat().st_size):
        table, places = document_table(path)
        if id in table:
            names = (f"{path.name}/{key}.jpg" for key in table[id])
            files += [File(path, name, part=place) for name, place in zip(names, places, strict=True)]
            tables.append(Frame(path.name, table))
    return files, tables


def media_tables(data: Path, sample: pd.DataFrame, tables: list[Source], seconds: float) -> list[Frame]:
    """Return a training and a test table with numbers from the files that the ids name; none if they name no files.

    Reads as many training files as fit into about ``seconds``, after the test files.
    """
    id = sample.columns[0]
    recorded, made = _recorded_files(data, id)
    files = [*find_files(data), *recorded]
    tables = [*made, *(Frame(name, table) for name, table in listed_pictures(data)), *tables]
    tests = _by_key(file for file in files if not _TRAIN.search(file.name)) or _by_key(files)
    test = _named_files(sample, tables, tests)
    if test is None:
        return []
    keys = test.iloc[:, -1]
    known = _labelled(files, set(keys), tables) or _labelled_by_name(files, set(keys))
    if known is None:
        return []
    labels, names = known
    asked = {key: tests[key] for key in keys.unique()}
    started = time.monotonic()
    seen = {key: numbers(file) for key, file in asked.items()}
    each = (time.monotonic() - started) / max(1, len(asked))
    count = max(MIN_FILES, int((seconds - each * len(asked)) / max(each, 1e-4)))
    if len(labels) > count:
        chosen = np.sort(np.random.default_rng(SEED).permutation(len(labels))[:count])
        labels, names = labels.iloc[chosen].reset_index(drop=True), [names[k] for k in chosen]
    train = _with_numbers(labels.iloc[:, 1:], map(numbers, names))
    test = _with_numbers(test.iloc[:, :-1], [seen[key] for key in keys])
    train = _with_classes_as_columns(train, [name for name in sample.columns if name != id])
    return [Frame("train.csv", _melted(train, test, sample.columns[-1])), Frame("test.csv", test)]


def _named_files(sample: pd.DataFrame, tables: list[Source], files: dict[str, File]) -> pd.DataFrame | None:
    """Return the test rows, with the file's key in the last column: the id, or a column of a table with the ids."""
    id, wanted = sample.columns[0], sample.iloc[:, 0].drop_duplicates()
    if not files:
        return None
    if wanted.isin(files.keys()).mean() >= LEAST_FOUND:
        test = pd.DataFrame({id: [key for key in wanted if key in files]})
        return _beside(test, tables, id).assign(**{_FILE: test[id]})
    for table in tables:
        if "test" not in table.name or len(table.columns()) < 2:
            continue
        rows = table.read()
        for other in [id] if id in rows else [name for name in rows if set(wanted) <= set(rows[name])]:
            for column in rows.columns.drop(other):
                keys = rows[column].str.rpartition("/")[2]
                if keys.head(200).isin(files.keys()).mean() >= LEAST_FOUND:
                    asked = keys.isin(files.keys()) & rows[other].isin(wanted)
                    found = rows[asked].drop(columns=column).rename(columns={other: id})
                    return found.assign(**{_FILE: keys[asked]}).reset_index(drop=True)
    return None


def _melted(train: pd.DataFrame, test: pd.DataFrame, target: str) -> pd.DataFrame:
    """If a test column names the training column to predict, convert these training columns to rows."""
    if target in train:
        return train
    for column in test:
        asked = test[column].unique()
        if column not in train and 1 < len(asked) <= 50 and set(asked) <= set(train.columns):
            rest = [name for name in train if name not in set(asked)]
            return train.melt(rest, list(asked), column, target)
    return train


def _by_key(files: Iterable[File]) -> dict[str, File]:
    """Return files by name and by stem. If several have the same one, the first is used."""
    found: dict[str, File] = {}
    for file in files:
        for key in file.keys:
            found.setdefault(key, file)
    return found


def _labelled(files: list[File], test: set[str], tables: list[Source]) -> tuple[pd.DataFrame, list[File]] | None:
    """Return the first table with a column of names of non-test files, and the files of that column."""
    by_key = _by_key(file for file in files if not test & set(file.keys) or _TRAIN.search(file.name))
    for table in sorted(tables, key=lambda table: "train" not in table.name):
        if "test" in table.name:
            continue
        try:
            rows = table.read()
        except Exception:
            continue
        for column in rows.columns if len(rows.columns) > 1 else ():
            named = rows[column].str.rpartition("/")[2]
            if named.head(200).isin(by_key.keys()).mean() >= LEAST_FOUND:
                rows = rows.assign(**{column: named})[named.isin(by_key.keys()) & ~named.duplicated()]
                rows = rows.reset_index(drop=True)
                rows = rows[[column, *(name for name in rows.columns if name != column)]]
                return rows, [by_key[key] for key in rows[column]]
    return None


def _labelled_by_name(files: list[File], test: set[str]) -> tuple[pd.DataFrame, list[File]] | None:
    """Return training files whose class is the folder, or the start or end of the name."""
    rest = [file for file in files if _TRAIN.search(file.name) and not (test & set(file.keys) and "test" in file.name)]
    folders = [Path(file.name).parent.name for file in rest]
    starts = [match[1] if (match := _PREFIX.match(file.keys[1])) else "" for file in rest]
    ends = [match[1] if (match := _END.match(file.keys[1])) else "" for file in rest]
    for classes in (folders, starts, ends):
        is_class = all(classes) and not any(_TRAIN.search(name) for name in set(classes))
        if is_class and 1 < len(set(classes)) <= max(2, len(rest) // 2):
            return pd.DataFrame({"file": [file.keys[0] for file in rest], LABEL: classes}), rest
    return None


def _beside(test: pd.DataFrame, tables: list[Source], id: str) -> pd.DataFrame:
    """Add the columns of a test table that has all ids."""
    for table in tables:
        if "test" in table.name and id in table.columns():
            rows = table.read()
            if not rows[id].duplicated().any() and test[id].isin(rows[id]).all():
                return test.merge(rows, on=id, how="left")
    return test


def _with_classes_as_columns(train: pd.DataFrame, targets: list[str]) -> pd.DataFrame:
    """If the cells of a column list targets, replace it by a column of zeros and ones per target."""
    if len(targets) < 2 or set(targets) <= set(train.columns):
        return train
    for column in train.select_dtypes(exclude="number"):
        parts = train[column].str.split(r"[,;|\s]+", regex=True)
        if parts.map(lambda own: set(own) <= {*targets, ""}).mean() > LEAST_FOUND:
            listed = {name: parts.map(lambda own, name=name: int(name in own)) for name in targets}
            return pd.concat([train.drop(columns=column), pd.DataFrame(listed)], axis=1)
    return train


def _with_numbers(table: pd.DataFrame, rows: Iterable[np.ndarray]) -> pd.DataFrame:
    """Add the numbers of each row's file as columns."""
    found = list(rows)
    width = max(map(len, found), default=0)
    wide = np.array([row if len(row) == width else np.full(width, np.nan) for row in found])
    made = pd.DataFrame(wide, columns=[f"number {k}" for k in range(width)], index=table.index)
    return pd.concat([table, made], axis=1)


def numbers(file: File) -> np.ndarray:
    """Return the features of a file; empty if it cannot be read."""
    try:
        if file.path.is_dir():
            return folder_numbers(file.path).round(5)
        content, suffix = file.read(), Path(file.name).suffix.lower()
        if suffix in ARRAYS:
            return array_numbers(read_array(content, suffix)).round(5)
        if suffix in SCANS:
            return plane_numbers(read_scan(content)).round(5)
        return sound_numbers(*read_sound(content, suffix)) if suffix in SOUNDS else picture_numbers(content)
    except Exception:  # libraries raise any exception for damaged files
        return np.zeros(0)


def picture_numbers(content: bytes) -> np.ndarray:
    """Return colours by region, edge directions by region, and the shares of coarse and fine structure."""
    from PIL import Image

    with Image.open(io.BytesIO(content)) as image:
        image.draft("RGB", (4 * _SIDE, 4 * _SIDE))
        pixels = np.asarray(image.convert("RGB").resize((2 * _SIDE, 2 * _SIDE), Image.Resampling.BOX), float) / 255
    small = pixels.reshape(_SIDE, 2, _SIDE, 2, 3).mean(axis=(1, 3))
    colours = [_regions(small, side).reshape(-1) for side in _SIDES]
    spread = [pixels.std(axis=(0, 1)), *np.quantile(pixels, (0.05, 0.25, 0.75, 0.95), axis=(0, 1))]
    histogram = np.histogramdd(pixels.reshape(-1, 3), bins=4, range=[(0, 1)] * 3)[0].reshape(-1) / len(pixels) ** 2
    grey = pixels.mean(axis=2)
    down, right = np.gradient(grey)
    strength, angle = np.hypot(down, right), np.arctan2(down, right) % np.pi
    parts = [strength * ((angle * 8 / np.pi).astype(int) % 8 == k) for k in range(8)]
    edges = _regions(np.stack(parts, axis=-1), _SIDES[0])
    edges = np.sqrt(edges / (edges.sum(axis=2, keepdims=True) + 1e-3)).reshape(-1)
    power = np.abs(np.fft.fft2(grey - grey.mean())) ** 2
    rings = np.hypot(*np.meshgrid(*[np.fft.fftfreq(2 * _SIDE) * 2 * _SIDE] * 2)).astype(int)
    texture = np.log(np.bincount(rings.ravel(), power.ravel())[1:_SIDE] + 1e-6)
    whole = _regions(np.stack(parts, axis=-1), 1).reshape(-1)
    return np.concatenate([*colours, *spread, np.sqrt(histogram), edges, whole, texture]).round(5)


def _regions(values: np.ndarray, side: int) -> np.ndarray:
    """Return the means of a square array over side × side regions."""
    width = len(values) // side
    return values.reshape(side, width, side, width, -1).mean(axis=(1, 3)).reshape(side, side, -1)


def sound_numbers(rate: int, samples: np.ndarray) -> np.ndarray:
    """Return the loudness of frequency bands, its change over time, and the overall rhythm."""
    samples = samples.reshape(len(samples), -1).mean(axis=1).astype(float)
    samples = samples / (samples.std() + 1e-9)
    size, hop = 2048, 512
    samples = np.pad(samples, (0, max(0, size + hop - len(samples))))[: 30 * rate]
    frames = np.lib.stride_tricks.sliding_window_view(samples, size)[::hop] * np.hanning(size)
    power = np.abs(np.fft.rfft(frames)) ** 2
    edges = np.unique(np.geomspace(60, min(rate / 2, 16_000), _BANDS + 1) * size / rate).astype(int)
    edges = np.unique(np.clip(edges, 1, power.shape[1] - 1))
    bands = np.log(np.add.reduceat(power[:, : edges[-1]], edges[:-1], axis=1).T / np.diff(edges)[:, None] + 1e-3)
    change = np.diff(bands, axis=1)
    loud = bands.mean(axis=0)
    rhythm = np.abs(np.fft.rfft(loud - loud.mean(), 256))[1:33] / len(loud)
    shape = [*np.quantile(loud, (0.05, 0.5, 0.95)), (np.diff(np.sign(samples)) != 0).mean()]
    steady = [bands.mean(axis=1), bands.std(axis=1), np.quantile(bands, 0.95, axis=1), np.abs(change).mean(axis=1)]
    return np.concatenate([*steady, np.log(rhythm + 1e-4), shape]).round(5)
