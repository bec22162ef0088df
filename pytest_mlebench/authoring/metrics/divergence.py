"""Divergences between probability distributions."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import rel_entr


def kl_divergence(p_true: ArrayLike, p_pred: ArrayLike, *, eps: float = 1e-15) -> float:
    """Mean over rows of Σ t·ln(t / p), the Kullback-Leibler divergence from the predicted to the true distribution.

    Both have shape (rows, classes). p is clipped to [eps, 1 − eps] and rows are not rescaled; classes with t = 0 add
    nothing. Range [0, ∞) for rows that sum to one (up to the clipping), 0 is perfect.
    Source: Kullback and Leibler, On information and sufficiency, 1951.

    >>> round(kl_divergence([[0.5, 0.5], [1, 0]], [[0.25, 0.75], [1, 0]]), 4)
    0.0719
    """
    return float(kl_divergences(p_true, p_pred, eps=eps).mean())


def kl_divergences(p_true: ArrayLike, p_pred: ArrayLike, *, eps: float = 1e-15) -> NDArray[np.float64]:
    """The divergences of which ``kl_divergence`` is the mean: shape (rows,)."""
    predicted = np.clip(np.asarray(p_pred, dtype=np.float64), eps, 1 - eps)
    return np.asarray(rel_entr(np.asarray(p_true, dtype=np.float64), predicted).sum(axis=1))
