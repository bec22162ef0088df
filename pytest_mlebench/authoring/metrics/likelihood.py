"""Log likelihoods of predicted distributions."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray


def laplace_log_likelihood(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    scale: ArrayLike,
    *,
    min_scale: float = 0.0,
    max_error: float = math.inf,
) -> float:
    """Mean over rows of −√2·Δ/σ − ln(√2·σ): the log density of a Laplace distribution, by its standard deviation σ.

    All have shape (rows,). Δ = min(\\|y_true − y_pred\\|, ``max_error``) and σ = max(``scale``, ``min_scale``) make the
    modified score of the OSIC challenge. Range (−∞, ∞), higher is better; NaN if any value is missing.
    Source: Laplace distribution with mean ``y_pred`` and variance σ², for instance Kotz, Kozubowski and Podgórski,
    The Laplace Distribution and Generalizations, 2001, 2.1.

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
    """The log densities of which ``laplace_log_likelihood`` is the mean: shape (rows,)."""
    error = np.minimum(np.abs(np.asarray(y_true, dtype=np.float64) - np.asarray(y_pred, dtype=np.float64)), max_error)
    sigma = np.maximum(np.asarray(scale, dtype=np.float64), min_scale)
    return np.asarray(-math.sqrt(2) * error / sigma - np.log(math.sqrt(2) * sigma))
