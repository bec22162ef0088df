"""Tables as preparers and graders read, split and write them, so that the bytes come out as the reference's do."""

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
    """pandas' ``read_csv``, whose floats (since pandas 3.1) are exact: they are written back as they were read.

    >>> from io import BytesIO
    >>> read_csv(BytesIO(b"id,price\\n007,0.1\\n")).to_numpy().tolist()  # the id is a number now
    [[7.0, 0.1]]
    """
    table: pd.DataFrame = pd.read_csv(path, **options)
    return table


def read_text_csv(path: Path | IO[bytes], *, numbers: Iterable[str] = (), **options: Any) -> pd.DataFrame:
    """A table whose cells are the strings in the file: ``000123`` keeps its zeros, and ``NA`` is not a missing value.

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
    """``read_csv`` of the table in a zip archive that is named after it: ``train.csv`` in ``train.csv.zip``."""
    with zip_member(path, path.name.removesuffix(".zip")) as file:
        return read_csv(file, **options)


def write_csv(table: pd.DataFrame, path: Path, **options: Any) -> None:
    """Write without the index, in pandas' default quoting; makes the folders above.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     write_csv(pd.DataFrame({"id": ["007"]}), Path(folder, "public/test.csv"))
    ...     print(Path(folder, "public/test.csv").read_text().split())
    ['id', '007']
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    table.to_csv(path, **{"index": False, **options})


def split(rows: Rows, test_size: float | int, **options: Any) -> tuple[Rows, Rows]:
    """scikit-learn's ``train_test_split`` with ``random_state=0``: (train, test) in the order it returns.

    ``rows`` is a table, an array or a list. A float ``test_size`` is a share (the number of test rows is rounded
    up), an int a number of rows. ``options`` as for ``train_test_split``, for example ``stratify``.

    >>> train, test = split(list(range(10)), test_size=0.2)
    >>> train, test
    ([4, 9, 1, 6, 7, 3, 0, 5], [2, 8])
    """
    from sklearn.model_selection import train_test_split

    train, test = train_test_split(rows, **{"test_size": test_size, "random_state": 0, **options})
    return train, test


def hold_out(table: pd.DataFrame, column: str, values: Iterable[Any]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """(train, test): the test rows are those whose ``column`` is one of the values; the order of rows is kept.

    >>> train, test = hold_out(pd.DataFrame({"year": [2020, 2021, 2022]}), "year", [2022])
    >>> train["year"].tolist(), test["year"].tolist()
    ([2020, 2021], [2022])
    """
    is_test = table[column].isin(list(values))
    return table[~is_test], table[is_test]


def split_groups(
    table: pd.DataFrame, column: str, test_size: float | int, **options: Any
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """(train, test), where rows of the same ``column`` stay together: its distinct values go to ``split``.

    The values are split in the order of their first appearance; the order of rows is kept.

    >>> train, test = split_groups(pd.DataFrame({"patient": [1, 1, 2, 3, 3]}), "patient", test_size=1)
    >>> train["patient"].tolist(), test["patient"].tolist()
    ([1, 1, 2], [3, 3])
    """
    _, held_out = split(table[column].drop_duplicates(), test_size, **options)
    return hold_out(table, column, held_out)


def read_header(path: Path) -> list[str]:
    """The column names in a CSV file's first line."""
    with path.open(newline="", encoding="utf-8") as file:
        return next(csv.reader(file), [])


def one_hot(labels: pd.Series[Any] | Sequence[Any], classes: Iterable[Any]) -> pd.DataFrame:
    """A column for each class, 1 where the row's label is that class and 0 elsewhere; index as in ``labels``.

    >>> one_hot(["cat", "dog"], ["cat", "dog"]).to_numpy().tolist()
    [[1, 0], [0, 1]]
    """
    series = labels if isinstance(labels, pd.Series) else pd.Series(labels)
    return pd.DataFrame({name: cast("pd.Series[Any]", series == name).astype(int) for name in classes})


def read_csv_high(path: Path, **options: Any) -> pd.DataFrame:
    """``read_csv`` with floats as pandas read them by default until 3.0 (``float_precision="high"``).

    That parser rounds more than once, so numbers of many digits can come out a bit off; where the reference reads so,
    the files that it writes back show it. The file is read twice.
    """
    table = read_csv(path, **options)
    columns = list(table.select_dtypes("float").columns)
    texts = pd.read_csv(path, **{**options, "usecols": columns, "dtype": str}) if columns else table
    for column in columns:
        digits = texts[column].str.count(r"\d")
        inexact = (digits > 15) | texts[column].str.contains("e", case=False)  # the others are rounded only once
        table.loc[inexact.fillna(False), column] = [_high(text) for text in texts.loc[inexact.fillna(False), column]]
    return table


def _high(text: str) -> float:
    """pandas' ``precise_xstrtod``: 17 digits summed up in a double, then one multiplication by a power of ten."""
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
    """The rows whose ``column`` is one of ``groups``: group by group in that order, within a group as in the table."""
    place = pd.Index(groups).get_indexer(table[column])
    order = np.argsort(place, kind="stable")
    return table.take(order[np.count_nonzero(place < 0) :])


def reads_as(kind: type[int] | type[float], text: str) -> bool:
    """Whether Python reads a text as a number of this kind."""
    try:
        kind(text)
    except ValueError:
        return False
    return True


def module(name: str) -> Any:
    """None where it is not installed."""
    try:
        return import_module(name)
    except ImportError:
        return None


pa, pc = module("pyarrow"), module("pyarrow.compute")


TEST_SHARE = 0.4


def write_competition(table: pd.DataFrame, target: str, placeholder: float, public: Path, private: Path) -> None:
    """Split a table of numbers 60 : 40; write ``train.csv``, ``test.csv``, ``sample_submission.csv`` and the answers.

    Each row gets a random ``id``; the answers are ``private/test.csv`` with ``id`` and ``target``.
    ``placeholder`` is the prediction of the sample submission.
    """
    # Whole numbers as such: 16.0 for a pixel of 16 would only make the files longer.
    table = table.astype({column: int for column in table if (table[column] % 1 == 0).all()})
    train, test = split(table, test_size=TEST_SHARE)
    # From the place in the shuffled table, since one from the original row would say where to look it up.
    ids = [hashlib.sha256(f"{target}:{place}".encode()).hexdigest()[:8] for place in range(len(table))]
    train, test = (part.reset_index(drop=True) for part in (train, test))
    train.insert(0, "id", ids[: len(train)])
    test.insert(0, "id", ids[len(train) :])
    write_csv(train, public / "train.csv")
    write_csv(test.drop(columns=target), public / "test.csv")
    write_csv(test[["id"]].assign(**{target: placeholder}), public / "sample_submission.csv")
    write_csv(test[["id", target]], private / "test.csv")
