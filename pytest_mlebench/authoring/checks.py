"""Checks of a submission's columns and values. Each raises InvalidSubmission; its reason names column and row.

A reason may name what the agent wrote and the ids that are asked for, never a value of the answers.
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
    """The columns must be there, in any order; with ``exactly`` there must be no others.

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
    """There must be as many rows as in the answers (or as the number says).

    >>> require_row_count(pd.DataFrame({"id": [1]}), 2)
    Traceback (most recent call last):
    pytest_mlebench.errors.InvalidSubmission: the file has 1 rows; 2 were expected
    """
    expected = answers if isinstance(answers, int) else len(answers)
    if len(submission) != expected:
        raise InvalidSubmission(f"the file has {len(submission)} rows; {expected} were expected")


def require_not_missing(submission: pd.DataFrame, columns: str | Sequence[str]) -> None:
    """No field of the columns may be empty (or a word that pandas reads as missing).

    >>> require_not_missing(pd.DataFrame({"label": ["cat", None]}), "label")
    Traceback (most recent call last):
    pytest_mlebench.errors.InvalidSubmission: column 'label', row 2: the value is missing
    """
    for column in [columns] if isinstance(columns, str) else columns:
        if (missing := submission[column].isna().to_numpy()).any():
            raise InvalidSubmission(f"column {column!r}, row {missing.argmax() + 1}: the value is missing")


def require_text(submission: pd.DataFrame, column: str) -> None:
    """A column must hold some text, or nothing at all: one of numbers or booleans throughout raises.

    >>> require_text(pd.DataFrame({"tag": [1, 2]}), "tag")
    Traceback (most recent call last):
    pytest_mlebench.errors.InvalidSubmission: column 'tag' must hold text; the file has nothing but integer values there
    """
    values = submission[column]
    kind = pd.api.types.infer_dtype(values, skipna=True)
    if kind not in {"string", "mixed", "mixed-integer", "empty"} and values.notna().any():
        raise InvalidSubmission(f"column {column!r} must hold text; the file has nothing but {kind} values there")


def require_finite(values: NDArray[np.float64], columns: str | Sequence[str]) -> None:
    """No value may be missing or infinite; ``columns`` names the columns of ``values``.

    >>> require_finite(np.array([1.0, np.inf]), "price")
    Traceback (most recent call last):
    pytest_mlebench.errors.InvalidSubmission: column 'price', row 2: the value is missing or not finite
    """
    _require(np.isfinite(values), values, columns, "is missing or not finite", show=False)


def require_whole(values: NDArray[np.float64], columns: str | Sequence[str]) -> None:
    """Values must be whole numbers of 64 bits, 2.0 as well as 2; NaN passes (see ``require_finite``)."""
    whole = np.isnan(values) | ((values == np.floor(values)) & (values >= -(2.0**63)) & (values < 2.0**63))
    _require(whole, values, columns, "is not a whole number")


def require_between(
    values: NDArray[np.float64], columns: str | Sequence[str], low: float = 0.0, high: float = 1.0
) -> None:
    """Values must lie in [low, high], compared exactly; NaN passes (see ``require_finite``).

    >>> require_between(np.array([0.2, 1.5]), "p")
    Traceback (most recent call last):
    pytest_mlebench.errors.InvalidSubmission: column 'p', row 2: the value 1.5 is not between 0 and 1
    """
    inside = np.isnan(values) | ((values >= low) & (values <= high))
    _require(inside, values, columns, f"is not between {low:g} and {high:g}")


def require_above(values: NDArray[np.float64], columns: str | Sequence[str], low: float) -> None:
    """Values must be greater than ``low``; NaN passes (see ``require_finite``).

    >>> require_above(np.array([1.0, 0.0]), "price", 0)
    Traceback (most recent call last):
    pytest_mlebench.errors.InvalidSubmission: column 'price', row 2: the value 0.0 is not greater than 0
    """
    _require(np.isnan(values) | (values > low), values, columns, f"is not greater than {low:g}")


def require_row_sums(
    values: NDArray[np.float64], total: float = 1.0, *, rtol: float = 1e-5, atol: float = 1e-8
) -> None:
    """Each row of ``values`` (rows, columns) must sum to ``total``, by numpy's ``isclose``; NaN is skipped.

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
    """A value as a reason shows it: cut off where it is long."""
    if isinstance(value, tuple):  # ids of several columns
        return f"({', '.join(map(shown, value))})"
    text = str(value) if isinstance(value, float | int | np.number) else repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


AS_TEXT: dict[str, Any] = {"dtype": str, "keep_default_na": False}
"""``READ_OPTIONS`` of a grader whose values are text: numbers stay as they are written, and "null" stays a word."""


def require_whole_runs(submission: pd.DataFrame, column: str, sizes: ArrayLike | None = None) -> None:
    """Run lengths must be pairs of start and length, and end within the mask of so many pixels, where that is given.

    For texts that ``decode_rle`` has accepted, which leaves out what lies beyond. ``sizes`` has the shape (rows,).
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
