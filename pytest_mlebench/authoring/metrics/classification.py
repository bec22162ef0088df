"""Metrics of class labels and probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def log_loss(y_true: ArrayLike, y_prob: ArrayLike, *, eps: float = float(np.finfo(np.float64).eps)) -> float:
    """Mean over rows of −Σ y·ln(p), with p clipped to [eps, 1 − eps] and rows not rescaled.

    ``y_true`` and ``y_prob`` have shape (rows, classes); the former is one-hot (or gives each class a weight).
    Range [0, ∞), 0 is perfect. This is scikit-learn's ``log_loss`` since its version 1.5, for columns in a given
    order. Source: Bishop, Pattern Recognition and Machine Learning, 4.3.4.

    >>> round(log_loss([[1, 0], [0, 1]], [[0.8, 0.2], [0.5, 0.5]]), 4)
    0.4581
    """
    return float(log_losses(y_true, y_prob, eps=eps).mean())


def log_losses(
    y_true: ArrayLike, y_prob: ArrayLike, *, eps: float = float(np.finfo(np.float64).eps)
) -> NDArray[np.float64]:
    """The losses of which ``log_loss`` is the mean: shape (rows,)."""
    truth = np.asarray(y_true, dtype=np.float64)
    probability = np.clip(np.asarray(y_prob, dtype=np.float64), eps, 1 - eps)
    return np.asarray(-(truth * np.log(probability)).sum(axis=1))


def binary_log_losses(y_true: ArrayLike, y_prob: ArrayLike) -> NDArray[np.float64]:
    """``log_losses`` of probabilities of the label 1: both have shape (rows,)."""
    sides = (np.asarray(values, dtype=np.float64) for values in (y_true, y_prob))
    return log_losses(*(np.column_stack([1 - values, values]) for values in sides))


def matthews_corrcoef(y_true: ArrayLike, y_pred: ArrayLike) -> float:
    """Matthews correlation coefficient of class labels, for any number of classes.

    Both have shape (rows,). Range [-1, 1], 1 is perfect; 0 where either side has one class alone. This is
    scikit-learn's ``matthews_corrcoef`` without its matrix of all pairs of labels.
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
