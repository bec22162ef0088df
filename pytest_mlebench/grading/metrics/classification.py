"""Metrics of class labels and probabilities."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def log_loss(y_true: ArrayLike, y_prob: ArrayLike, *, eps: float = float(np.finfo(np.float64).eps)) -> float:
    """Mean over rows of −Σ y·ln(p), with p clipped to [eps, 1 − eps] and rows not rescaled.

    ``y_true`` and ``y_prob`` have shape (rows, classes); the former is one-hot (or gives each class a weight).
    Range [0, ∞), 0 is perfect. This is scikit-learn's ``log_loss`` since its version 1.5, for columns in a given
    order. Source: Bishop, Pattern Recognition and Machine Learning, 4.3.4.

    >>> round(log_loss([[1, 0], [0, 1]], [[0.8, 0.2], [0.5, 0.5]]), 4)
    0.4581
    """
    truth = np.asarray(y_true, dtype=np.float64)
    probability = np.clip(np.asarray(y_prob, dtype=np.float64), eps, 1 - eps)
    return float(-(truth * np.log(probability)).sum(axis=1).mean())
