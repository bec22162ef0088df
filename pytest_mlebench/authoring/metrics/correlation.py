"""Correlations: of orders, of ranks and of values."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray


def inversions(values: Iterable[Any]) -> int:
    """Pairs of values that stand in the wrong order: the swaps of neighbours that sorting takes. Ties are none.

    >>> inversions([2, 3, 1])
    2
    """
    count, ordered = 0, list[Any]()
    for seen, value in enumerate(values):
        position = bisect_right(ordered, value)
        count += seen - position
        ordered.insert(position, value)
    return count


def kendall_tau(y_true: Sequence[Sequence[Hashable]], y_pred: Sequence[Sequence[Hashable]]) -> float:
    """Kendall's τ of predicted orders, pooled over the lists: 1 − 4 Σ S / Σ n(n − 1).

    Each list of ``y_pred`` holds the n items of its counterpart, each once (ValueError otherwise); S is the number of
    pairs in the wrong order. Range [−1, 1]: 1 is the true order, −1 its reverse; NaN if no list has two items.
    Source: Kendall, A new measure of rank correlation, 1938.

    >>> kendall_tau([["a", "b", "c"], ["x", "y"]], [["b", "a", "c"], ["x", "y"]])
    0.5
    """
    swaps = pairs = 0
    for true, predicted in zip(y_true, y_pred, strict=True):
        rank = {item: position for position, item in enumerate(true)}
        if len(predicted) != len(true) or rank.keys() != set(predicted):
            raise ValueError("predicted and true lists must hold the same items, each once")
        swaps += inversions(rank[item] for item in predicted)
        pairs += len(true) * (len(true) - 1)
    return 1 - 4 * swaps / pairs if pairs else float("nan")


def pearson(y_true: ArrayLike, y_pred: ArrayLike) -> NDArray[np.float64]:
    """Pearson's r of each column: shapes (rows,) or (rows, columns), result () or (columns,).

    Range [−1, 1], 1 is perfect. NaN for a column that is constant or holds a missing or infinite value on either
    side. Unlike scipy's ``pearsonr`` it gives no warning, and takes several columns at once. Source: Pearson, Notes
    on regression and inheritance in the case of two parents, 1895.

    >>> pearson([0, 1, 2, 3], [1, 3, 5, 7])
    array(1.)
    >>> pearson([[0, 1], [1, 1], [2, 2]], [[5, 1], [5, 1], [5, 2]])
    array([nan,  1.])
    """
    product = (_standardise(y_true) * _standardise(y_pred)).sum(axis=0)
    return np.asarray(np.clip(product, -1, 1), dtype=np.float64)


def spearman(y_true: Any, y_pred: Any) -> NDArray[np.float64]:
    """Spearman's ρ of each column: Pearson's r of the ranks, where ties share their mean rank.

    Shapes, range and NaN as for ``pearson``, except that infinite values have a rank like any other; columns of text
    rank in code point order. Source: Spearman, The proof and measurement of association between two things, 1904.

    >>> spearman([1, 2, 3, 4], [1, 4, 9, 8])
    array(0.8)
    """
    return pearson(_ranks(y_true), _ranks(y_pred))


def _ranks(values: Any) -> NDArray[np.float64]:
    table = values if isinstance(values, pd.DataFrame | pd.Series) else pd.DataFrame(values)
    ranks = table.rank().to_numpy(dtype=np.float64)
    return ranks.reshape(np.shape(values))


def _standardise(values: ArrayLike) -> NDArray[np.float64]:
    """Columns with mean 0 and norm 1, NaN where there is no such thing."""
    array = np.asarray(values, dtype=np.float64)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        centred = array - array.mean(axis=0)
        centred = centred / np.abs(centred).max(axis=0, initial=0)  # squares of huge values would overflow
        norm = np.sqrt((centred**2).sum(axis=0))
        constant = (array == array[:1]).all(axis=0)  # whose mean may be off by a rounding error
        return np.where(constant, np.nan, centred / norm)
