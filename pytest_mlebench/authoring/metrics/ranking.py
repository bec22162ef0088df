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
    """MAP@k: mean over queries of AP@k = Σ P(i)·rel(i) / min(number of relevant items, k), for ranks i = 1 … k.

    ``relevant`` has the relevant items of each query (duplicates are ignored), ``ranked`` its predicted items, best
    first; items after rank k are ignored. P(i) is the share of hits among the first i items; rel(i) is 1 if item i is
    relevant and not a repetition, else 0. Range [0, 1], 1 is perfect; a query without relevant items counts as 0. With
    one relevant item, AP@k is 1/i if it has rank i. Raises ValueError if the numbers of queries differ.
    Source: Manning, Raghavan and Schütze, Introduction to Information Retrieval, 8.4; the cut at k is Kaggle's.

    >>> mean_average_precision_at_k([{"a"}, {"a", "b"}], [["b", "a"], ["a", "c", "b"]], k=5)
    0.6666666666666666
    """
    return float(average_precisions_at_k(relevant, ranked, k).mean())


def average_precisions_at_k(
    relevant: Sequence[Collection[Hashable]], ranked: Sequence[Sequence[Hashable]], k: int
) -> NDArray[np.float64]:
    """Return the AP@k of each query, whose mean is ``mean_average_precision_at_k``: shape (queries,)."""
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
    """Return the list's index and the position in the list for each item of the concatenated lists."""
    lengths = np.fromiter(map(len, lists), dtype=np.int64, count=len(lists))
    row = np.repeat(np.arange(len(lists)), lengths)
    return row, np.arange(len(row)) - (lengths.cumsum() - lengths)[row]


def lwlrap(y_true: ArrayLike, y_score: ArrayLike) -> float:
    """Label-weighted label-ranking average precision: the mean precision at a true label, over all (clip, label) pairs.

    ``y_true`` (0 or 1) and ``y_score`` have shape (clips, labels). The precision at a label is the share of true labels
    among the clip's labels with at least its score, so that ties count against the prediction. Range (0, 1], 1 is
    perfect; clips without labels are ignored. NaN if there are no labels.
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
    # scikit-learn's metric averages over each clip's labels first; the weights undo this.
    return float(label_ranking_average_precision_score(truth[counted], scores, sample_weight=labels[counted]))


def precisions_and_labels(y_true: ArrayLike, y_score: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the terms of ``lwlrap``, the ratio of their sums: each clip's sum of precisions, and number of labels.

    >>> precisions_and_labels([[1, 0, 1], [0, 1, 0]], [[0.9, 0.5, 0.1], [0.2, 0.7, 0.7]])[1]
    array([2, 1])
    """
    truth, scores = np.asarray(y_true) > 0, np.asarray(y_score, dtype=np.float64)
    places = pd.DataFrame(-scores).rank(axis=1, method="max").to_numpy()
    true_places = pd.DataFrame(np.where(truth, -scores, np.nan)).rank(axis=1, method="max").to_numpy()
    return np.nansum(true_places / places, axis=1), truth.sum(axis=1)


def inversions(values: Iterable[Any]) -> int:
    """Count the pairs of values in the wrong order: the swaps of neighbours needed for sorting. Ties do not count.

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
    """Kendall's τ of predicted orders, pooled over lists: 1 − 4 Σ S / Σ n(n − 1).

    S is the number of pairs in the wrong order in a list of n items. Raises ValueError unless each list of ``y_pred``
    has the items of the true list, each once. Range [−1, 1]: 1 for the true order, −1 for its reverse; NaN if no list
    has two items. Source: Kendall, A new measure of rank correlation, 1938.

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

    Range [−1, 1], 1 is perfect; NaN if a column is constant, or has a missing or infinite value, in either array.
    Unlike scipy's ``pearsonr``, it issues no warnings, and accepts several columns. Source: Pearson, Notes on
    regression and inheritance in the case of two parents, 1895.

    >>> pearson([0, 1, 2, 3], [1, 3, 5, 7])
    array(1.)
    >>> pearson([[0, 1], [1, 1], [2, 2]], [[5, 1], [5, 1], [5, 2]])
    array([nan,  1.])
    """
    product = (_standardise(y_true) * _standardise(y_pred)).sum(axis=0)
    return np.asarray(np.clip(product, -1, 1), dtype=np.float64)


def spearman(y_true: Any, y_pred: Any) -> NDArray[np.float64]:
    """Spearman's ρ of each column: Pearson's r of the ranks, where ties get their mean rank.

    Shapes, range and NaN are as for ``pearson``, but infinite values are ranked. Strings are ranked by code points.
    Source: Spearman, The proof and measurement of association between two things, 1904.

    >>> spearman([1, 2, 3, 4], [1, 4, 9, 8])
    array(0.8)
    """
    return pearson(_ranks(y_true), _ranks(y_pred))


def _ranks(values: Any) -> NDArray[np.float64]:
    table = values if isinstance(values, pd.DataFrame | pd.Series) else pd.DataFrame(values)
    ranks = table.rank().to_numpy(dtype=np.float64)
    return ranks.reshape(np.shape(values))


def _standardise(values: ArrayLike) -> NDArray[np.float64]:
    """Scale columns to mean 0 and norm 1; NaN if this is not possible."""
    array = np.asarray(values, dtype=np.float64)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        centred = array - array.mean(axis=0)
        centred = centred / np.abs(centred).max(axis=0, initial=0)  # squares of huge values would overflow
        norm = np.sqrt((centred**2).sum(axis=0))
        constant = (array == array[:1]).all(axis=0)  # their means may have rounding errors
        return np.where(constant, np.nan, centred / norm)
