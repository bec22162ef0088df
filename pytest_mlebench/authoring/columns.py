"""Reading a submission's columns: numbers, class labels, probabilities, text, sets, lists and records in text.

What a column cannot be read as raises InvalidSubmission with its row. First the readers that most graders need no
more than: ``predictions``, ``class_labels`` and ``class_probabilities`` check and align as well.
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
"""Numbers from which on Arrow reads them first, ten times as fast as Python."""


def predictions(
    submission: pd.DataFrame,
    answers: pd.DataFrame,
    columns: str | Sequence[str],
    *,
    on: str | list[str],
    between: tuple[float, float] | None = None,
) -> NDArray[np.float64]:
    """The usual checks in one: the numbers of one column or several, in the order of the answers' rows.

    The columns must be there and hold finite numbers, ``between`` low and high where given, and the ids (``on``) be
    those of the answers. Shape (rows,) for one name, (rows, columns) for several. It consists of ``numeric``,
    ``require_finite``, ``require_between`` and ``alignment``.

    >>> submission = pd.DataFrame({"id": ["b", "a"], "price": [2, 1]})
    >>> predictions(submission, pd.DataFrame({"id": ["a", "b"]}), "price", on="id")
    array([1., 2.])
    """
    checks.require_columns(submission, [*keys(on), *([columns] if isinstance(columns, str) else columns)])
    values = numeric(submission, columns)
    checks.require_finite(values, columns)
    if between is not None:
        checks.require_between(values, columns, *between)
    return values.take(alignment(submission, answers, on), axis=0)  # several times as fast as by brackets


def class_labels(
    submission: pd.DataFrame, answers: pd.DataFrame, column: str, *, on: str | list[str], truncate: bool = False
) -> NDArray[np.integer[Any]]:
    """The usual checks of a classification with numbered classes: labels of shape (rows,) in the order of the answers.

    The column must hold whole numbers (see ``whole_numbers``), and the ids (``on``) be those of the answers.

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
    """The usual checks of probabilities that sum to one in each row: shape (rows, columns), in the answers' order.

    As ``predictions`` between 0 and 1; the sums may be off as in numpy's ``isclose``.

    >>> submission = pd.DataFrame({"id": [1, 2], "cat": [0.25, 1], "dog": [0.75, 0]})
    >>> class_probabilities(submission, pd.DataFrame({"id": [2, 1]}), ["cat", "dog"], on="id")
    array([[1.  , 0.  ],
           [0.25, 0.75]])
    """
    checks.require_columns(submission, [*keys(on), *columns])
    checks.require_row_sums(numeric(submission, columns), rtol=rtol, atol=atol)
    return predictions(submission, answers, columns, on=on, between=(0, 1))


def numeric(submission: pd.DataFrame, columns: str | Sequence[str]) -> NDArray[np.float64]:
    """The columns as float64 by ``pandas.to_numeric``: shape (rows,) for one name, (rows, columns) for several.

    Text raises; booleans count as 0 and 1; missing values are NaN (see ``require_finite``).

    >>> numeric(pd.DataFrame({"a": ["1", "2.5"], "b": [True, False]}), ["a", "b"])
    array([[1. , 1. ],
           [2.5, 0. ]])
    """
    if isinstance(columns, str):
        return _parsed(submission[columns]).astype(np.float64, copy=False)
    values = np.empty((len(submission), len(columns)))
    for place, column in enumerate(columns):
        values[:, place] = _parsed(submission[column])
    return values


def whole_numbers(submission: pd.DataFrame, column: str, *, truncate: bool = False) -> NDArray[np.integer[Any]]:
    """A column as integers, shape (rows,): 3.0 is 3, booleans are 0 and 1; text and missing values raise.

    Integers stay what they are, of 64 bits with or without a sign: not all of them are floats.
    A fraction raises too; with ``truncate`` it is cut off towards zero, as Python's ``int`` does.

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
    """A column as text, whatever it holds: numbers as Python prints them, ``missing`` where a field is empty.

    A column that pandas reads as numbers becomes text too; ``require_text`` refuses it.

    >>> texts(pd.DataFrame({"label": ["cat", None]}), "label", missing="none").tolist()
    ['cat', 'none']
    """
    values = table[column]
    return values.astype(str).where(values.notna(), missing)


def label_sets(table: pd.DataFrame, column: str) -> list[frozenset[str]]:
    """The set of labels in each row of a text column, which white space separates; an empty field is the empty set.

    Raises for a column that pandas reads as numbers (``require_text``), as where no row has two numbered labels.

    >>> [sorted(labels) for labels in label_sets(pd.DataFrame({"tags": ["b a", None]}), "tags")]
    [['a', 'b'], []]
    """
    return [frozenset(labels.split()) for labels in label_texts(table, column)]


def label_texts(table: pd.DataFrame, column: str) -> pd.Series[str]:
    """A column as ``label_sets`` reads it, before the labels of each row are separated.

    >>> label_texts(pd.DataFrame({"tags": ["b a", None]}), "tags").tolist()
    ['b a', '']
    """
    checks.require_text(table, column)
    return texts(table, column)


def ranked_labels(table: pd.DataFrame, column: str, k: int) -> list[list[str]]:
    """The first k labels in each row, as text cut at every single blank: two in a row make an empty label.

    Numbers become the text that Python makes of them, 7.0 ``"7.0"``; a missing value is the label ``"nan"``.

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
    """``parse(text, …)`` of each field of a column, with the row's item of each of the ``arguments`` after the text.

    A ValueError of ``parse`` says what is wrong with the text; the reason adds column and row. A number is refused
    (pandas reads numbers where a column has nothing else), and so is a missing value unless ``missing`` gives the
    text it stands for. ``expected`` says in the reason what a field should hold.

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
    """A text's records of ``width`` numbers each: shape (records, width).

    Parts are separated by white space, or each by one ``separator`` where that is given. ValueError where records do
    not come out even, or a part is not a number (see ``to_floats``).

    >>> number_records("0 0.5 1 0.25", width=2)
    array([[0.  , 0.5 ],
           [1.  , 0.25]])
    """
    return to_floats(_record_parts(text, width, separator)).reshape(-1, width)


def labelled_records(
    text: str, width: int, *, label: int = 0, separator: str | None = None
) -> tuple[list[str], NDArray[np.float64]]:
    """A text's records, each of a label and ``width - 1`` numbers: the labels, and the numbers of each in a row.

    ``label`` is the place of the label in a record: 0 or -1. ValueError as of ``number_records``.

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
    """``labelled_records`` of many texts: how many each holds, and the labels and numbers of all, in a row.

    A blank text holds none. A ValueError does not say which text is wrong.

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
    """Python's ``float`` of each text, shape (texts,); ValueError names the first that is not a number.

    >>> to_floats(["1", "2.5"])
    array([1. , 2.5])
    """
    if pa is not None and len(texts) > _MANY:
        with suppress(ValueError):  # what Python reads and Arrow does not, as 1_000
            numbers = np.asarray(pa.array(texts, type=pa.large_string()).cast(pa.float64()))
            if not np.isnan(numbers).any():  # what Arrow reads and Python does not, as nan(1)
                return numbers
    try:
        return np.fromiter(map(float, texts), dtype=np.float64, count=len(texts))
    except ValueError:
        wrong = next(text for text in texts if not reads_as(float, text))
        raise ValueError(f"{checks.shown(wrong)} is not a number{_space_hint([wrong])}") from None


def _record_parts(text: str, width: int, separator: str | None) -> list[str]:
    parts = text.split(separator)
    if len(parts) % width:
        raise ValueError(f"it has {len(parts)} values, which is not a multiple of {width}{_space_hint(parts)}")
    return parts


def _parsed(column: pd.Series[Any]) -> NDArray[Any]:
    """A column's numbers as pandas reads them: of 64 bits, integers or floats, or booleans."""
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
    return "" if all(parts) else " (is there a space too many?)"
