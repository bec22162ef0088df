"""Metrics of texts and other sequences."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from rapidfuzz.distance import Levenshtein


def mean_levenshtein_distance(true: Sequence[str], predicted: Sequence[str]) -> float:
    """Mean over pairs of the least number of insertions, deletions and substitutions that turn one text into the other.

    Both have the same length. Counts Unicode code points; range [0, ∞), 0 is perfect.
    Source: Levenshtein, Binary codes capable of correcting deletions, insertions and reversals, 1966.

    >>> mean_levenshtein_distance(["kitten", "in"], ["sitting", "in"])
    1.5
    """
    distances = (Levenshtein.distance(left, right) for left, right in zip(true, predicted, strict=True))
    return sum(distances) / len(true)


def word_error_rate(true: Sequence[Sequence[Hashable]], predicted: Sequence[Sequence[Hashable]]) -> float:
    """Levenshtein distances between sequences of words, summed, divided by the number of true words.

    Both have the same length; words may be any hashable values. Range [0, ∞): it exceeds 1 where more is wrong than
    there are words. Source: Jurafsky and Martin, Speech and Language Processing, 16.5 (word error rate).

    >>> word_error_rate([[9, 12], [3, 1, 4]], [[5, 9, 9, 12], [3, 4]])
    0.6
    """
    distances = (Levenshtein.distance(left, right) for left, right in zip(true, predicted, strict=True))
    return sum(distances) / sum(map(len, true))
