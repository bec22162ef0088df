"""How large both sides of a split are, and how many rows of each class they have: what ``state.json`` records.

Version 2 draws whole groups, with a key of the data store. So how many rows come out on either side, and whether each
class is on both, is only known when real data is prepared.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pandas as pd

from pytest_mlebench.data.dataset import Dataset

_MAX_BYTES = 1 << 28
"""Of a table that is read: preparing must not take much longer."""
_MAX_CLASSES = 100


def count_sides(dataset: Dataset) -> dict[str, Any]:
    """The number of rows, and of rows of each class by column, of the test and of the training data.

    The test is the table of answers, the training data the public table ``*train*`` that has most of the columns that
    are asked for. Columns with more than 100 values have no classes. A side is missing where it is no CSV file, or one
    above 256 MB.
    """
    asked = set(_columns(dataset.sample_submission)[1:]) & set(_columns(dataset.answers))
    tables = [path for path in sorted(dataset.public.glob("*")) if "train" in path.name.lower() and _columns(path)]
    found = {"test": _count(dataset.answers, asked)}
    if tables:
        train = max(tables, key=lambda path: len(asked.intersection(_columns(path))))
        found["train"] = {"file": train.name, **_count(train, asked)}
    return {side: counts for side, counts in found.items() if "rows" in counts}


def _columns(path: Path) -> list[str]:
    """The columns of a CSV file that is not too large; empty for others."""
    if path.suffix != ".csv" or not path.is_file() or path.stat().st_size > _MAX_BYTES:
        return []
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        return next(csv.reader([file.readline()]), [])


def _count(path: Path, asked: set[str]) -> dict[str, Any]:
    columns = _columns(path)
    if not columns:
        return {}
    wanted = [name for name in columns if name in asked] or columns[:1]
    try:
        rows = pd.read_csv(path, usecols=wanted, dtype=str, keep_default_na=False, encoding_errors="replace")
    except ValueError:  # no table after all
        return {}
    classes = {
        str(name): {str(value): int(count) for value, count in rows[name].value_counts().sort_index().items()}
        for name in rows
        if name in asked and rows[name].nunique() <= _MAX_CLASSES
    }
    return {"rows": len(rows), "classes": classes}
