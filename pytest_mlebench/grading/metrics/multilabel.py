"""Metrics of sets of labels."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

_NOT_ASCII_SPACE = "[\x1c-\x1f]"
"""White space to Python, but not to Arrow."""


def f1_micro_of_texts(y_true: Sequence[str], y_pred: Sequence[str], *, ignore_unseen: bool = False) -> float:
    """``f1_micro`` of rows of labels that white space separates, in a fraction of the time.

    >>> f1_micro_of_texts(["rust", "scab  rust"], ["rust scab", " scab"])
    0.6666666666666666
    """
    if len(y_true) != len(y_pred):
        raise ValueError(f"{len(y_true)} true rows and {len(y_pred)} predicted ones")
    (rows, labels), (predicted_rows, predicted_labels) = _split(y_true), _split(y_pred)
    coded = pa.concat_arrays([labels, predicted_labels]).dictionary_encode()
    codes, many = np.asarray(coded.indices, dtype=np.int64), len(coded.dictionary)
    code, predicted_code = codes[: len(labels)], codes[len(labels) :]
    if ignore_unseen:
        is_seen = np.zeros(many, dtype=bool)
        is_seen[code] = True
        kept = is_seen[predicted_code]
        predicted_rows, predicted_code = predicted_rows[kept], predicted_code[kept]
    true_pairs, pairs = _distinct(rows * many + code), _distinct(predicted_rows * many + predicted_code)
    total = len(true_pairs) + len(pairs)
    both = np.sort(np.concatenate([true_pairs, pairs]))
    return 2 * int((both[1:] == both[:-1]).sum()) / total if total else 0.0


def _distinct(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """numpy's ``unique``, several times as fast for millions."""
    numbers = np.sort(numbers)
    return numbers[np.append(numbers[1:] != numbers[:-1], True)] if len(numbers) else numbers


def _split(texts: Sequence[str]) -> tuple[NDArray[np.int64], pa.Array]:
    """All labels of the texts, and the row of each."""
    array = pa.array(texts, type=pa.large_string())
    array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    if (
        pc.all(pc.string_is_ascii(array)).as_py()
        and not pc.any(pc.match_substring_regex(array, _NOT_ASCII_SPACE)).as_py()
    ):
        lists = pc.ascii_split_whitespace(array)
        labels = lists.flatten()
        rows = np.asarray(pc.list_parent_indices(lists), dtype=np.int64)
        is_label = pc.not_equal(labels, "")  # before the first and after the last blank
        return rows[np.asarray(is_label)], labels.filter(is_label)
    parts = [text.split() for text in texts]
    rows = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    return rows, pa.array(list(chain.from_iterable(parts)), type=pa.large_string())


def f1_micro(
    y_true: Sequence[AbstractSet[Hashable]],
    y_pred: Sequence[AbstractSet[Hashable]],
    *,
    ignore_unseen: bool = False,
) -> float:
    """Micro-averaged F1 = 2·TP / (2·TP + FP + FN) over all pairs of row and label.

    Both hold one set of labels a row. Range [0, 1], 1 is perfect; 0 where nothing is true or predicted. With
    ``ignore_unseen`` a predicted label that is true in no row costs nothing. This is scikit-learn's
    ``f1_score(average="micro")`` of binarised labels, without a matrix of all rows and labels.
    Source: Manning, Raghavan and Schütze, Introduction to Information Retrieval, 13.6.

    >>> f1_micro([{"rust"}, {"scab", "rust"}], [{"rust", "scab"}, {"scab"}])
    0.6666666666666666
    >>> f1_micro([{"rust"}], [{"rust", "mosaic"}], ignore_unseen=True)
    1.0
    """
    if ignore_unseen:
        seen = frozenset().union(*y_true)
        y_pred = [labels & seen for labels in y_pred]
    hits = sum(len(true & predicted) for true, predicted in zip(y_true, y_pred, strict=True))
    total = sum(map(len, y_true)) + sum(map(len, y_pred))
    return 2 * hits / total if total else 0.0
