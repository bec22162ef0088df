"""What a twin gives away without its content being read: a small model on ids, places, file sizes and headers alone.

``permuted`` copies a twin's public files with the training labels in another order: what is learned from these must be
worth nothing.
"""

from __future__ import annotations

import math
import os
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.model_selection import cross_val_score

from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.grading.twins import read_sample, row_keys

_LETTERS, _LONG, _HEADER = 16, 40, 64
_LEAST = 20
"""Rows of the rarer of two labels below which nothing is measured."""
_COMMON = 0.2
"""The share of rows from which on the most frequent prediction is one of the two labels."""
_SURE = 3.0
"""So many standard errors above 0.5 are no chance."""
_TABLES = (".csv", ".tsv")


def binary(ceiling: pd.DataFrame) -> np.ndarray:
    """One label of two for each row of the best prediction: what a shortcut would tell.

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
    """A row for each id: its place, its letters, and size and header of its file, if it has one."""
    files: dict[str, Path] = {}
    for path in sorted(dataset.public.rglob("*")):
        if path.is_file() and path.suffix not in _TABLES:
            files.setdefault(path.stem, path)
    rows = []
    is_text = np.mean([len(id) for id in ids]) > _LONG  # then the id is what the task is about
    for place, id in enumerate(ids):
        letters = [] if is_text else [ord(letter) for letter in f"{id:<{_LETTERS}.{_LETTERS}}"]
        found = files.get(Path(id).stem) or files.get(id)
        content = found.read_bytes() if found else b""
        rows.append([place, place % 2, len(content), *letters, *content[:_HEADER].ljust(_HEADER, b"\0")])
    return np.array(rows)


def shortcut_auc(dataset: Dataset, ceiling: pd.DataFrame) -> tuple[float, float] | None:
    """The AUC in cross-validation of a model that sees metadata alone, and its standard error by chance.

    None where the labels of the rows are almost all the same.
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
    """What seeds came to together.

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
    """Copy the public files with the labels of training tables in another order; False where none has labels.

    Labels are the columns of the submission, or else what training tables have and no table of the test has. Where a
    table has nothing but ids and labels, the ids are permuted: an item's rows stay together. Tables of the same
    columns, such as those of drives, have one order together.
    """
    shutil.copytree(dataset.public, folder)
    sample = read_sample(dataset)
    ids = next((k for k in range(1, sample.shape[1]) if not sample.iloc[:, :k].duplicated().any()), 1)
    tables = {path: read for path in sorted(folder.rglob("*")) if (read := _read(path, folder)) is not None}
    tables.pop(folder / os.path.relpath(dataset.sample_submission, dataset.public), None)  # which may be private
    tests = [table for path, table in tables.items() if "test" in path.relative_to(folder).as_posix().lower()]
    seen = {sample.columns[0], *(name for table in tests for name in table.columns)}
    together: dict[tuple[str, ...], list[Path]] = {}
    changed: list[Path] = []
    for path, table in tables.items():
        asked = [name for name in table.columns if name in sample.columns[ids:]]
        is_training = bool(tests) or "train" in path.name.lower()
        labels = asked or [name for name in table.columns if is_training and name not in seen]
        if not labels or len(labels) == len(table.columns) or any(table is own for own in tests):
            continue
        id = sample.columns[0]
        if id in table and len(labels) == len(table.columns) - 1:  # an item's rows stay together
            known = table[id].unique()
            table[id] = table[id].map(dict(zip(known, rng.permutation(known), strict=True)))
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
        path.chmod(0o644)
        _write(tables[path], path)
    return bool(changed)


def _read(path: Path, folder: Path) -> pd.DataFrame | None:
    """A table; of other kinds than text only in the folder itself, as others hold data of one item each."""
    if path.suffix in _TABLES:
        return pd.read_csv(path, dtype=str, keep_default_na=False, sep="\t" if path.suffix == ".tsv" else ",")
    if path.parent == folder and path.suffix == ".parquet":
        return pd.read_parquet(path)
    if path.parent == folder and path.suffix in (".json", ".jsonl") and (lines := _is_lines(path)) is not None:
        return pd.read_json(path, lines=lines, dtype=False, convert_dates=False)
    return None


def _is_lines(path: Path) -> bool | None:
    """Whether a JSON file has a record in each line, or a list of records; None for anything else."""
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
