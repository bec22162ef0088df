"""Metrics of sound tagging."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
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


def precisions_and_labels(y_true: ArrayLike, y_score: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Of which ``lwlrap`` is the ratio of sums: for each clip its precisions, summed, and the number of its labels.

    >>> precisions_and_labels([[1, 0, 1], [0, 1, 0]], [[0.9, 0.5, 0.1], [0.2, 0.7, 0.7]])[1]
    array([2, 1])
    """
    truth, scores = np.asarray(y_true) > 0, np.asarray(y_score, dtype=np.float64)
    places = pd.DataFrame(-scores).rank(axis=1, method="max").to_numpy()
    true_places = pd.DataFrame(np.where(truth, -scores, np.nan)).rank(axis=1, method="max").to_numpy()
    return np.nansum(true_places / places, axis=1), truth.sum(axis=1)
