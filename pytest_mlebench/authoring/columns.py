"""Reads a submission's columns as numbers, labels, probabilities, strings, sets, lists or records.

Values that cannot be converted raise InvalidSubmission with column and row. Most graders need only ``predictions``,
``class_labels`` or ``class_probabilities``, which also check and align the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pytest_mlebench.authoring import checks
from pytest_mlebench.authoring.ids import alignment, keys
from pytest_mlebench.authoring.tables import pa, reads_as
from pytest_mlebench.errors import InvalidSubmission

Parsed = TypeVar("Parsed")

_MANY = 1000
"""More numbers than this are first parsed by Arrow, which is ten times as fast as Python."""


def predictions(
    submission: pd.DataFrame,
    answers: pd.DataFrame,
    columns: str | Sequence[str],
    *,
    on: str | list[str],
    between: tuple[float, float] | None = None,
) -> NDArray[np.float64]:
    """Check the numbers in one or several columns, and return them in the order of the answers' rows.

    Returns float64 of shape (rows,) if ``columns`` is a name, or (rows, columns) if it is a sequence of names. Raises
    InvalidSubmission if a column is missing, or if a value is not a finite number or not in ``between`` (low, high).
    Also raises if the ids, in the column or columns ``on``, are not those of the answers, each once. Combines
    ``numeric``, ``require_finite``, ``require_between`` and ``alignment``.

    >>> submission = pd.DataFrame({"id": ["b", "a"], "price": [2, 1]})
    >>> predictions(submission, pd.DataFrame({"id": ["a", "b"]}), "price", on="id")
    array([1., 2.])
    """
    checks.require_columns(submission, [*keys(on), *([columns] if isinstance(columns, str) else columns)])
    values = numeric(submission, columns)
    checks.require_finite(values, columns)
    if between is not None:
        checks.require_between(values, columns, *between)
    return values.take(alignment(submission, answers, on), axis=0)  # several times as fast as indexing


def class_labels(
    submission: pd.DataFrame, answers: pd.DataFrame, column: str, *, on: str | list[str], truncate: bool = False
) -> NDArray[np.integer[Any]]:
    """Check the numeric class labels in a column, and return them in the order of the answers' rows.

    Returns integers of shape (rows,). Raises InvalidSubmission if a column is missing, a label is not an integer, or
    the ids (``on``) are not those of the answers. 3.0 counts as 3; ``truncate`` rounds fractions towards zero.

    >>> submission = pd.DataFrame({"id": ["b", "a"], "label": [2.0, 0.0]})
    >>> class_labels(submission, pd.DataFrame({"id": ["a", "b"]}), "label", on="id").tolist()
    [0, 2]
    """
    checks.require_columns(submission, [*keys(on), column])
    return whole_numbers(submission, column, truncate=truncate).take(alignment(submission, answers, on))


def class_probabilities(
    submission: pd.DataFrame,
    answers: pd.DataFrame,
    columns: Sequence[str],
    *,
    on: str | list[str],
    rtol: float = 1e-5,
    atol: float = 1e-8,
) -> NDArray[np.float64]:
    """Check class probabilities that sum to 1 in each row, and return them in the order of the answers' rows.

    Returns float64 of shape (rows, columns). Raises InvalidSubmission as ``predictions`` does with values between 0
    and 1, and if a row's sum is not 1 by numpy's ``isclose`` with ``rtol`` and ``atol``.

    >>> submission = pd.DataFrame({"id": [1, 2], "cat": [0.25, 1], "dog": [0.75, 0]})
    >>> class_probabilities(submission, pd.DataFrame({"id": [2, 1]}), ["cat", "dog"], on="id")
    array([[1.  , 0.  ],
           [0.25, 0.75]])
    """
    checks.require_columns(submission, [*keys(on), *columns])
    checks.require_row_sums(numeric(submission, columns), rtol=rtol, atol=atol)
    return predictions(submission, answers, columns, on=on, between=(0, 1))


def numeric(submission: pd.DataFrame, columns: str | Sequence[str]) -> NDArray[np.float64]:
    """Convert columns to float64 with ``pandas.to_numeric``.

    Returns shape (rows,) if ``columns`` is a name, or (rows, columns) if it is a sequence of names. Booleans become 0
    and 1, missing values NaN. Raises InvalidSubmission if a value is not a number.

    >>> numeric(pd.DataFrame({"a": ["1", "2.5"], "b": [True, False]}), ["a", "b"])
    array([[1. , 1. ],
           [2.5, 0. ]])
    """
    if isinstance(columns, str):
        return _parsed(submission[columns]).astype(np.float64, copy=False)
    values = np.empty((len(submission), len(columns)))
    for index, column in enumerate(columns):
        values[:, index] = _parsed(submission[column])
    return values


def whole_numbers(submission: pd.DataFrame, column: str, *, truncate: bool = False) -> NDArray[np.integer[Any]]:
    """Convert a column to integers of 64 bits: shape (rows,). 3.0 becomes 3, booleans become 0 and 1.

    Integers, signed or unsigned, are not converted to floats, which would be inexact. With ``truncate``, fractions are
    rounded towards zero, as in Python's ``int``. Raises InvalidSubmission for other values.

    >>> whole_numbers(pd.DataFrame({"n": [3.0, 4.0]}), "n").tolist()
    [3, 4]
    """
    if (parsed := _parsed(submission[column])).dtype.kind in "iu":
        return parsed
    values = parsed.astype(np.float64)
    checks.require_finite(values, column)
    if truncate:
        values = np.trunc(values)
        if values.max(initial=0) >= 2.0**63 and values.max() < 2.0**64 and values.min() >= 0:
            return values.astype(np.uint64)
    checks.require_whole(values, column)
    return values.astype(np.int64)


def texts(table: pd.DataFrame, column: str, *, missing: str = "") -> pd.Series[str]:
    """Convert a column of any type to strings: numbers as Python prints them, missing values to ``missing``.

    A column that pandas reads as numbers is converted too. To reject it, call ``require_text``.

    >>> texts(pd.DataFrame({"label": ["cat", None]}), "label", missing="none").tolist()
    ['cat', 'none']
    """
    values = table[column]
    return values.astype(str).where(values.notna(), missing)


def label_sets(table: pd.DataFrame, column: str) -> list[frozenset[str]]:
    """Return the set of whitespace-separated labels in each row of a text column; an empty field is an empty set.

    Raises InvalidSubmission if pandas reads the column as numbers, for example if each row has one numeric label.

    >>> [sorted(labels) for labels in label_sets(pd.DataFrame({"tags": ["b a", None]}), "tags")]
    [['a', 'b'], []]
    """
    return [frozenset(labels.split()) for labels in label_texts(table, column)]


def label_texts(table: pd.DataFrame, column: str) -> pd.Series[str]:
    """Return the strings that ``label_sets`` splits. Raises InvalidSubmission as ``label_sets`` does.

    >>> label_texts(pd.DataFrame({"tags": ["b a", None]}), "tags").tolist()
    ['b a', '']
    """
    checks.require_text(table, column)
    return texts(table, column)


def ranked_labels(table: pd.DataFrame, column: str, k: int) -> list[list[str]]:
    """Return the first k labels in each row, separated by single spaces: two spaces in a row yield an empty label.

    Numbers are converted by Python's ``str``: 7.0 becomes ``"7.0"``. A missing value becomes the label ``"nan"``.

    >>> ranked_labels(pd.DataFrame({"tags": ["b a c"]}), "tags", k=2)
    [['b', 'a']]
    """
    return [str(value).split(" ", k)[:k] for value in table[column].tolist()]


def parse_texts(
    submission: pd.DataFrame,
    column: str,
    parse: Callable[..., Parsed],
    *arguments: Iterable[Any],
    expected: str,
    missing: str | None = None,
) -> list[Parsed]:
    """Return ``parse(text, …)`` for each field of a column, where … are the row's items of the ``arguments``.

    Raises InvalidSubmission with column and row if ``parse`` raises a ValueError, whose message says what is wrong.
    Also raises for numbers (pandas reads a column that has only numbers as such), and for missing values, unless
    ``missing`` is a string to parse instead. ``expected`` describes a valid field in these messages.

    >>> parse_texts(pd.DataFrame({"box": ["1 2", "3 4"]}), "box", str.split, expected="two numbers")
    [['1', '2'], ['3', '4']]
    """
    parsed = []
    for row, (text, *values) in enumerate(zip(submission[column], *arguments, strict=True), start=1):
        if not isinstance(text, str):
            if not pd.isna(text):
                raise InvalidSubmission(
                    f"column {column!r}, row {row}: {checks.shown(text)} is not text; expected {expected}"
                )
            if missing is None:
                raise InvalidSubmission(f"column {column!r}, row {row}: the value is missing; expected {expected}")
            text = missing
        try:
            parsed.append(parse(text, *values))
        except ValueError as error:
            raise InvalidSubmission(f"column {column!r}, row {row}: {error}") from error
    return parsed


def number_records(text: str, width: int, separator: str | None = None) -> NDArray[np.float64]:
    """Parse a string of records with ``width`` numbers each; returns float64 of shape (records, width).

    Numbers are separated by whitespace, or by exactly one ``separator`` if it is given. Raises ValueError if the
    number of values is not a multiple of ``width``, or a value is not a number.

    >>> number_records("0 0.5 1 0.25", width=2)
    array([[0.  , 0.5 ],
           [1.  , 0.25]])
    """
    return to_floats(_record_parts(text, width, separator)).reshape(-1, width)


def labelled_records(
    text: str, width: int, *, label: int = 0, separator: str | None = None
) -> tuple[list[str], NDArray[np.float64]]:
    """Parse a string of records, each with a label and ``width - 1`` numbers.

    Returns the list of labels, and the numbers as float64 of shape (records, width - 1). ``label`` is the index of the
    label in a record: 0 or -1. ``separator`` and errors are those of ``number_records``.

    >>> labelled_records("cat 0.9 1 dog 0.5 3", width=3)
    (['cat', 'dog'], array([[0.9, 1. ],
           [0.5, 3. ]]))
    """
    parts = _record_parts(text, width, separator)
    labels = parts[label % width :: width]
    del parts[label % width :: width]
    return labels, to_floats(parts).reshape(-1, width - 1)


def labelled_columns(
    texts: Sequence[str], width: int, *, label: int = 0, separator: str | None = None
) -> tuple[NDArray[np.int64], list[str], NDArray[np.float64]]:
    """Parse many strings as ``labelled_records`` does, in one pass.

    Returns the number of records in each string, of shape (strings,), and the labels and numbers of all records. A
    blank string has no records. Raises ValueError, which does not say which string is invalid.

    >>> counts, labels, numbers = labelled_columns(["cat 0.9 dog 0.5", ""], width=2)
    >>> counts.tolist(), labels, numbers.ravel().tolist()
    ([2, 0], ['cat', 'dog'], [0.9, 0.5])
    """
    parts = [text.split(separator) if text.strip() else [] for text in texts]
    counts = np.fromiter(map(len, parts), dtype=np.int64, count=len(parts))
    if (counts % width).any():
        raise ValueError(f"a number of values is not a multiple of {width}")
    flat = list(chain.from_iterable(parts))
    labels = flat[label % width :: width]
    del flat[label % width :: width]
    return counts // width, labels, to_floats(flat).reshape(-1, width - 1)


def to_floats(texts: Sequence[str]) -> NDArray[np.float64]:
    """Convert strings with Python's ``float``: shape (strings,). Raises ValueError with the first invalid string.

    >>> to_floats(["1", "2.5"])
    array([1. , 2.5])
    """
    if pa is not None and len(texts) > _MANY:
        with suppress(ValueError):  # Python accepts strings that Arrow rejects, such as 1_000
            numbers = np.asarray(pa.array(texts, type=pa.large_string()).cast(pa.float64()))
            if not np.isnan(numbers).any():  # Arrow accepts strings that Python rejects, such as nan(1)
                return numbers
    try:
        return np.fromiter(map(float, texts), dtype=np.float64, count=len(texts))
    except ValueError:
        invalid = next(text for text in texts if not reads_as(float, text))
        raise ValueError(f"{checks.shown(invalid)} is not a number{_space_hint([invalid])}") from None


def _record_parts(text: str, width: int, separator: str | None) -> list[str]:
    parts = text.split(separator)
    if len(parts) % width:
        raise ValueError(f"it has {len(parts)} values, which is not a multiple of {width}{_space_hint(parts)}")
    return parts


def _parsed(column: pd.Series[Any]) -> NDArray[Any]:
    """Return a column's numbers as pandas reads them: integers, floats or booleans."""
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "iufb":
        return column.to_numpy()
    try:
        values = pd.to_numeric(column)
        return np.asarray(values, dtype=None if values.dtype.kind in "iufb" else np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        parsed = pd.to_numeric(column.astype(str), errors="coerce").to_numpy(dtype=np.float64)
        row = int((~np.isfinite(parsed) & column.notna().to_numpy()).argmax())
        what = "not a number" if np.isnan(parsed[row]) else "too large a number"
        raise InvalidSubmission(
            f"column {column.name!r}, row {row + 1}: {checks.shown(column.iloc[row])} is {what}"
        ) from error


def _space_hint(parts: Sequence[str]) -> str:
    return "" if all(parts) else " (is there an extra space?)"
