"""Tables as preparers and graders read, split and write them, so that the bytes come out as the reference's do."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, Any, TypeVar, cast

import numpy as np
import pandas as pd

Rows = TypeVar("Rows", bound="pd.DataFrame | Sequence[Any] | Any")


def read_csv(path: Path | IO[bytes], **options: Any) -> pd.DataFrame:
    """pandas' ``read_csv``, whose floats (since pandas 3.1) are exact: they are written back as they were read."""
    table: pd.DataFrame = pd.read_csv(path, **options)
    return table


def write_csv(table: pd.DataFrame, path: Path, **options: Any) -> None:
    """Write without the index, in pandas' default quoting; makes the folders above."""
    path.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(path, **{"index": False, **options})


def split(rows: Rows, test_size: float | int, **options: Any) -> tuple[Rows, Rows]:
    """scikit-learn's ``train_test_split`` with ``random_state=0``: (train, test) in the order it returns.

    ``rows`` is a table, an array or a list. A float ``test_size`` is a share (the number of test rows is rounded
    up), an int a number of rows. ``options`` as for ``train_test_split``, for example ``stratify``.
    """
    from sklearn.model_selection import train_test_split

    train, test = train_test_split(rows, **{"test_size": test_size, "random_state": 0, **options})
    return train, test


def count_lines(path: Path) -> int:
    """Line feeds in a file, read in blocks."""
    with path.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))


def read_header(path: Path) -> list[str]:
    """The column names in a CSV file's first line."""
    with path.open(newline="", encoding="utf-8") as file:
        return next(csv.reader(file), [])


def one_hot(labels: pd.Series[Any] | Sequence[Any], classes: Iterable[Any]) -> pd.DataFrame:
    """A column for each class, 1 where the row's label is that class and 0 elsewhere; index as in ``labels``."""
    series = labels if isinstance(labels, pd.Series) else pd.Series(labels)
    return pd.DataFrame({name: cast("pd.Series[Any]", series == name).astype(int) for name in classes})


def floats_of_pandas_2(text: pd.Series[Any]) -> pd.Series[Any]:
    """Numbers written in decimal, parsed as pandas 2 does by default: long ones are wrong in the last digits.

    The first 17 digits are collected in a float, which may round, and that is scaled by a power of ten, which may
    round again. For data whose reference was made in this way. A missing text is NaN; ValueError for what is no number.
    """
    parts = text.str.extract(r"^\s*([+-]?)(\d*)\.?(\d*)(?:[eE]([+-]?\d+))?\s*$")
    digits = (parts[1] + parts[2]).fillna("")
    if wrong := text[text.notna() & (digits == "")].tolist():
        raise ValueError(f"{wrong[0]!r} is not a number")
    number = np.zeros(len(text))
    for digit in digits.to_numpy(dtype="S17").view(np.uint8).reshape(len(text), 17).T:  # 0 is behind the last one
        number = np.where(digit > 0, number * 10 + (digit - float(ord("0"))), number)
    whole, decimals = (parts[k].str.len().fillna(0).to_numpy(dtype=np.int64) for k in (1, 2))
    exponent = parts[3].fillna("0").to_numpy(dtype=np.int64)
    exponent += np.maximum(whole - 17, 0) - np.clip(17 - whole, 0, decimals)
    power = np.array([float(f"1e{k}") for k in range(309)])[np.abs(exponent)]
    number = np.where(exponent > 0, number * power, number / power) * np.where(parts[0] == "-", -1, 1)
    return pd.Series(number, index=text.index, name=text.name).where(text.notna())
