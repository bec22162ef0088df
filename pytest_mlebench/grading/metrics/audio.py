"""Metrics of sound tagging."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import label_ranking_average_precision_score


def lwlrap(y_true: ArrayLike, y_score: ArrayLike) -> float:
    """Label-weighted label-ranking average precision: the mean precision at a true label, over all (clip, label) pairs.

    ``y_true`` and ``y_score`` have shape (clips, labels), the former 0 or 1. The precision at a label is the share of
    true labels among the clip's labels that score at least as high, so equal scores count against the prediction.
    Range (0, 1], 1 is perfect; clips without labels do not count. NaN if there is no label at all.
    Source: Fonseca et al., Audio tagging with noisy labels and minimal supervision, DCASE 2019, section 4.1.

    >>> round(lwlrap([[1, 0, 1], [0, 1, 0]], [[0.9, 0.5, 0.1], [0.2, 0.7, 0.7]]), 4)
    0.7222
    """
    truth = np.asarray(y_true)
    labels = truth.sum(axis=1)
    counted = labels > 0
    if not counted.any():
        return float("nan")
    scores = np.asarray(y_score)[counted]
    # scikit-learn's metric takes the mean of each clip first: weights undo that
    return float(label_ranking_average_precision_score(truth[counted], scores, sample_weight=labels[counted]))
