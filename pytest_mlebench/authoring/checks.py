"""Checks of a submission's columns and values. Each raises InvalidSubmission, whose message names column and row.

Messages may contain the agent's values and the ids of the test set, but never values of the answers.
Rows are counted from 1, without the header.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from pytest_mlebench.errors import InvalidSubmission


def require_columns(submission: pd.DataFrame, columns: Sequence[str], *, exactly: bool = False) -> None:
    """Raise InvalidSubmission if a column is missing or, with ``exactly``, if there are others, in any order.

    >>> require_columns(pd.DataFrame({"id": [1]}), ["id", "price"])
    Traceback (most recent call last):
    pytest_mlebench.errors.InvalidSubmission: column 'price' is missing; the file has 'id'
    """
    found, known = dict.fromkeys(submission.columns), set(columns)
    if missing := [column for column in columns if column not in found]:
        names = ", ".join(map(shown, islice(found, 20))) or "none"
        raise InvalidSubmission(f"column {missing[0]!r} is missing; the file has {names}")
    if exactly and (extra := [column for column in found if column not in known]):
        raise InvalidSubmission(f"column {shown(extra[0])} is not expected; the columns are {', '.join(columns)}")


def require_row_count(submission: pd.DataFrame, answers: pd.DataFrame | int) -> None:
    """Raise InvalidSubmission unless there are as many rows as in ``answers``, a table or a number of rows.

    >>> require_row_count(pd.DataFrame({"id": [1]}), 2)
    Traceback (most recent call last):
    pytest_mlebench.errors.InvalidSubmission: the file has 1 rows; 2 were expected
    """
    expected = answers if isinstance(answers, int) else len(answers)
    if len(submission) != expected:
        raise InvalidSubmission(f"the file has {len(submission)} rows; {expected} were expected")


def require_not_missing(submission: pd.DataFrame, columns: str | Sequence[str]) -> None:
    """Raise InvalidSubmission if a field of the columns is empty, or a word that pandas reads as missing.

    >>> require_not_missing(pd.DataFrame({"label": ["cat", None]}), "label")
    Traceback (most recent call last):
    pytest_mlebench.errors.InvalidSubmission: column 'label', row 2: the value is missing
    """
    for column in [columns] if isinstance(columns, str) else columns:
        if (missing := submission[column].isna().to_numpy()).any():
            raise InvalidSubmission(f"column {column!r}, row {missing.argmax() + 1}: the value is missing")


def require_text(submission: pd.DataFrame, column: str) -> None:
    """Raise InvalidSubmission if all values of a column are numbers or booleans. Missing values are ignored.

    >>> require_text(pd.DataFrame({"tag": [1, 2]}), "tag")
    Traceback (most recent call last):
    pytest_mlebench.errors.InvalidSubmission: column 'tag' must contain text; the file has only integer values there
    """
    values = submission[column]
    kind = pd.api.types.infer_dtype(values, skipna=True)
    if kind not in {"string", "mixed", "mixed-integer", "empty"} and values.notna().any():
        raise InvalidSubmission(f"column {column!r} must contain text; the file has only {kind} values there")


def require_finite(values: NDArray[np.float64], columns: str | Sequence[str]) -> None:
    """Raise InvalidSubmission if a value is missing or infinite.

    ``values`` has shape (rows,) if ``columns`` is a name, or (rows, columns) if it is a sequence of names.

    >>> require_finite(np.array([1.0, np.inf]), "price")
    Traceback (most recent call last):
    pytest_mlebench.errors.InvalidSubmission: column 'price', row 2: the value is missing or not finite
    """
    _require(np.isfinite(values), values, columns, "is missing or not finite", show=False)


def require_whole(values: NDArray[np.float64], columns: str | Sequence[str]) -> None:
    """Raise InvalidSubmission if a value is not a 64-bit integer; 2.0 is one. NaN passes (see ``require_finite``)."""
    whole = np.isnan(values) | ((values == np.floor(values)) & (values >= -(2.0**63)) & (values < 2.0**63))
    _require(whole, values, columns, "is not a whole number")


def require_between(
    values: NDArray[np.float64], columns: str | Sequence[str], low: float = 0.0, high: float = 1.0
) -> None:
    """Raise InvalidSubmission if a value is not in [low, high], without tolerance. NaN passes (see ``require_finite``).

    >>> require_between(np.array([0.2, 1.5]), "p")
    Traceback (most recent call last):
    pytest_mlebench.errors.InvalidSubmission: column 'p', row 2: the value 1.5 is not between 0 and 1
    """
    inside = np.isnan(values) | ((values >= low) & (values <= high))
    _require(inside, values, columns, f"is not between {low:g} and {high:g}")


def require_above(values: NDArray[np.float64], columns: str | Sequence[str], low: float) -> None:
    """Raise InvalidSubmission if a value is not greater than ``low``. NaN passes; shapes as for ``require_finite``.

    >>> require_above(np.array([1.0, 0.0]), "price", 0)
    Traceback (most recent call last):
    pytest_mlebench.errors.InvalidSubmission: column 'price', row 2: the value 0.0 is not greater than 0
    """
    _require(np.isnan(values) | (values > low), values, columns, f"is not greater than {low:g}")


def require_row_sums(
    values: NDArray[np.float64], total: float = 1.0, *, rtol: float = 1e-5, atol: float = 1e-8
) -> None:
    """Raise InvalidSubmission if a row of ``values`` does not sum to ``total``, within numpy's ``isclose``.

    ``values`` has shape (rows, columns). NaN counts as 0.

    >>> require_row_sums(np.array([[0.5, 0.5], [0.5, 0.6]]))
    Traceback (most recent call last):
    pytest_mlebench.errors.InvalidSubmission: row 2: the values sum to 1.1, not to 1
    """
    sums = np.nansum(values, axis=1)
    wrong = ~np.isclose(sums, total, rtol=rtol, atol=atol)
    if wrong.any():
        row = int(wrong.argmax())
        raise InvalidSubmission(f"row {row + 1}: the values sum to {shown(sums[row])}, not to {total:g}")


def _require(
    holds: NDArray[np.bool_], values: NDArray[np.float64], columns: str | Sequence[str], what: str, *, show: bool = True
) -> None:
    if holds.all():
        return
    row, *rest = np.argwhere(~holds)[0]
    column = columns if isinstance(columns, str) else columns[rest[0]]
    value = f" {shown(values[(row, *rest)])}" if show else ""
    raise InvalidSubmission(f"column {column!r}, row {row + 1}: the value{value} {what}")


def shown(value: Any) -> str:
    """Format a value for a message, truncated to 80 characters."""
    if isinstance(value, tuple):  # ids of several columns
        return f"({', '.join(map(shown, value))})"
    text = str(value) if isinstance(value, float | int | np.number) else repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


AS_TEXT: dict[str, Any] = {"dtype": str, "keep_default_na": False}
"""``READ_OPTIONS`` for a grader of text: numbers are not converted, and "null" is not a missing value."""


def require_whole_runs(submission: pd.DataFrame, column: str, sizes: ArrayLike | None = None) -> None:
    """Raise InvalidSubmission if run lengths are not pairs of start and length, or a run ends beyond the mask.

    The strings must be valid for ``decode_rle``, which ignores pixels beyond the mask. ``sizes``, of shape (rows,), is
    the number of pixels of each mask; None: any size.
    """
    limits = np.full(len(submission), np.inf) if sizes is None else np.asarray(sizes)
    for row, (text, size) in enumerate(zip(submission[column], limits, strict=True), start=1):
        numbers = [] if pd.isna(text) else [int(number) for number in str(text).split()]
        if len(numbers) % 2:
            raise InvalidSubmission(f"column {column!r}, row {row}: run lengths have {len(numbers)} numbers, not pairs")
        ends = [start + length - 1 for start, length in zip(numbers[::2], numbers[1::2], strict=True)]
        if ends and max(ends) > size:
            raise InvalidSubmission(
                f"column {column!r}, row {row}: a run ends at pixel {max(ends)} of an image of {int(size)} pixels"
            )
