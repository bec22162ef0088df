"""Pairing a submission's rows with those of the answers by their ids, which must be the same on both sides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pytest_mlebench.errors import InvalidSubmission
from pytest_mlebench.grading.arrow import pa, pc
from pytest_mlebench.grading.checks import require_columns, shown


def alignment(submission: pd.DataFrame, answers: pd.DataFrame, on: str | list[str]) -> NDArray[np.intp]:
    """For each row of the answers the position of the submission's row with the same id (column, or columns).

    Both must hold the same ids, each once. Ids compare as pandas reads them: 5.0 equals 5, ``"5"`` does not.
    """
    columns = keys(on)
    require_columns(submission, columns)
    index, wanted = _index(submission, columns), _index(answers, columns)
    complete = not submission[columns].isna().to_numpy().any()
    if complete and len(index) == len(wanted) and _same_kind(index, wanted) and (index == wanted).all():
        return np.arange(len(wanted))  # most submissions keep the order: sorting millions of ids takes long
    if (order := _integer_alignment(index, wanted)) is not None:
        return order
    found = _positions(index, wanted, "/".join(columns), once=True)
    order = np.empty(len(found), dtype=np.intp)
    order[found] = np.arange(len(found))
    return order


def align(submission: pd.DataFrame, answers: pd.DataFrame, on: str | list[str]) -> pd.DataFrame:
    """The submission's rows in the order of the answers (see ``alignment``).

    Check values before: afterwards a reason can no longer name the row of the agent's file.
    """
    return submission.take(alignment(submission, answers, on)).reset_index(drop=True)


def answer_positions(submission: pd.DataFrame, answers: pd.DataFrame, on: str) -> NDArray[np.intp]:
    """For each row of the submission the position of the answers' row with the same id.

    For graders that let an id occur more than once: all must be ids of the answers, and none of these be missing.
    """
    require_columns(submission, [on])
    return _positions(_index(submission, [on]), _index(answers, [on]), on)


def require_same_ids(submission: pd.DataFrame, answers: pd.DataFrame, on: str | list[str]) -> None:
    """The submission must hold the ids of the answers and no others; how often it holds one does not matter."""
    columns = keys(on)
    require_columns(submission, columns)
    alignment(submission[columns].drop_duplicates(), answers[columns].drop_duplicates(), on)


def isin(values: pd.Series[Any], others: pd.Series[Any]) -> pd.Series[bool]:
    """Which of the values are among the others: pandas' ``isin``, several times as fast for text."""
    return pd.Series(_places(pd.Index(values), pd.Index(others.unique())) >= 0, index=values.index)


def keys(on: str | list[str]) -> list[str]:
    """The id columns as a list, of one as of several."""
    return [on] if isinstance(on, str) else on


def _integer_alignment(index: pd.Index[Any], wanted: pd.Index[Any]) -> NDArray[np.intp] | None:
    """``alignment`` of integers that are the same and distinct, else None: sorting millions is faster than hashing."""
    if len(index) != len(wanted) or index.dtype != wanted.dtype or index.dtype.kind not in "iu":
        return None
    found, from_found = _sorted(index.to_numpy())
    ids, from_wanted = _sorted(wanted.to_numpy())
    if (ids[1:] == ids[:-1]).any() or (ids != found).any():
        return None
    order = np.empty(len(ids), dtype=np.intp)
    order[from_wanted] = from_found
    return order


def _sorted(ids: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Integers in ascending order, and the position of each."""
    bits = len(ids).bit_length()
    if ids.dtype != np.int64 or not len(ids) or int(ids.max()) - int(ids.min()) >= 1 << (63 - bits):
        order = np.argsort(ids)
        return ids[order], order
    # An id and its position in one number: sorting values takes a fraction of the time of sorting positions.
    low = ids.min()
    packed = ids - low
    packed <<= bits
    packed |= np.arange(len(ids))
    packed.sort()
    positions = packed & ((1 << bits) - 1)
    packed >>= bits
    packed += low
    return packed, positions


def _positions(index: pd.Index[Any], wanted: pd.Index[Any], name: str, *, once: bool = False) -> NDArray[np.intp]:
    positions = _places(index, wanted)
    if (positions < 0).any():
        raise InvalidSubmission(f"{name} {shown(index[positions < 0][0])} is not an id of the test set")
    times = np.bincount(positions, minlength=len(wanted))
    if once and (times > 1).any():
        raise InvalidSubmission(f"{name} {shown(index[times[positions] > 1][0])} occurs more than once")
    if len(missing := wanted[times == 0]):
        others = f" and {len(missing) - 1} more are" if len(missing) > 1 else " is"
        raise InvalidSubmission(f"{name} {shown(missing[0])}{others} missing")
    return positions


def _places(index: pd.Index[Any], wanted: pd.Index[Any]) -> NDArray[np.intp]:
    """The place of each id among the wanted ones, -1 where it is none of them."""
    if pa is not None and isinstance(index.dtype, pd.StringDtype) and index.dtype == wanted.dtype:
        places = pc.index_in(pa.array(index), value_set=pa.array(wanted))  # many times as fast as an index of pandas
        return np.asarray(places.fill_null(-1), dtype=np.intp)
    return wanted.get_indexer(index)


def _same_kind(left: pd.Index[Any], right: pd.Index[Any]) -> bool:
    is_numeric = pd.api.types.is_numeric_dtype
    return left.dtype == right.dtype or (is_numeric(left) and is_numeric(right))


def _index(table: pd.DataFrame, keys: list[str]) -> pd.Index[Any]:
    return pd.Index(table[keys[0]]) if len(keys) == 1 else pd.MultiIndex.from_frame(table[keys])
