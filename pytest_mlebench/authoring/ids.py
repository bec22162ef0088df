"""Matches a submission's rows to those of the answers by id. Both must have the same ids."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pytest_mlebench.authoring.checks import require_columns, shown
from pytest_mlebench.authoring.tables import pa, pc
from pytest_mlebench.errors import InvalidSubmission

_ROWS = 1 << 16
"""Rows processed at a time, so that intermediate results stay in the processor's cache."""
_MAX_BYTES = 64
"""Maximum length of strings that are hashed. For longer strings, hashing may not be faster."""
_MULTIPLIERS = [np.uint64(0x9E3779B97F4A7C15 * 0xD1342543DE82EF95**power % 2**64) for power in range(24)]
"""Odd pseudorandom numbers: the upper bits of a product with one are a hash."""
_FIRST_BYTES = np.array([256**count - 1 for count in range(9)], dtype=np.uint64)


def alignment(submission: pd.DataFrame, answers: pd.DataFrame, on: str | list[str]) -> NDArray[np.integer[Any]]:
    """Return, for each row of the answers, the position of the submission's row with the same id: shape (rows,).

    ``on`` is the id column, or a list of columns that form the id. Raises InvalidSubmission unless the submission has
    each id of the answers exactly once and no others. Ids are compared as pandas reads them: 5.0 equals 5, but not
    ``"5"``.

    >>> alignment(pd.DataFrame({"id": ["b", "a"]}), pd.DataFrame({"id": ["a", "b"]}), on="id").tolist()
    [1, 0]
    """
    columns = keys(on)
    require_columns(submission, columns)
    index, wanted = _index(submission, columns), _index(answers, columns)
    complete = not any(submission[column].isna().any() for column in columns)
    if complete and len(index) == len(wanted) and _same_kind(index, wanted) and (index == wanted).all():
        return np.arange(len(wanted))  # most submissions keep the order, and sorting millions of ids is slow
    if complete and (order := _match(index, wanted)) is not None:
        return order
    found = _positions(index, wanted, "/".join(columns), once=True)
    order = np.empty(len(found), dtype=np.intp)
    order[found] = np.arange(len(found))
    return order


def align(submission: pd.DataFrame, answers: pd.DataFrame, on: str | list[str]) -> pd.DataFrame:
    """Return the submission's rows in the order of the answers. Arguments and errors are those of ``alignment``.

    Check the values first: after this call, messages can no longer give the row in the agent's file.

    >>> submission = pd.DataFrame({"id": ["b", "a"], "label": ["dog", "cat"]})
    >>> align(submission, pd.DataFrame({"id": ["a", "b"]}), on="id")["label"].tolist()
    ['cat', 'dog']
    """
    return submission.take(alignment(submission, answers, on)).reset_index(drop=True)


def answer_positions(submission: pd.DataFrame, answers: pd.DataFrame, on: str) -> NDArray[np.intp]:
    """Return, for each row of the submission, the position of the answers' row with the same id: shape (rows,).

    This is for graders that allow repeated ids. Raises InvalidSubmission unless the submission has every id of the
    answers at least once, and no others.

    >>> answer_positions(pd.DataFrame({"id": ["b", "b", "a"]}), pd.DataFrame({"id": ["a", "b"]}), on="id").tolist()
    [1, 1, 0]
    """
    require_columns(submission, [on])
    return _positions(_index(submission, [on]), _index(answers, [on]), on)


def require_same_ids(submission: pd.DataFrame, answers: pd.DataFrame, on: str | list[str]) -> None:
    """Raise InvalidSubmission unless the submission has the ids of the answers and no others. Ids can be repeated.

    >>> require_same_ids(pd.DataFrame({"id": ["a", "a", "b"]}), pd.DataFrame({"id": ["a", "b"]}), on="id")
    """
    columns = keys(on)
    require_columns(submission, columns)
    alignment(submission[columns].drop_duplicates(), answers[columns].drop_duplicates(), on)


def isin(values: pd.Series[Any], others: pd.Series[Any]) -> pd.Series[bool]:
    """Return which values are among the others, as pandas' ``isin`` does, but several times as fast for strings.

    >>> isin(pd.Series(["a", "b"]), pd.Series(["b", "c"])).tolist()
    [False, True]
    """
    return pd.Series(_places(pd.Index(values), pd.Index(others.unique())) >= 0, index=values.index)


def keys(on: str | list[str]) -> list[str]:
    """Return the id columns as a list."""
    return [on] if isinstance(on, str) else on


def _match(index: pd.Index[Any], wanted: pd.Index[Any]) -> NDArray[np.int32] | None:
    """Fast ``alignment`` for integers and strings; None if the ids differ, are not distinct, or are of another type."""
    if len(index) != len(wanted) or index.dtype != wanted.dtype:
        return None
    if index.dtype in (np.int64, np.uint64):
        return _match_numbers(index.to_numpy().view(np.uint64), wanted.to_numpy().view(np.uint64))
    if pa is None or not isinstance(index.dtype, pd.StringDtype):
        return None
    texts, wanted_texts = (pa.array(ids, type=pa.large_string()) for ids in (index, wanted))
    texts, wanted_texts = (ids if isinstance(ids, pa.Array) else ids.combine_chunks() for ids in (texts, wanted_texts))
    if (longest := _longest(wanted_texts)) > _MAX_BYTES or _longest(texts) != longest:
        return None
    order = _match_numbers(_hashes(texts, longest), _hashes(wanted_texts, longest))
    if order is None:
        return None
    for start in range(0, len(order), _ROWS):  # different strings may have the same hash
        if texts.take(pa.array(order[start : start + _ROWS])) != wanted_texts.slice(start, _ROWS):
            return None
    return order


def _match_numbers(numbers: NDArray[np.uint64], wanted: NDArray[np.uint64]) -> NDArray[np.int32] | None:
    """Return the position of each wanted number, or None if the numbers are not the same and distinct.

    Uses a hash table without chains: each slot keeps the last number with that hash. Numbers that lose their slot are
    matched again in a smaller table with another hash. This needs less time and memory than sorting. Positions have 32
    bits, because most of the time is spent on writing to new memory.
    """
    order = np.full(len(wanted), -1, dtype=np.int32)
    places = rows = np.empty(0, dtype=np.int32)  # positions of the numbers that the first table did not match
    for multiplier in _MULTIPLIERS:
        bits = len(wanted).bit_length() + 1
        shift = np.uint64(64 - bits)
        table = np.zeros(1 << bits, dtype=np.int32)
        for start in range(0, len(wanted), _ROWS):
            part = wanted[start : start + _ROWS] * multiplier >> shift
            table[part.view(np.int64)] = np.arange(start, start + len(part), dtype=np.int32)
        lost = []
        for start in range(0, len(numbers), _ROWS):
            part = numbers[start : start + _ROWS]
            found = table.take((part * multiplier >> shift).view(np.int64))
            is_same = wanted.take(found) == part
            same, found = _where(is_same, start), found[is_same]
            order[places[found] if len(places) else found] = rows[same] if len(rows) else same
            lost.append(_where(~is_same, start))
        del table
        others = np.concatenate([np.empty(0, dtype=np.int32), *lost])
        left = _where((order[places] if len(places) else order) < 0)
        if not len(left) and not len(others):
            return order
        if len(others) != len(left) or len(others) == len(numbers):
            return None
        numbers, wanted = numbers[others], wanted[left]
        rows, places = rows[others] if len(rows) else others, places[left] if len(places) else left
    return None


def _where(condition: NDArray[np.bool_], start: int = 0) -> NDArray[np.int32]:
    """Return the positions of the true values, plus ``start``."""
    return np.flatnonzero(condition).astype(np.int32) + np.int32(start)


def _hashes(texts: Any, longest: int) -> NDArray[np.uint64]:
    """Return a hash of each string in an Arrow array; no string has more than ``longest`` bytes."""
    offsets = np.frombuffer(texts.buffers()[1], dtype=np.int64)[texts.offset :][: len(texts) + 1]
    content = np.frombuffer(texts.buffers()[2] or b"", dtype=np.uint8)
    hashes = np.empty(len(texts), dtype=np.uint64)
    for start in range(0, len(texts), _ROWS):
        ends = offsets[start : start + _ROWS + 1]
        block = np.zeros(ends[-1] - ends[0] + longest + 8, dtype=np.uint8)
        block[: ends[-1] - ends[0]] = content[ends[0] : ends[-1]]
        words = np.ndarray(len(block) - 7, dtype=np.uint64, buffer=block, strides=(1,))  # eight bytes from each byte on
        begins, lengths = ends[:-1] - ends[0], np.diff(ends)
        mixed = lengths.astype(np.uint64)
        for byte in range(0, longest, 8):
            mixed ^= words[begins + byte] & _FIRST_BYTES.take(lengths - byte, mode="clip")
            mixed *= _MULTIPLIERS[0]
            mixed ^= mixed >> np.uint64(32)
        hashes[start : start + _ROWS] = mixed
    return hashes


def _longest(texts: Any) -> int:
    """Return the length in bytes of the longest string; ``sys.maxsize`` if one is missing."""
    return sys.maxsize if texts.null_count else pc.max(pc.binary_length(texts)).as_py() or 0


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
    """Return the position of each id among the wanted ids, or -1."""
    if pa is not None and isinstance(index.dtype, pd.StringDtype) and index.dtype == wanted.dtype:
        places = pc.index_in(pa.array(index), value_set=pa.array(wanted))  # many times as fast as a pandas index
        return np.asarray(places.fill_null(-1), dtype=np.intp)
    return wanted.get_indexer(index)


def _same_kind(left: pd.Index[Any], right: pd.Index[Any]) -> bool:
    is_numeric = pd.api.types.is_numeric_dtype
    return left.dtype == right.dtype or (is_numeric(left) and is_numeric(right))


def _index(table: pd.DataFrame, keys: list[str]) -> pd.Index[Any]:
    return pd.Index(table[keys[0]]) if len(keys) == 1 else pd.MultiIndex.from_frame(table[keys])
