"""Metrics of strings, of the words in them, and of sets of labels such as tags."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cpdist


def mean_levenshtein_distance(y_true: Sequence[str], y_pred: Sequence[str]) -> float:
    """Mean over rows of the least number of insertions, deletions and substitutions between two strings.

    Both have shape (rows,), at least one row. Characters are Unicode code points: case counts and nothing is
    normalised. Range [0, ∞), 0 is perfect. Source: Levenshtein, Binary codes capable of correcting deletions,
    insertions, and reversals, 1966.

    >>> mean_levenshtein_distance(["kitten", "same"], ["sitting", "same"])
    1.5
    """
    return float(cpdist(y_true, y_pred, scorer=Levenshtein.distance, dtype=np.int64).mean())


def word_jaccard(y_true: Sequence[str], y_pred: Sequence[str], *, zero_division: float = 0.0) -> NDArray[np.float64]:
    """For each row |A ∩ B| / |A ∪ B|, where A and B are the sets of words of the two strings.

    Words are parted by Unicode white space and compared in lower case; punctuation belongs to its word. Shapes (rows,).
    Range [0, 1], 1 is perfect; ``zero_division`` where neither string has a word. Source: Jaccard, The distribution
    of the flora in the alpine zone, 1912.

    >>> word_jaccard(["so happy today", ""], ["Happy today !", ""])
    array([0.5, 0. ])
    """
    return np.array(
        [
            _jaccard(set(true.lower().split()), set(predicted.lower().split()), zero_division)
            for true, predicted in zip(y_true, y_pred, strict=True)
        ],
        dtype=np.float64,
    )


def micro_f1(
    y_true: Iterable[Collection[Hashable]],
    y_pred: Iterable[Collection[Hashable]],
    *,
    labels: Collection[Hashable] | None = None,
) -> float:
    """2·TP / (2·TP + FP + FN), where true and false positives and false negatives are counted over all rows.

    Each row is a set of labels (any collection: repeated labels count once). With ``labels`` only these count, as in
    scikit-learn's ``f1_score(average="micro")`` on binarised labels, which this equals without building the matrices.
    Range [0, 1], 1 is perfect; 0 if there is no label on either side. Source: van Rijsbergen, Information Retrieval,
    1979, chapter 7.

    >>> micro_f1([{"python", "list"}, {"c#"}], [{"python"}, {"c#", "java"}])
    0.6666666666666666
    """
    allowed = None if labels is None else frozenset(labels)
    hits = total = 0
    for true, predicted in zip(y_true, y_pred, strict=True):
        wanted, given = (
            (set(true), set(predicted))
            if allowed is None
            else (allowed.intersection(true), allowed.intersection(predicted))
        )
        hits += len(wanted & given)
        total += len(wanted) + len(given)
    return 2 * hits / total if total else 0.0


def _jaccard(true: set[str], predicted: set[str], zero_division: float) -> float:
    common = len(true & predicted)
    union = len(true) + len(predicted) - common
    return common / union if union else zero_division
