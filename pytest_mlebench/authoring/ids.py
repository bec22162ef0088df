"""Pairing a submission's rows with those of the answers by their ids, which must be the same on both sides."""

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
"""So many rows at a time: what is computed of them stays in the processor's cache."""
_LONGEST = 64
"""Bytes of a text up to which hashing all is sure to be worth it."""
_MULTIPLIERS = [np.uint64(0x9E3779B97F4A7C15 * 0xD1342543DE82EF95**power % 2**64) for power in range(24)]
"""Odd, of no pattern: the upper bits of their products are hashes."""
_FIRST_BYTES = np.array([256**count - 1 for count in range(9)], dtype=np.uint64)


def alignment(submission: pd.DataFrame, answers: pd.DataFrame, on: str | list[str]) -> NDArray[np.integer[Any]]:
    """For each row of the answers the position of the submission's row with the same id (column, or columns).

    Both must hold the same ids, each once. Ids compare as pandas reads them: 5.0 equals 5, ``"5"`` does not.

    >>> alignment(pd.DataFrame({"id": ["b", "a"]}), pd.DataFrame({"id": ["a", "b"]}), on="id").tolist()
    [1, 0]
    """
    columns = keys(on)
    require_columns(submission, columns)
    index, wanted = _index(submission, columns), _index(answers, columns)
    complete = not any(submission[column].isna().any() for column in columns)
    if complete and len(index) == len(wanted) and _same_kind(index, wanted) and (index == wanted).all():
        return np.arange(len(wanted))  # most submissions keep the order: sorting millions of ids takes long
    if complete and (order := _paired(index, wanted)) is not None:
        return order
    found = _positions(index, wanted, "/".join(columns), once=True)
    order = np.empty(len(found), dtype=np.intp)
    order[found] = np.arange(len(found))
    return order


def align(submission: pd.DataFrame, answers: pd.DataFrame, on: str | list[str]) -> pd.DataFrame:
    """The submission's rows in the order of the answers (see ``alignment``).

    Check values before: afterwards a reason can no longer name the row of the agent's file.

    >>> submission = pd.DataFrame({"id": ["b", "a"], "label": ["dog", "cat"]})
    >>> align(submission, pd.DataFrame({"id": ["a", "b"]}), on="id")["label"].tolist()
    ['cat', 'dog']
    """
    return submission.take(alignment(submission, answers, on)).reset_index(drop=True)


def answer_positions(submission: pd.DataFrame, answers: pd.DataFrame, on: str) -> NDArray[np.intp]:
    """For each row of the submission the position of the answers' row with the same id.

    For graders that let an id occur more than once: all must be ids of the answers, and none of these be missing.

    >>> answer_positions(pd.DataFrame({"id": ["b", "b", "a"]}), pd.DataFrame({"id": ["a", "b"]}), on="id").tolist()
    [1, 1, 0]
    """
    require_columns(submission, [on])
    return _positions(_index(submission, [on]), _index(answers, [on]), on)


def require_same_ids(submission: pd.DataFrame, answers: pd.DataFrame, on: str | list[str]) -> None:
    """The submission must hold the ids of the answers and no others; how often it holds one does not matter.

    >>> require_same_ids(pd.DataFrame({"id": ["a", "a", "b"]}), pd.DataFrame({"id": ["a", "b"]}), on="id")
    """
    columns = keys(on)
    require_columns(submission, columns)
    alignment(submission[columns].drop_duplicates(), answers[columns].drop_duplicates(), on)


def isin(values: pd.Series[Any], others: pd.Series[Any]) -> pd.Series[bool]:
    """Which of the values are among the others: pandas' ``isin``, several times as fast for text.

    >>> isin(pd.Series(["a", "b"]), pd.Series(["b", "c"])).tolist()
    [False, True]
    """
    return pd.Series(_places(pd.Index(values), pd.Index(others.unique())) >= 0, index=values.index)


def keys(on: str | list[str]) -> list[str]:
    """The id columns as a list, of one as of several."""
    return [on] if isinstance(on, str) else on


def _paired(index: pd.Index[Any], wanted: pd.Index[Any]) -> NDArray[np.int32] | None:
    """``alignment`` of integers or texts that are the same and distinct, else None: soon found for millions."""
    if len(index) != len(wanted) or index.dtype != wanted.dtype:
        return None
    if index.dtype in (np.int64, np.uint64):
        return _paired_numbers(index.to_numpy().view(np.uint64), wanted.to_numpy().view(np.uint64))
    if pa is None or not isinstance(index.dtype, pd.StringDtype):
        return None
    texts, wanted_texts = (pa.array(ids, type=pa.large_string()) for ids in (index, wanted))
    texts, wanted_texts = (ids if isinstance(ids, pa.Array) else ids.combine_chunks() for ids in (texts, wanted_texts))
    if (longest := _longest(wanted_texts)) > _LONGEST or _longest(texts) != longest:
        return None
    order = _paired_numbers(_hashes(texts, longest), _hashes(wanted_texts, longest))
    if order is None:
        return None
    for start in range(0, len(order), _ROWS):  # other texts may have the same hash
        if texts.take(pa.array(order[start : start + _ROWS])) != wanted_texts.slice(start, _ROWS):
            return None
    return order


def _paired_numbers(numbers: NDArray[np.uint64], wanted: NDArray[np.uint64]) -> NDArray[np.int32] | None:
    """For each of the wanted numbers the position of the same number, or None if they are not the same and distinct.

    A hash table without chains: each of its places keeps the last number that falls there. What finds another number
    in its place is looked for again in a smaller table, with another hash. Less time and memory than sorting; positions
    have 32 bits, since writing to millions of fresh places is what takes the time.
    """
    order = np.full(len(wanted), -1, dtype=np.int32)
    places = rows = np.empty(0, dtype=np.int32)  # of what is left after the first table
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


def _where(holds: NDArray[np.bool_], start: int = 0) -> NDArray[np.int32]:
    """The positions of what holds, counted from ``start``."""
    return np.flatnonzero(holds).astype(np.int32) + np.int32(start)


def _hashes(texts: Any, longest: int) -> NDArray[np.uint64]:
    """A number for each of the texts (an Arrow array), of which none has more than ``longest`` bytes."""
    offsets = np.frombuffer(texts.buffers()[1], dtype=np.int64)[texts.offset :][: len(texts) + 1]
    content = np.frombuffer(texts.buffers()[2] or b"", dtype=np.uint8)
    hashes = np.empty(len(texts), dtype=np.uint64)
    for start in range(0, len(texts), _ROWS):
        ends = offsets[start : start + _ROWS + 1]
        block = np.zeros(ends[-1] - ends[0] + longest + 8, dtype=np.uint8)
        block[: ends[-1] - ends[0]] = content[ends[0] : ends[-1]]
        words = np.ndarray(len(block) - 7, dtype=np.uint64, buffer=block, strides=(1,))  # eight bytes from each on
        begins, lengths = ends[:-1] - ends[0], np.diff(ends)
        mixed = lengths.astype(np.uint64)
        for byte in range(0, longest, 8):
            mixed ^= words[begins + byte] & _FIRST_BYTES.take(lengths - byte, mode="clip")
            mixed *= _MULTIPLIERS[0]
            mixed ^= mixed >> np.uint64(32)
        hashes[start : start + _ROWS] = mixed
    return hashes


def _longest(texts: Any) -> int:
    """The bytes of the longest of the texts; more than any limit if one is missing."""
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
