"""Reads, splits and writes tables, byte for byte as the reference does."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import IO, Any, TypeVar, cast

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.archives import zip_member

Rows = TypeVar("Rows", bound="pd.DataFrame | Sequence[Any] | Any")


def read_csv(path: Path | IO[bytes], **options: Any) -> pd.DataFrame:
    """Read a CSV file with pandas' ``read_csv``, whose floats (since pandas 3.1) are exact and survive a round trip.

    >>> from io import BytesIO
    >>> read_csv(BytesIO(b"id,price\\n007,0.1\\n")).to_numpy().tolist()  # the id is a number now
    [[7.0, 0.1]]
    """
    table: pd.DataFrame = pd.read_csv(path, **options)
    return table


def read_text_csv(path: Path | IO[bytes], *, numbers: Iterable[str] = (), **options: Any) -> pd.DataFrame:
    """Read a CSV file as strings: ``000123`` keeps its zeros, and ``NA`` is not a missing value.

    An empty cell is an empty string. ``numbers`` names the columns to convert; empty cells there are missing. Raises
    ValueError if a cell of such a column is not a number. Other ``options`` are those of pandas' ``read_csv``.

    >>> from io import BytesIO
    >>> table = read_text_csv(BytesIO(b"id,size,price\\n007,NA,12.50\\n008,L,\\n"), numbers=["price"])
    >>> table.to_numpy().tolist()
    [['007', 'NA', 12.5], ['008', 'L', nan]]
    """
    table: pd.DataFrame = pd.read_csv(path, **{"dtype": str, "keep_default_na": False, **options})
    for name in numbers:
        table[name] = pd.to_numeric(table[name].replace("", None))
    return table


def read_zipped_csv(path: Path, **options: Any) -> pd.DataFrame:
    """Read a CSV file from a zip archive of the same name with ``read_csv``: ``train.csv`` in ``train.csv.zip``."""
    with zip_member(path, path.name.removesuffix(".zip")) as file:
        return read_csv(file, **options)


def write_csv(table: pd.DataFrame, path: Path, **options: Any) -> None:
    """Write a table without its index, and create parent folders. ``options`` are those of pandas' ``to_csv``.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     write_csv(pd.DataFrame({"id": ["007"]}), Path(folder, "public/test.csv"))
    ...     print(Path(folder, "public/test.csv").read_text().split())
    ['id', '007']
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(path, **{"index": False, **options})


def split(rows: Rows, test_size: float | int, **options: Any) -> tuple[Rows, Rows]:
    """Split rows into (train, test) with scikit-learn's ``train_test_split`` and ``random_state=0``, in its order.

    ``rows`` is a table, an array or a list. ``test_size`` is a share if it is a float (the number of test rows is
    rounded up), or a number of rows. ``options`` are those of ``train_test_split``, for example ``stratify``.

    >>> train, test = split(list(range(10)), test_size=0.2)
    >>> train, test
    ([4, 9, 1, 6, 7, 3, 0, 5], [2, 8])
    """
    from sklearn.model_selection import train_test_split

    train, test = train_test_split(rows, **{"test_size": test_size, "random_state": 0, **options})
    return train, test


def hold_out(table: pd.DataFrame, column: str, values: Iterable[Any]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Split a table into (train, test): test rows have one of ``values`` in ``column``. The order of rows is kept.

    >>> train, test = hold_out(pd.DataFrame({"year": [2020, 2021, 2022]}), "year", [2022])
    >>> train["year"].tolist(), test["year"].tolist()
    ([2020, 2021], [2022])
    """
    is_test = table[column].isin(list(values))
    return table[~is_test], table[is_test]


def split_groups(
    table: pd.DataFrame, column: str, test_size: float | int, **options: Any
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Split a table into (train, test), and keep rows with the same value in ``column`` on one side.

    The distinct values, in the order of first appearance, are split by ``split``, which takes ``test_size`` and
    ``options``. The order of rows is kept.

    >>> train, test = split_groups(pd.DataFrame({"patient": [1, 1, 2, 3, 3]}), "patient", test_size=1)
    >>> train["patient"].tolist(), test["patient"].tolist()
    ([1, 1, 2], [3, 3])
    """
    _, held_out = split(table[column].drop_duplicates(), test_size, **options)
    return hold_out(table, column, held_out)


def read_header(path: Path) -> list[str]:
    """Return the column names in a CSV file's first line."""
    with path.open(newline="", encoding="utf-8") as file:
        return next(csv.reader(file), [])


def one_hot(labels: pd.Series[Any] | Sequence[Any], classes: Iterable[Any]) -> pd.DataFrame:
    """Return a table with a column of 0 and 1 for each class, and the index of ``labels`` if it is a Series.

    >>> one_hot(["cat", "dog"], ["cat", "dog"]).to_numpy().tolist()
    [[1, 0], [0, 1]]
    """
    series = labels if isinstance(labels, pd.Series) else pd.Series(labels)
    return pd.DataFrame({name: cast("pd.Series[Any]", series == name).astype(int) for name in classes})


def read_csv_high(path: Path, **options: Any) -> pd.DataFrame:
    """Read a CSV file like pandas' default until version 3.0 (``float_precision="high"``).

    That parser rounds more than once, so that numbers with many digits may be slightly inexact. Files that the
    reference read and wrote in this way contain the inexact numbers. The file is read twice.
    """
    table = read_csv(path, **options)
    columns = list(table.select_dtypes("float").columns)
    texts = pd.read_csv(path, **{**options, "usecols": columns, "dtype": str}) if columns else table
    for column in columns:
        digits = texts[column].str.count(r"\d")
        inexact = (digits > 15) | texts[column].str.contains("e", case=False)  # other numbers are rounded only once
        table.loc[inexact.fillna(False), column] = [_high(text) for text in texts.loc[inexact.fillna(False), column]]
    return table


def _high(text: str) -> float:
    """Emulate pandas' ``precise_xstrtod``: accumulate 17 digits in a double, then multiply once by a power of ten."""
    mantissa, _, exponent = text.strip().lower().partition("e")
    whole, _, decimals = mantissa.lstrip("+-").partition(".")
    if not (whole + decimals).isdecimal():  # inf, nan
        return float(text)
    digits = (whole + decimals)[:17]
    number = float(digits[:15])
    for digit in digits[15:]:
        number = number * 10 + int(digit)
    power = len(whole) - len(digits) + int(exponent or 0)
    if power < -308:
        number = number / float(f"1e{-308 - power}") / 1e308
    else:
        number = number * float(f"1e{power}") if power > 0 else number / float(f"1e{-power}")
    return -number if mantissa.startswith("-") else number


def take_groups(table: pd.DataFrame, column: str, groups: Sequence[Any]) -> pd.DataFrame:
    """Return the rows whose ``column`` is one of ``groups``: in that order of groups, then in the table's order."""
    rank = pd.Index(groups).get_indexer(table[column])
    order = np.argsort(rank, kind="stable")
    return table.take(order[np.count_nonzero(rank < 0) :])


def reads_as(kind: type[int] | type[float], text: str) -> bool:
    """Return whether Python can convert a string to this type of number."""
    try:
        kind(text)
    except ValueError:
        return False
    return True


def module(name: str) -> Any:
    """Import a module. Returns None if it is not installed."""
    try:
        return import_module(name)
    except ImportError:
        return None


pa, pc = module("pyarrow"), module("pyarrow.compute")


TEST_SHARE = 0.4


def write_competition(table: pd.DataFrame, target: str, placeholder: float, public: Path, private: Path) -> None:
    """Split a table of numbers 60 : 40; write ``train.csv``, ``test.csv``, ``sample_submission.csv`` and the answers.

    Each row gets a random ``id``. The answers are ``private/test.csv`` with ``id`` and ``target``. ``placeholder`` is
    the prediction in the sample submission.
    """
    # Convert integers, because 16.0 for a pixel of 16 would only make the files larger.
    table = table.astype({column: int for column in table if (table[column] % 1 == 0).all()})
    train, test = split(table, test_size=TEST_SHARE)
    # Hash positions in the shuffled table: a hash of the original position would reveal the row.
    ids = [hashlib.sha256(f"{target}:{position}".encode()).hexdigest()[:8] for position in range(len(table))]
    train, test = (part.reset_index(drop=True) for part in (train, test))
    train.insert(0, "id", ids[: len(train)])
    test.insert(0, "id", ids[len(train) :])
    write_csv(train, public / "train.csv")
    write_csv(test.drop(columns=target), public / "test.csv")
    write_csv(test[["id"]].assign(**{target: placeholder}), public / "sample_submission.csv")
    write_csv(test[["id", target]], private / "test.csv")
