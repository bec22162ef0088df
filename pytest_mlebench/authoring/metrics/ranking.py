"""Metrics of ranked lists."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from itertools import chain

import numpy as np
import pandas as pd
from numpy.typing import NDArray


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
