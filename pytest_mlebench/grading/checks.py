"""The standard checks of a submission. Each raises InvalidSubmission; its reason names the column, id or row.

A reason may name what the agent wrote and the ids that are asked for, never a value of the answers.
Rows are counted from 1, without the header.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pytest_mlebench.errors import InvalidSubmission

Parsed = TypeVar("Parsed")


def require_columns(submission: pd.DataFrame, columns: Sequence[str], *, exactly: bool = False) -> None:
    """The columns must be there, in any order; with ``exactly`` there must be no others."""
    found = list(submission.columns)
    if missing := [column for column in columns if column not in found]:
        names = ", ".join(map(_show, found[:20])) or "none"
        raise InvalidSubmission(f"column {missing[0]!r} is missing; the file has {names}")
    if exactly and (extra := [column for column in found if column not in columns]):
        raise InvalidSubmission(f"column {_show(extra[0])} is not expected; the columns are {', '.join(columns)}")


def require_row_count(submission: pd.DataFrame, answers: pd.DataFrame | int) -> None:
    """There must be as many rows as in the answers (or as the number says)."""
    expected = answers if isinstance(answers, int) else len(answers)
    if len(submission) != expected:
        raise InvalidSubmission(f"the file has {len(submission)} rows; {expected} were expected")


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
    those of the answers. Shape (rows,) for one name, (rows, columns) for several; see the single checks below.
    """
    keys = [on] if isinstance(on, str) else on
    require_columns(submission, [*keys, *([columns] if isinstance(columns, str) else columns)])
    values = numeric(submission, columns)
    require_finite(values, columns)
    if between is not None:
        require_between(values, columns, *between)
    return values[alignment(submission, answers, on)]


def align(submission: pd.DataFrame, answers: pd.DataFrame, on: str | list[str]) -> pd.DataFrame:
    """The submission's rows in the order of the answers (see ``alignment``).

    Check values before: afterwards a reason can no longer name the row of the agent's file.
    """
    return submission.take(alignment(submission, answers, on)).reset_index(drop=True)


def alignment(submission: pd.DataFrame, answers: pd.DataFrame, on: str | list[str]) -> NDArray[np.intp]:
    """For each row of the answers the position of the submission's row with the same id (column, or columns).

    Both must hold the same ids, each once. Ids compare as pandas reads them: 5.0 equals 5, ``"5"`` does not.
    """
    keys = [on] if isinstance(on, str) else on
    require_columns(submission, keys)
    index, wanted = _index(submission, keys), _index(answers, keys)
    complete = not submission[keys].isna().to_numpy().any()
    if complete and len(index) == len(wanted) and _same_kind(index, wanted) and (index == wanted).all():
        return np.arange(len(wanted))  # most submissions keep the order: sorting millions of ids takes long
    if (order := _integer_alignment(index, wanted)) is not None:
        return order
    name = keys[0] if isinstance(on, str) else "/".join(keys)
    found = _positions(index, wanted, name, once=True)
    order = np.empty(len(found), dtype=np.intp)
    order[found] = np.arange(len(found))
    return order


def numeric(submission: pd.DataFrame, columns: str | Sequence[str]) -> NDArray[np.float64]:
    """The columns as float64 by ``pandas.to_numeric``: shape (rows,) for one name, (rows, columns) for several.

    Text raises; booleans count as 0 and 1; missing values are NaN (see ``require_finite``).
    """
    if isinstance(columns, str):
        return _numeric(submission[columns])
    return np.column_stack([_numeric(submission[column]) for column in columns])


def require_finite(values: NDArray[np.float64], columns: str | Sequence[str]) -> None:
    """No value may be missing or infinite; ``columns`` names the columns of ``values``."""
    _require(np.isfinite(values), values, columns, "is missing or not finite", show=False)


def require_not_missing(submission: pd.DataFrame, columns: str | Sequence[str]) -> None:
    """No field of the columns may be empty (or a word that pandas reads as missing)."""
    for column in [columns] if isinstance(columns, str) else columns:
        if (missing := submission[column].isna().to_numpy()).any():
            raise InvalidSubmission(f"column {column!r}, row {missing.argmax() + 1}: the value is missing")


def require_between(
    values: NDArray[np.float64], columns: str | Sequence[str], low: float = 0.0, high: float = 1.0
) -> None:
    """Values must lie in [low, high], compared exactly; NaN passes (see ``require_finite``)."""
    inside = np.isnan(values) | ((values >= low) & (values <= high))
    _require(inside, values, columns, f"is not between {low:g} and {high:g}")


def require_row_sums(
    values: NDArray[np.float64], total: float = 1.0, *, rtol: float = 1e-5, atol: float = 1e-8
) -> None:
    """Each row of ``values`` (rows, columns) must sum to ``total``, by numpy's ``isclose``; NaN is skipped."""
    sums = np.nansum(values, axis=1)
    wrong = ~np.isclose(sums, total, rtol=rtol, atol=atol)
    if wrong.any():
        row = int(wrong.argmax())
        raise InvalidSubmission(f"row {row + 1}: the values sum to {_show(sums[row])}, not to {total:g}")


def _numeric(column: pd.Series[Any]) -> NDArray[np.float64]:
    try:
        return np.asarray(pd.to_numeric(column), dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        parsed = pd.to_numeric(column.astype(str), errors="coerce").to_numpy(dtype=np.float64)
        row = int((~np.isfinite(parsed) & column.notna().to_numpy()).argmax())
        what = "not a number" if np.isnan(parsed[row]) else "too large a number"
        raise InvalidSubmission(
            f"column {column.name!r}, row {row + 1}: {_show(column.iloc[row])} is {what}"
        ) from error


def _require(
    holds: NDArray[np.bool_], values: NDArray[np.float64], columns: str | Sequence[str], what: str, *, show: bool = True
) -> None:
    if holds.all():
        return
    row, *rest = np.argwhere(~holds)[0]
    column = columns if isinstance(columns, str) else columns[rest[0]]
    value = f" {_show(values[(row, *rest)])}" if show else ""
    raise InvalidSubmission(f"column {column!r}, row {row + 1}: the value{value} {what}")


def _positions(index: pd.Index[Any], wanted: pd.Index[Any], name: str, *, once: bool = False) -> NDArray[np.intp]:
    positions = _places(index, wanted)
    if (positions < 0).any():
        raise InvalidSubmission(f"{name} {_show(index[positions < 0][0])} is not an id of the test set")
    times = np.bincount(positions, minlength=len(wanted))
    if once and (times > 1).any():
        raise InvalidSubmission(f"{name} {_show(index[times[positions] > 1][0])} occurs more than once")
    if len(missing := wanted[times == 0]):
        others = f" and {len(missing) - 1} more are" if len(missing) > 1 else " is"
        raise InvalidSubmission(f"{name} {_show(missing[0])}{others} missing")
    return positions


def _same_kind(left: pd.Index[Any], right: pd.Index[Any]) -> bool:
    is_numeric = pd.api.types.is_numeric_dtype
    return left.dtype == right.dtype or (is_numeric(left) and is_numeric(right))


def _index(table: pd.DataFrame, keys: list[str]) -> pd.Index[Any]:
    return pd.Index(table[keys[0]]) if len(keys) == 1 else pd.MultiIndex.from_frame(table[keys])


def _show(value: Any) -> str:
    if isinstance(value, tuple):  # ids of several columns
        return f"({', '.join(map(_show, value))})"
    text = str(value) if isinstance(value, float | int | np.number) else repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def require_whole(values: NDArray[np.float64], columns: str | Sequence[str]) -> None:
    """Values must be whole numbers of 64 bits, 2.0 as well as 2; NaN passes (see ``require_finite``)."""
    whole = np.isnan(values) | ((values == np.floor(values)) & (np.abs(values) < 2.0**63))
    _require(whole, values, columns, "is not a whole number")


def text(submission: pd.DataFrame, column: str) -> pd.Series[str]:
    """A column of labels as text, the empty string where a value is missing.

    Raises for a column that pandas reads as numbers or booleans throughout, as labels are text; a few numbers among
    text are text.
    """
    values = submission[column]
    kind = pd.api.types.infer_dtype(values, skipna=True)
    if kind not in {"string", "mixed", "mixed-integer", "empty"} and values.notna().any():
        raise InvalidSubmission(f"column {column!r} must hold text; the file has nothing but {kind} values there")
    return values.astype(object).where(values.notna(), "").astype(str)


def class_labels(
    submission: pd.DataFrame, answers: pd.DataFrame, column: str, *, on: str | list[str], truncate: bool = False
) -> NDArray[np.int64]:
    """The usual checks of a classification with numbered classes: labels of shape (rows,) in the order of the answers.

    The column must hold whole numbers (see ``whole_numbers``), and the ids (``on``) be those of the answers.
    """
    require_columns(submission, [*([on] if isinstance(on, str) else on), column])
    return whole_numbers(submission, column, truncate=truncate)[alignment(submission, answers, on)]


def whole_numbers(submission: pd.DataFrame, column: str, *, truncate: bool = False) -> NDArray[np.int64]:
    """A column as integers, shape (rows,): 3.0 is 3, booleans are 0 and 1; text and missing values raise.

    A fraction raises too; with ``truncate`` it is cut off towards zero, as Python's ``int`` does.
    """
    values = numeric(submission, column)
    require_finite(values, column)
    if truncate:
        values = np.trunc(values)
    require_whole(values, column)
    return values.astype(np.int64)


def label_sets(table: pd.DataFrame, column: str) -> list[frozenset[str]]:
    """The set of labels in each row of a ``text`` column, which white space separates; an empty field is the empty set.

    Raises for a column that pandas reads as numbers, as it does where no row has two numbered labels.
    """
    return [frozenset(labels.split()) for labels in text(table, column).tolist()]


def ranked_labels(table: pd.DataFrame, column: str, k: int) -> list[list[str]]:
    """The first k labels in each row, as text cut at every single blank: two in a row make an empty label.

    Numbers become the text that Python makes of them, 7.0 ``"7.0"``; a missing value is the label ``"nan"``.
    """
    return [str(value).split(" ", k)[:k] for value in table[column].tolist()]


def require_same_ids(submission: pd.DataFrame, answers: pd.DataFrame, on: str | list[str]) -> None:
    """The submission must hold the ids of the answers and no others; how often it holds one does not matter."""
    keys = [on] if isinstance(on, str) else on
    require_columns(submission, keys)
    alignment(submission[keys].drop_duplicates(), answers[keys].drop_duplicates(), on)


def _integer_alignment(index: pd.Index[Any], wanted: pd.Index[Any]) -> NDArray[np.intp] | None:
    """``alignment`` of integers that are the same and distinct, else None: sorting millions is faster than hashing."""
    if len(index) != len(wanted) or index.dtype != wanted.dtype or index.dtype.kind not in "iu":
        return None
    found, expected = index.to_numpy(), wanted.to_numpy()
    from_found, from_expected = np.argsort(found), np.argsort(expected)
    ids = expected[from_expected]
    if (ids[1:] == ids[:-1]).any() or (ids != found[from_found]).any():
        return None
    order = np.empty(len(ids), dtype=np.intp)
    order[from_expected] = from_found
    return order


def _places(index: pd.Index[Any], wanted: pd.Index[Any]) -> NDArray[np.intp]:
    """The place of each id among the wanted ones, -1 where it is none of them."""
    if isinstance(index.dtype, pd.StringDtype) and index.dtype == wanted.dtype:
        places = pc.index_in(pa.array(index), value_set=pa.array(wanted))  # many times as fast as an index of pandas
        return np.asarray(places.fill_null(-1), dtype=np.intp)
    return wanted.get_indexer(index)


def isin(values: pd.Series[Any], others: pd.Series[Any]) -> pd.Series[bool]:
    """Which of the values are among the others: pandas' ``isin``, several times as fast for text."""
    return pd.Series(_places(pd.Index(values), pd.Index(others.unique())) >= 0, index=values.index)


def require_above(values: NDArray[np.float64], columns: str | Sequence[str], low: float) -> None:
    """Values must be greater than ``low``; NaN passes (see ``require_finite``)."""
    _require(np.isnan(values) | (values > low), values, columns, f"is not greater than {low:g}")


def stringified(table: pd.DataFrame, column: str) -> pd.Series[str]:
    """A column as text by Python's ``str``, 0.5 ``"0.5"`` and True ``"True"``; a missing value is ``"nan"``."""
    return table[column].astype(str).fillna("nan")


def positions(submission: pd.DataFrame, answers: pd.DataFrame, on: str) -> NDArray[np.intp]:
    """For each row of the submission the position of the answers' row with the same id.

    For graders that let an id occur more than once: all must be ids of the answers, and none of these be missing.
    """
    require_columns(submission, [on])
    return _positions(_index(submission, [on]), _index(answers, [on]), on)


def texts(table: pd.DataFrame, column: str) -> list[str]:
    """A column as text: an empty field (or a word that pandas reads as missing) is "", a number what Python prints."""
    values = table[column]
    return [str(value) for value in values.astype(object).where(values.notna(), "").tolist()]


def require_text(submission: pd.DataFrame, column: str) -> None:
    """A column must not consist of numbers or booleans alone; one that is empty throughout passes."""
    values = submission[column]
    if pd.api.types.is_numeric_dtype(values) and values.notna().any():
        raise InvalidSubmission(f"column {column!r} holds numbers only; text was expected")


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
    """
    parsed = []
    for row, (text, *values) in enumerate(zip(submission[column], *arguments, strict=True), start=1):
        if not isinstance(text, str):
            if not pd.isna(text):
                raise InvalidSubmission(f"column {column!r}, row {row}: {_show(text)} is not text; expected {expected}")
            if missing is None:
                raise InvalidSubmission(f"column {column!r}, row {row}: the value is missing; expected {expected}")
            text = missing
        try:
            parsed.append(parse(text, *values))
        except ValueError as error:
            raise InvalidSubmission(f"column {column!r}, row {row}: {error}") from error
    return parsed


def split_records(text: str, width: int, separator: str | None = None) -> list[list[str]]:
    """A text's parts in groups of ``width``; ValueError where they do not come out even.

    Parts are separated by white space, or each by one ``separator`` where that is given.
    """
    parts = text.split(separator)
    if len(parts) % width:
        raise ValueError(f"it has {len(parts)} values, which is not a multiple of {width}{_space_hint(parts)}")
    return [parts[k : k + width] for k in range(0, len(parts), width)]


def to_floats(texts: Iterable[str]) -> list[float]:
    """Python's ``float`` of each text; ValueError names the first that is not a number."""
    texts = list(texts)
    try:
        return [float(text) for text in texts]
    except ValueError:
        wrong = next(text for text in texts if not _is_float(text))
        raise ValueError(f"{_show(wrong)} is not a number{_space_hint([wrong])}") from None


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _space_hint(parts: Sequence[str]) -> str:
    return "" if all(parts) else " (is there a space too many?)"
