"""Metrics of the receiver operating characteristic that scikit-learn does not have."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import auc, roc_curve


def weighted_roc_auc(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    tpr_thresholds: Sequence[float] = (0.0, 0.4, 1.0),
    weights: Sequence[float] = (2.0, 1.0),
) -> float:
    """Area under the ROC curve, cut into horizontal strips by true positive rate that count with different weights.

    ``y_true`` (0 or 1, both must occur) and ``y_score`` (finite, higher means more likely 1) have shape (rows,).
    ``tpr_thresholds`` are the strips' edges from 0 to 1, ``weights`` one number for each strip. Each strip's area
    lies between the curve and false positive rate 1; where the curve crosses an edge between two of its points it
    is interpolated linearly. The weighted sum is divided by that of a perfect curve. Range [0, 1], 1 is perfect;
    with the default weights a constant score gives 0.82 / 1.4. With equal weights it is scikit-learn's
    ``roc_auc_score``. Source: evaluation of the ALASKA2 Image Steganalysis challenge (Cogranne, Giboulot and Bas,
    "ALASKA#2: Challenging Academic Research on Steganalysis with Realistic Images", 2020).

    >>> round(weighted_roc_auc([0, 1, 0, 1], [0.1, 0.4, 0.35, 0.8]), 4)
    1.0
    >>> round(weighted_roc_auc([0, 1], [0.5, 0.5]), 4)
    0.5857
    """
    fpr, tpr, _ = roc_curve(y_true, y_score, pos_label=1)
    for threshold in tpr_thresholds:
        if threshold not in tpr:
            place = int(np.searchsorted(tpr, threshold))
            between = np.interp(threshold, tpr[place - 1 : place + 1], fpr[place - 1 : place + 1])
            fpr, tpr = np.insert(fpr, place, between), np.insert(tpr, place, threshold)
    areas = []
    for low, high in pairwise(tpr_thresholds):
        inside = (low <= tpr) & (tpr <= high)
        areas.append(auc([*fpr[inside], 1.0], [*(tpr[inside] - low), high - low]))
    return float(np.dot(areas, weights) / np.dot(np.diff(tpr_thresholds), weights))
