"""Metrics of strings, of words and of other sequences."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cpdist


def mean_levenshtein_distance(y_true: Iterable[str], y_pred: Iterable[str]) -> float:
    """Mean Levenshtein distance: minimum number of insertions, deletions and substitutions, averaged over rows.

    Both have shape (rows,), with at least one row. Characters are Unicode code points, case-sensitive and not
    normalised. Range [0, ∞), 0 is perfect. Source: Levenshtein, Binary codes capable of correcting deletions,
    insertions, and reversals, 1966.

    >>> mean_levenshtein_distance(["kitten", "same"], ["sitting", "same"])
    1.5
    """
    return float(levenshtein_distances(y_true, y_pred).mean())


def levenshtein_distances(y_true: Iterable[str], y_pred: Iterable[str]) -> NDArray[np.int64]:
    """Return the distance of each row, whose mean is ``mean_levenshtein_distance``: shape (rows,)."""
    return np.asarray(cpdist(_strings(y_true), _strings(y_pred), scorer=Levenshtein.distance, dtype=np.int64))


def word_error_rate(true: Sequence[Sequence[Hashable]], predicted: Sequence[Sequence[Hashable]]) -> float:
    """Word error rate: sum of Levenshtein distances between sequences of words, divided by the number of true words.

    Both have the same length, and there must be a true word; words can be any hashable values. Range [0, ∞), 0 is
    perfect; errors can exceed the number of words. Source: Jurafsky and Martin, Speech and Language Processing, 16.5.

    >>> word_error_rate([[9, 12], [3, 1, 4]], [[5, 9, 9, 12], [3, 4]])
    0.6
    """
    distances = (Levenshtein.distance(left, right) for left, right in zip(true, predicted, strict=True))
    return sum(distances) / sum(map(len, true))


def word_jaccard(y_true: Iterable[str], y_pred: Iterable[str], *, zero_division: float = 0.0) -> NDArray[np.float64]:
    """Jaccard index of words: for each row |A ∩ B| / |A ∪ B|, where A and B are the sets of words of the two strings.

    Both have shape (rows,), and so does the result. Words are separated by Unicode whitespace and compared in lower
    case; punctuation is part of a word. Range [0, 1], 1 is perfect; ``zero_division`` if neither string has a word.
    Source: Jaccard, The distribution of the flora in the alpine zone, 1912.

    >>> word_jaccard(["so happy today", ""], ["Happy today !", ""])
    array([0.5, 0. ])
    """
    return np.array(
        [
            _jaccard(set(true.lower().split()), set(predicted.lower().split()), zero_division)
            for true, predicted in zip(_strings(y_true), _strings(y_pred), strict=True)
        ],
        dtype=np.float64,
    )


def _jaccard(true: set[str], predicted: set[str], zero_division: float) -> float:
    common = len(true & predicted)
    union = len(true) + len(predicted) - common
    return common / union if union else zero_division


def _strings(values: Iterable[str]) -> list[str]:
    # Iterating over a pandas column is many times slower.
    return values.tolist() if isinstance(values, pd.Series) else list(values)
