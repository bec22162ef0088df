"""Metrics of class labels and probabilities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def log_loss(y_true: ArrayLike, y_prob: ArrayLike, *, eps: float = float(np.finfo(np.float64).eps)) -> float:
    """Log loss: mean over rows of −Σ y·ln(p), with p clipped to [eps, 1 − eps] and rows not rescaled.

    ``y_true`` and ``y_prob`` have shape (rows, classes); ``y_true`` is one-hot, or gives a weight to each class.
    Range [0, ∞), 0 is perfect. This equals scikit-learn's ``log_loss`` since version 1.5, but the columns can have any
    order. Source: Bishop, Pattern Recognition and Machine Learning, 4.3.4.

    >>> round(log_loss([[1, 0], [0, 1]], [[0.8, 0.2], [0.5, 0.5]]), 4)
    0.4581
    """
    return float(log_losses(y_true, y_prob, eps=eps).mean())


def log_losses(
    y_true: ArrayLike, y_prob: ArrayLike, *, eps: float = float(np.finfo(np.float64).eps)
) -> NDArray[np.float64]:
    """Return the loss of each row, whose mean is ``log_loss``: shape (rows,)."""
    truth = np.asarray(y_true, dtype=np.float64)
    probability = np.clip(np.asarray(y_prob, dtype=np.float64), eps, 1 - eps)
    return np.asarray(-(truth * np.log(probability)).sum(axis=1))


def binary_log_losses(y_true: ArrayLike, y_prob: ArrayLike) -> NDArray[np.float64]:
    """Return the ``log_losses`` of binary labels ``y_true`` and probabilities of label 1: all have shape (rows,)."""
    sides = (np.asarray(values, dtype=np.float64) for values in (y_true, y_prob))
    return log_losses(*(np.column_stack([1 - values, values]) for values in sides))


def matthews_corrcoef(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """Matthews correlation coefficient of class labels, for any number of classes.

    Both have shape (rows,). Range [-1, 1], 1 is perfect; 0 if either array has a single class. This equals
    scikit-learn's ``matthews_corrcoef``, but needs no matrix of all pairs of labels.
    Source: Gorodkin, Comparing two K-category assignments by a K-category correlation coefficient, 2004.

    >>> round(matthews_corrcoef([0, 0, 1, 2], [0, 1, 1, 2]), 4)
    0.7
    """
    truth, predicted = np.asarray(y_true), np.asarray(y_pred)
    true_counts, counts = _counts(truth), _counts(predicted)
    rows, correct = float(len(truth)), float((truth == predicted).sum())
    by_chance = float(sum(count * counts.get(label, 0) for label, count in true_counts.items()))
    squares = [rows**2 - float(sum(count**2 for count in side.values())) for side in (counts, true_counts)]
    product = squares[0] * squares[1]
    return float((correct * rows - by_chance) / np.sqrt(product)) if product else 0.0


def _counts(labels: NDArray[Any]) -> dict[Any, int]:
    values, counts = np.unique(labels, return_counts=True)
    return dict(zip(values.tolist(), counts.tolist(), strict=True))


def kl_divergence(p_true: ArrayLike, p_pred: ArrayLike, *, eps: float = 1e-15) -> float:
    """Kullback-Leibler divergence from predicted to true distributions: mean over rows of Σ t·ln(t / p).

    Both have shape (rows, classes). p is clipped to [eps, 1 − eps] and rows are not rescaled; classes with t = 0 add
    nothing. Range [0, ∞) if rows sum to 1 (apart from clipping), 0 is perfect.
    Source: Kullback and Leibler, On information and sufficiency, 1951.

    >>> round(kl_divergence([[0.5, 0.5], [1, 0]], [[0.25, 0.75], [1, 0]]), 4)
    0.0719
    """
    return float(kl_divergences(p_true, p_pred, eps=eps).mean())


def kl_divergences(p_true: ArrayLike, p_pred: ArrayLike, *, eps: float = 1e-15) -> NDArray[np.float64]:
    """Return the divergence of each row, whose mean is ``kl_divergence``: shape (rows,)."""
    from scipy.special import rel_entr

    predicted = np.clip(np.asarray(p_pred, dtype=np.float64), eps, 1 - eps)
    return np.asarray(rel_entr(np.asarray(p_true, dtype=np.float64), predicted).sum(axis=1))


def laplace_log_likelihood(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    scale: ArrayLike,
    *,
    min_scale: float = 0.0,
    max_error: float = math.inf,
) -> float:
    """Mean log density of Laplace distributions with standard deviations σ: −√2·Δ/σ − ln(√2·σ), averaged over rows.

    All have shape (rows,). Δ is min(\\|y_true − y_pred\\|, ``max_error``), σ is max(``scale``, ``min_scale``), as in
    the modified score of the OSIC challenge. Range (−∞, ∞), higher is better; NaN if any value is missing.
    Source: Kotz, Kozubowski and Podgórski, The Laplace Distribution and Generalizations, 2001, 2.1 (with mean
    ``y_pred`` and variance σ²).

    >>> round(laplace_log_likelihood([2500, 2000], [2400, 2000], [100, 50], min_scale=70), 4)
    -5.4805
    """
    return float(np.mean(laplace_log_likelihoods(y_true, y_pred, scale, min_scale=min_scale, max_error=max_error)))


def laplace_log_likelihoods(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    scale: ArrayLike,
    *,
    min_scale: float = 0.0,
    max_error: float = math.inf,
) -> NDArray[np.float64]:
    """Return the log density of each row, whose mean is ``laplace_log_likelihood``: shape (rows,)."""
    error = np.minimum(np.abs(np.asarray(y_true, dtype=np.float64) - np.asarray(y_pred, dtype=np.float64)), max_error)
    sigma = np.maximum(np.asarray(scale, dtype=np.float64), min_scale)
    return np.asarray(-math.sqrt(2) * error / sigma - np.log(math.sqrt(2) * sigma))


def probabilistic_f1(y_true: ArrayLike, y_prob: ArrayLike) -> float:
    """Probabilistic F1 score, in which a predicted probability p counts as p positive predictions.

    ``y_true`` (0 or 1) and ``y_prob`` (in [0, 1]) have shape (rows,). Precision is the sum of p over positives, divided
    by the sum over all rows; recall is the sum over positives, divided by their number. Range [0, 1], 1 is perfect; 0
    if precision or recall is 0 or undefined.
    Source: Yacouby and Axman (2020), Probabilistic extension of precision, recall, and F1 score.

    >>> round(probabilistic_f1([1, 0, 1], [0.8, 0.4, 0.4]), 4)
    0.6667
    """
    truth, probability = np.asarray(y_true, dtype=np.float64), np.asarray(y_prob, dtype=np.float64)
    found = float((truth * probability).sum())
    return 2 * found / float(truth.sum() + probability.sum()) if found > 0 else 0.0


def weighted_log_loss(y_true: ArrayLike, y_prob: ArrayLike, weights: ArrayLike, *, eps: float = 1e-15) -> float:
    """Weighted binary log loss: mean over rows of the weighted mean over labels of −y·ln(p) − (1 − y)·ln(1 − p).

    All have shape (rows, labels). ``y_true`` is 0 or 1, p is ``y_prob`` clipped to [eps, 1 − eps], and ``weights`` are
    the labels' weights within each row. Range [0, ∞), 0 is perfect; p = 0.5 everywhere gives ln 2. Source: Bishop,
    Pattern Recognition and Machine Learning, 4.3.2 (binary cross-entropy).

    >>> round(weighted_log_loss([[1, 0]], [[0.5, 0.2]], [[3, 1]]), 4)
    0.5756
    """
    return float(weighted_log_losses(y_true, y_prob, weights, eps=eps).mean())


def weighted_log_losses(
    y_true: ArrayLike, y_prob: ArrayLike, weights: ArrayLike, *, eps: float = 1e-15
) -> NDArray[np.float64]:
    """Return the loss of each row, whose mean is ``weighted_log_loss``: shape (rows,)."""
    truth, weight = np.asarray(y_true, dtype=np.float64), np.asarray(weights, dtype=np.float64)
    probability = np.clip(np.asarray(y_prob, dtype=np.float64), eps, 1 - eps)
    loss = -(truth * np.log(probability) + (1 - truth) * np.log(1 - probability))
    return np.asarray((weight * loss).sum(axis=1) / weight.sum(axis=1))


def weighted_roc_auc(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    tpr_thresholds: Sequence[float] = (0.0, 0.4, 1.0),
    weights: Sequence[float] = (2.0, 1.0),
) -> float:
    """Area under the ROC curve, weighted by bands of the true positive rate.

    ``y_true`` (0 or 1, both must occur) and ``y_score`` (finite, higher means more likely 1) have shape (rows,).
    ``tpr_thresholds`` are the bands' edges from 0 to 1, ``weights`` one number for each band. A band's area is to the
    right of the curve, up to false positive rate 1; the curve is interpolated linearly between points. The weighted
    sum is divided by that of a perfect curve. Range [0, 1], 1 is perfect; with the default weights, a constant score
    gives 0.82 / 1.4. With equal weights, this equals scikit-learn's ``roc_auc_score``. Source: evaluation of the
    ALASKA2 Image Steganalysis challenge (Cogranne, Giboulot and Bas, "ALASKA#2: Challenging Academic Research on
    Steganalysis with Realistic Images", 2020).

    >>> round(weighted_roc_auc([0, 1, 0, 1], [0.1, 0.4, 0.35, 0.8]), 4)
    1.0
    >>> round(weighted_roc_auc([0, 1], [0.5, 0.5]), 4)
    0.5857
    """
    from sklearn.metrics import auc, roc_curve  # needs 80 MB, and most metrics do not use it

    fpr, tpr, _ = roc_curve(y_true, y_score, pos_label=1)
    for threshold in tpr_thresholds:
        if threshold not in tpr:
            index = int(np.searchsorted(tpr, threshold))
            between = np.interp(threshold, tpr[index - 1 : index + 1], fpr[index - 1 : index + 1])
            fpr, tpr = np.insert(fpr, index, between), np.insert(tpr, index, threshold)
    areas = []
    for low, high in pairwise(tpr_thresholds):
        inside = (low <= tpr) & (tpr <= high)
        areas.append(auc([*fpr[inside], 1.0], [*(tpr[inside] - low), high - low]))
    return float(np.dot(areas, weights) / np.dot(np.diff(tpr_thresholds), weights))
