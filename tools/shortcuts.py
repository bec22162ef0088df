"""Measures how well a small model predicts a twin's answers from ids, positions, file sizes and headers alone.

``permuted`` copies a twin's public files with permuted training labels. A model that learns from them must not be
better than chance.
"""

from __future__ import annotations

import io
import json
import math
import os
import re
import shutil
import tarfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import py7zr
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.model_selection import cross_val_score

from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.grading.twins import read_sample, row_keys

_LETTERS, _LONG, _HEADER = 16, 40, 64
_LEAST = 20
"""Nothing is measured if the rarer of the two labels has fewer rows than this."""
_COMMON = 0.2
"""If the most frequent prediction has more than this share of rows, it becomes one of the two labels."""
_SURE = 3.0
"""An AUC more than this number of standard errors above 0.5 is not chance."""
_TABLES = (".csv", ".tsv")
_COMMON_NAMES, _FEW = 5, 10


def binary(ceiling: pd.DataFrame) -> np.ndarray:
    """Reduce the best prediction to one of two labels per row, which a shortcut would reveal.

    >>> binary(pd.DataFrame({"price": [1.0, 5.0, 9.0]})).tolist()
    [False, False, True]
    >>> binary(pd.DataFrame({"cat": [0.9, 0.2], "dog": [0.1, 0.8]})).tolist()
    [False, True]
    """
    numbers = ceiling.apply(pd.to_numeric, errors="coerce")
    if numbers.isna().any(axis=None):
        texts = ceiling.map(str).agg(" ".join, axis=1)
        common = texts.mode().iloc[0]
        split = texts != common if (texts == common).mean() > _COMMON else texts > sorted(texts)[len(texts) // 2]
        return np.asarray(split)
    first = numbers.to_numpy(float).argmax(axis=1) if numbers.shape[1] > 1 else numbers.iloc[:, 0].to_numpy(float)
    return np.asarray(first > np.median(first))


def metadata(dataset: Dataset, ids: list[str]) -> np.ndarray:
    """One row of features per id: its position and letters, and the size and header of its file, if any."""
    files: dict[str, Path] = {}
    for path in sorted(dataset.public.rglob("*")):
        if path.is_file() and path.suffix not in _TABLES:
            files.setdefault(path.stem, path)
    rows = []
    is_text = np.mean([len(id) for id in ids]) > _LONG  # such ids are the content of the task
    for place, id in enumerate(ids):
        letters = [] if is_text else [ord(letter) for letter in f"{id:<{_LETTERS}.{_LETTERS}}"]
        found = files.get(Path(id).stem) or files.get(id)
        content = found.read_bytes() if found else b""
        rows.append([place, place % 2, len(content), *letters, *content[:_HEADER].ljust(_HEADER, b"\0")])
    return np.array(rows)


def shortcut_auc(dataset: Dataset, ceiling: pd.DataFrame) -> tuple[float, float] | None:
    """Cross-validated AUC of a model that sees only metadata, and its standard error under chance.

    None if almost all rows have the same label.
    """
    sample = read_sample(dataset)
    known = ceiling[~ceiling.index.duplicated()]
    known = known.set_axis(row_keys(known.index.to_frame()), axis=0)
    ids = [id for id in dict.fromkeys(row_keys(sample[list(ceiling.index.names)])) if id in known.index]
    labels = binary(known.loc[ids])
    rare = min(int(labels.sum()), int((~labels).sum()))
    if rare < _LEAST:
        return None
    model = ExtraTreesClassifier(100, min_samples_leaf=3, random_state=0)
    found = cross_val_score(model, metadata(dataset, ids), labels, cv=5, scoring="roc_auc")
    n = len(labels)
    return float(found.mean()), math.sqrt((n + 1) / (12 * rare * (n - rare)))


def verdict(found: list[tuple[float, float]]) -> str:
    """Combine the results of several seeds into one line.

    >>> verdict([(0.52, 0.03), (0.49, 0.03)])
    'shortcuts: AUC 0.505 over 2 seeds, chance'
    """
    if not found:
        return "shortcuts: not measured: almost all labels are the same, or the competition is your own"
    mean = float(np.mean([auc for auc, _ in found]))
    error = math.sqrt(sum(own**2 for _, own in found)) / len(found)
    what = "ABOVE CHANCE" if mean > 0.5 + _SURE * error else "chance"
    return f"shortcuts: AUC {mean:.3f} over {len(found)} seed{'s' if len(found) > 1 else ''}, {what}"


def permuted(dataset: Dataset, folder: Path, rng: np.random.Generator) -> bool:
    """Copy the public files with permuted training labels. Returns False if there are no labels.

    Labels are the columns of training tables that no test table has. If a table has only ids and labels, the ids are
    permuted, so that an item's rows stay together. Tables with the same columns, such as those of drives, are permuted
    together. Also permuted are the categories in annotation and BSON files, arrays of labels, and the contents of
    training files of the same kind: images among all folders, masks among all items. Archives are unpacked for this.
    """
    shutil.copytree(dataset.public, folder)
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    archives = list(_unpack(folder))
    changed = [_permute_tables(dataset, folder, rng), _permute_lists(folder, rng), _permute_contents(folder, rng)]
    for path, archive in reversed(archives):
        made = shutil.make_archive(str(path.with_name("packed")), archive, path)
        shutil.rmtree(path)
        Path(made).rename(path)
    return any(changed)


_ARCHIVES = {".zip": "zip", ".7z": "7zip", ".tar.gz": "gztar", ".tgz": "gztar", ".tar": "tar"}


def _unpack(folder: Path) -> Iterator[tuple[Path, str]]:
    """Replace archives by folders of the same names. Yields each folder and the format of the archive."""
    if "7zip" not in dict(shutil.get_archive_formats()):
        shutil.register_archive_format("7zip", py7zr.pack_7zarchive)
        shutil.register_unpack_format("7zip", [".7z"], py7zr.unpack_7zarchive)
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        archive = next((kind for suffix, kind in _ARCHIVES.items() if path.name.endswith(suffix)), None)
        if archive is not None:
            packed = path.rename(path.with_name(f"{path.name}.packed"))
            # Python before 3.11.4 has no filter; the archives are our own.
            is_filtered = archive.endswith("tar") and hasattr(tarfile, "data_filter")
            options: dict[str, Any] = {"filter": "data"} if is_filtered else {}
            shutil.unpack_archive(packed, path, archive, **options)
            packed.unlink()
            yield path, archive
            yield from _unpack(path)


def _permute_tables(dataset: Dataset, folder: Path, rng: np.random.Generator) -> bool:
    sample = read_sample(dataset)
    tables = {path: read for path in sorted(folder.rglob("*")) if path.is_file() and (read := _read(path)) is not None}
    tables.pop(folder / os.path.relpath(dataset.sample_submission, dataset.public), None)  # it may be private
    tests = [table for path, table in tables.items() if _is_of_test(path, folder)]
    given = {name for table in tests for name in table.columns}
    ids = [name for name in sample.columns if name in given] or [sample.columns[0]]
    together: dict[tuple[str, ...], list[Path]] = {}
    changed: list[Path] = []
    if not any(set(sample.columns) & set(table.columns) - {*given, *ids} for table in tables.values()):
        ids = [sample.columns[0]]
        given -= set(sample.columns[1:])  # the test tables contain early values of the targets
    for path, table in tables.items():
        asked = [name for name in table.columns if name in sample.columns and name not in {*given, *ids}]
        is_training = bool(tests) or re.search("train|label", path.name, re.IGNORECASE) is not None
        labels = asked or [name for name in table.columns if is_training and name not in {*given, *ids}]
        if not labels or len(labels) == len(table.columns) or any(table is own for own in tests):
            continue
        if ids[0] in table and len(labels) == len(table.columns) - 1:  # an item's rows stay together
            known = table[ids[0]].unique()
            table[ids[0]] = table[ids[0]].map(dict(zip(known, rng.permutation(known), strict=True)))
            changed.append(path)
        else:
            together.setdefault((*labels, "", *table.columns), []).append(path)
    for columns, paths in together.items():
        labels = list(columns[: columns.index("")])
        rows = pd.concat([tables[path][labels] for path in paths])
        rows = rows.iloc[rng.permutation(len(rows))]
        for path in paths:
            table = tables[path]
            table[labels], rows = rows[: len(table)].to_numpy(), rows[len(table) :]
        changed += paths
    for path in changed:
        _write(tables[path], path)
    return bool(changed)


def _permute_lists(folder: Path, rng: np.random.Generator) -> bool:
    """Permute labels in annotation files, BSON files, arrays, and lists with a label after each id."""
    changed = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        if _is_of_test(path, folder) and "label" not in path.name:
            continue
        content = path.read_bytes()
        if path.suffix == ".json" and b'"annotations"' in content:
            read = json.loads(content)
            labels = [own.get("category_id") for own in read["annotations"]]
            for own, k in zip(read["annotations"], rng.permutation(len(labels)), strict=True):
                own["category_id"] = labels[k]
            new = json.dumps(read).encode()
        elif path.suffix == ".bson":
            parts = re.split(rb"(?<=\x10category_id\0)(.{4})", content, flags=re.DOTALL)
            labels = parts[1::2]
            parts[1::2] = [labels[k] for k in rng.permutation(len(labels))]
            new = b"".join(parts)
        elif path.suffix == ".npy" and "label" in path.name:
            with io.BytesIO() as file:
                np.save(file, rng.permutation(np.load(path)))
                new = file.getvalue()
        elif path.suffix == ".txt" and "label" in path.name:
            head, *lines = content.decode().splitlines()
            known = [k for k, line in enumerate(lines) if not line.endswith("?")]
            ends = [lines[k].partition(",")[2] for k in known]
            for k, other in zip(known, rng.permutation(len(known)), strict=True):
                lines[k] = f"{lines[k].partition(',')[0]},{ends[other]}"
            new = "\n".join([head, *lines, ""]).encode()
        else:
            continue
        path.write_bytes(new)
        changed.append(path)
    return bool(changed)


def _permute_contents(folder: Path, rng: np.random.Generator) -> bool:
    """Exchange the contents of training files of one kind, with the same name in each item or the same suffix."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.parent != folder]
    names = Counter(path.name for path in paths)
    has_test = any(_is_of_test(path, folder) for path in paths)
    groups: dict[tuple[str, str], list[Path]] = {}
    for path in paths:
        name = path.relative_to(folder).as_posix()
        of_training = not _is_of_test(path, folder) if has_test else "train" in name.lower()
        if of_training and path.suffix not in (*_TABLES, ".json", ".jsonl", ".parquet", ".txt"):
            kind = path.name if names[path.name] > _COMMON_NAMES else path.suffix
            top = name.partition("/")[0]  # one folder for inputs and one for outputs, or one per class
            groups.setdefault((top if "train" in top.lower() else "", kind), []).append(path)
    many = [own for own in groups.values() if len(own) > _COMMON_NAMES]  # small groups are ignored
    for own in many:
        contents = [path.read_bytes() for path in own]
        for path, k in zip(own, spread([path.parent for path in own], rng), strict=True):
            path.write_bytes(contents[k])
    return bool(many)


def spread(folders: Sequence[object], rng: np.random.Generator) -> list[int]:
    """A random order of file numbers in which each section has files of each folder in proportion.

    So if folders are classes, none keeps mostly its own files by chance.

    >>> order = spread(["cat"] * 6 + ["dog"] * 2, np.random.default_rng(0))
    >>> sorted(order) == list(range(8)), sum(k >= 6 for k in order[:4])
    (True, 1)
    """
    shuffled = pd.Series(list(map(str, folders))).sample(frac=1, random_state=rng)
    groups = shuffled.groupby(shuffled)
    place = (groups.cumcount() + rng.random(len(shuffled))) / groups.transform("size")
    return [int(k) for k in place.sort_values(kind="stable").index]


def _is_of_test(path: Path, folder: Path) -> bool:
    return "test" in path.relative_to(folder).as_posix().lower()


def _read(path: Path) -> pd.DataFrame | None:
    """Read a table. Folders with many JSON or Parquet files are ignored, because each file holds data of one item."""
    if path.suffix in _TABLES:
        return pd.read_csv(path, dtype=str, keep_default_na=False, sep="\t" if path.suffix == ".tsv" else ",")
    if len(list(path.parent.iterdir())) > _FEW:
        return None
    if path.suffix == ".parquet":
        return pd.read_parquet(path)
    if path.suffix in (".json", ".jsonl") and (lines := _is_lines(path)) is not None:
        text = path.read_text(encoding="utf-8")
        return pd.DataFrame([json.loads(line) for line in text.splitlines()] if lines else json.loads(text))
    return None


def _is_lines(path: Path) -> bool | None:
    """True if a JSON file has one record per line, False if it is a list of records, None for anything else."""
    with path.open(encoding="utf-8") as file:
        start = file.readline().strip()
    if start.startswith("["):
        return False
    return True if start.startswith("{") and start.endswith("}") else None


def _write(table: pd.DataFrame, path: Path) -> None:
    if path.suffix == ".parquet":
        table.to_parquet(path, index=False)
    elif path.suffix in _TABLES:
        table.to_csv(path, index=False, sep="\t" if path.suffix == ".tsv" else ",")
    else:
        table.to_json(path, orient="records", lines=bool(_is_lines(path)), double_precision=15)
