"""Metrics of ranked lists and of rank correlation."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Hashable, Iterable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray


def mean_average_precision_at_k(
    relevant: Sequence[Collection[Hashable]], ranked: Sequence[Sequence[Hashable]], k: int
) -> float:
    """Mean over queries of AP@k = Σ P(i)·rel(i) / min(number of relevant items, k), for places i = 1 … k.

    ``relevant`` holds each query's relevant items (repetitions do not matter), ``ranked`` its predicted ones, best
    first; what stands behind place k is ignored. P(i) is the share of hits among the first i places, rel(i) is 1 if
    the item at place i is relevant and stands at no earlier place. Range [0, 1], 1 is perfect; a query without
    relevant items counts 0. With one relevant item AP@k is 1/i for the place i at which it is found.
    Source: Manning, Raghavan and Schütze, Introduction to Information Retrieval, 8.4; the cut at k as on Kaggle.

    >>> mean_average_precision_at_k([{"a"}, {"a", "b"}], [["b", "a"], ["a", "c", "b"]], k=5)
    0.6666666666666666
    """
    return float(average_precisions_at_k(relevant, ranked, k).mean())


def average_precisions_at_k(
    relevant: Sequence[Collection[Hashable]], ranked: Sequence[Sequence[Hashable]], k: int
) -> NDArray[np.float64]:
    """The AP@k of which ``mean_average_precision_at_k`` is the mean: shape (queries,)."""
    if len(relevant) != len(ranked):
        raise ValueError(f"{len(relevant)} queries have relevant items, {len(ranked)} have predictions")
    relevant = [set(items) for items in relevant]
    lists = [items[:k] for items in ranked]
    true_row, _ = _rows_and_places(relevant)
    row, place = _rows_and_places(lists)
    codes, items = pd.factorize(np.fromiter(chain(*relevant, *lists), dtype=object), use_na_sentinel=False)
    keys = np.concatenate([true_row, row]) * max(len(items), 1) + codes  # one number for each pair of query and item
    true_keys, keys = keys[: len(true_row)], keys[len(true_row) :]
    hit = np.isin(keys, true_keys) & ~pd.Series(keys).duplicated().to_numpy()
    hits = np.zeros((len(lists), k), dtype=np.int64)
    hits[row[hit], place[hit]] = 1
    precision = hits.cumsum(axis=1) / np.arange(1, k + 1)
    size = np.bincount(true_row, minlength=len(lists))
    return np.asarray((precision * hits).sum(axis=1) / np.clip(size, 1, k))


def _rows_and_places(lists: Sequence[Collection[Hashable]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each item of all lists, one after another, the list's number and the item's place in it, from 0."""
    lengths = np.fromiter(map(len, lists), dtype=np.int64, count=len(lists))
    row = np.repeat(np.arange(len(lists)), lengths)
    return row, np.arange(len(row)) - (lengths.cumsum() - lengths)[row]


def lwlrap(y_true: ArrayLike, y_score: ArrayLike) -> float:
    """Label-weighted label-ranking average precision: the mean precision at a true label, over all (clip, label) pairs.

    ``y_true`` and ``y_score`` have shape (clips, labels), the former 0 or 1. The precision at a label is the share of
    true labels among the clip's labels that score at least as high, so equal scores count against the prediction.
    Range (0, 1], 1 is perfect; clips without labels do not count. NaN if there is no label at all.
    Source: Fonseca et al., Audio tagging with noisy labels and minimal supervision, DCASE 2019, section 4.1.

    >>> round(lwlrap([[1, 0, 1], [0, 1, 0]], [[0.9, 0.5, 0.1], [0.2, 0.7, 0.7]]), 4)
    0.7222
    """
    from sklearn.metrics import label_ranking_average_precision_score

    truth = np.asarray(y_true)
    labels = truth.sum(axis=1)
    counted = labels > 0
    if not counted.any():
        return float("nan")
    scores = np.asarray(y_score)[counted]
    # scikit-learn's metric takes the mean of each clip first: weights undo that
    return float(label_ranking_average_precision_score(truth[counted], scores, sample_weight=labels[counted]))


def precisions_and_labels(y_true: ArrayLike, y_score: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Of which ``lwlrap`` is the ratio of sums: for each clip its precisions, summed, and the number of its labels.

    >>> precisions_and_labels([[1, 0, 1], [0, 1, 0]], [[0.9, 0.5, 0.1], [0.2, 0.7, 0.7]])[1]
    array([2, 1])
    """
    truth, scores = np.asarray(y_true) > 0, np.asarray(y_score, dtype=np.float64)
    places = pd.DataFrame(-scores).rank(axis=1, method="max").to_numpy()
    true_places = pd.DataFrame(np.where(truth, -scores, np.nan)).rank(axis=1, method="max").to_numpy()
    return np.nansum(true_places / places, axis=1), truth.sum(axis=1)


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
