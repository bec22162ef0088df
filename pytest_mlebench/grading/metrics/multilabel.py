"""Metrics of sets of labels."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from collections.abc import Set as AbstractSet


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
