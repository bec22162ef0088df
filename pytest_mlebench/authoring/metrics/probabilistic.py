"""Metrics of probabilities of binary labels."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def probabilistic_f1(y_true: ArrayLike, y_prob: ArrayLike) -> float:
    """F1 score in which a prediction p counts as p of a positive; 0 where precision or recall is 0 or NaN.

    ``y_true`` (0 or 1) and ``y_prob`` (in [0, 1]) have shape (rows,). Precision is Σ p over positives by Σ p over all
    rows, recall Σ p over positives by their number. Range [0, 1], 1 is perfect. Source: Yacouby and Axman (2020),
    Probabilistic extension of precision, recall, and F1 score.

    >>> round(probabilistic_f1([1, 0, 1], [0.8, 0.4, 0.4]), 4)
    0.6667
    """
    truth, probability = np.asarray(y_true, dtype=np.float64), np.asarray(y_prob, dtype=np.float64)
    found = float((truth * probability).sum())
    return 2 * found / float(truth.sum() + probability.sum()) if found > 0 else 0.0


def weighted_log_loss(y_true: ArrayLike, y_prob: ArrayLike, weights: ArrayLike, *, eps: float = 1e-15) -> float:
    """Mean over rows of the weighted mean over labels of −y·ln(p) − (1 − y)·ln(1 − p), p clipped to [eps, 1 − eps].

    All have shape (rows, labels): ``y_true`` holds 0 and 1, ``weights`` what each label of each row counts within its
    row. Range [0, ∞), 0 is perfect; 0.5 everywhere gives ln 2. Source: the binary cross-entropy, Bishop, Pattern
    Recognition and Machine Learning, 4.3.2.

    >>> round(weighted_log_loss([[1, 0]], [[0.5, 0.2]], [[3, 1]]), 4)
    0.5756
    """
    return float(weighted_log_losses(y_true, y_prob, weights, eps=eps).mean())


def weighted_log_losses(
    y_true: ArrayLike, y_prob: ArrayLike, weights: ArrayLike, *, eps: float = 1e-15
) -> NDArray[np.float64]:
    """The losses of which ``weighted_log_loss`` is the mean: shape (rows,)."""
    truth, weight = np.asarray(y_true, dtype=np.float64), np.asarray(weights, dtype=np.float64)
    probability = np.clip(np.asarray(y_prob, dtype=np.float64), eps, 1 - eps)
    loss = -(truth * np.log(probability) + (1 - truth) * np.log(1 - probability))
    return np.asarray((weight * loss).sum(axis=1) / weight.sum(axis=1))
