"""Looking for answers in the public files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from pytest_mlebench.data.checksums import md5
from pytest_mlebench.data.dataset import Dataset

_TABLES = {".csv": ",", ".tsv": "\t"}


def find_leaks(dataset: Dataset) -> list[str]:
    """Public files that give answers away, a sentence for each; empty if none was found.

    Looks for copies of the private files, and for tables that hold the ids of the answers beside their true values.
    It cannot see what is hidden in images, records or nested formats: a competition's ``known_leak`` says so.
    """
    sample = md5(dataset.sample_submission)  # it may lie among the private files
    private = {md5(path): path for path in _files(dataset.private) if path.stat().st_size}
    key, truth = _truth(dataset)
    found = []
    for path in _files(dataset.public):
        name = path.relative_to(dataset.public).as_posix()
        digest = md5(path)
        if digest == sample:
            continue
        if digest in private:
            found.append(f"public/{name} is a copy of private/{private[digest].relative_to(dataset.private)}")
        elif path.suffix in _TABLES and (column := _true_column(_read(path), key, truth)):
            found.append(f"public/{name} holds the true values of {column!r}")
    return found


def _truth(dataset: Dataset) -> tuple[str, pd.DataFrame]:
    """The id column, and the true values by id: the columns that a submission asks for, as text."""
    asked = _read(dataset.sample_submission)
    answers = _read(dataset.perfect_submission)
    if asked is None or answers is None or asked.columns[0] not in answers.columns:
        return "", pd.DataFrame()
    key = str(asked.columns[0])
    truth = answers[answers.columns.intersection(asked.columns)].drop_duplicates(key).set_index(key)
    shown = asked.drop_duplicates(key).set_index(key).reindex(truth.index)
    # A sample submission may repeat columns of the test set, such as texts: these are not asked for.
    return key, truth[[column for column in truth.columns if not truth[column].equals(shown[column])]]


def _true_column(table: pd.DataFrame | None, key: str, truth: pd.DataFrame) -> str | None:
    """The column of a table that agrees with the truth in the rows whose ids both have, if there is one."""
    if table is None or key not in table.columns:
        return None
    shared = table[table[key].isin(truth.index)].drop_duplicates(key)
    if len(shared) < max(2, len(truth) / 2):
        return None
    expected = truth.loc[shared[key]]
    for column in expected.columns.intersection(shared.columns):
        same = expected[column].to_numpy() == shared[column].to_numpy()
        if expected[column].nunique() > 1 and same.mean() > 0.99:
            return str(column)
    return None


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file())


def _read(path: Path) -> pd.DataFrame | None:
    try:
        return pd.read_csv(path, sep=_TABLES.get(path.suffix, ","), dtype=str, keep_default_na=False)
    except (ValueError, pd.errors.ParserError):
        return None
