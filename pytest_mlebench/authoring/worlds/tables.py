"""Hidden functions of a table's columns: a plain part that anybody finds, and more that takes a better model."""

from __future__ import annotations

import numpy as np


def hidden_score(
    features: np.ndarray, rng: np.random.Generator, *, curved: float = 0.6, together: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """A weighted sum of the features, and what it is part of: both of shape (rows,), from features (rows, features).

    The sum has standard deviation 1. The whole adds waves of single features, of standard deviation ``curved``, and
    products of two features, of standard deviation ``together``. No feature may be constant.

    >>> plain, whole = hidden_score(np.random.default_rng(0).normal(size=(500, 6)), np.random.default_rng(1))
    >>> round(float(plain.std()), 3), round(float((whole - plain).std()), 1)
    (1.0, 1.1)
    """
    z = standard(features)
    count = z.shape[1]
    plain = standard(z @ rng.normal(size=count))
    waves = np.sin(z * rng.uniform(1, 2.5, count) + rng.uniform(0, 2 * np.pi, count)) @ rng.normal(size=count)
    first, second = rng.permutation(count)[: 2 * (max(count // 2, 2) // 2)].reshape(2, -1)
    products = (z[:, first] * z[:, second]) @ rng.choice([-1.0, 1.0], len(first))
    return plain, plain + curved * standard(waves) + together * standard(products)


def standard(values: np.ndarray) -> np.ndarray:
    """The values with mean 0 and standard deviation 1 in each column."""
    return np.asarray((values - values.mean(axis=0)) / values.std(axis=0))


def correlated(rng: np.random.Generator, rows: int, columns: int, *, factors: int, own: float = 0.6) -> np.ndarray:
    """Columns that share some factors, as measurements of one thing do: shape (rows, columns), standard deviation 1.

    ``own`` is the standard deviation of what a column shares with no other, relative to what it shares.

    >>> correlated(np.random.default_rng(0), 100, 7, factors=2).shape
    (100, 7)
    """
    shared = standard(rng.normal(size=(rows, factors)) @ rng.normal(size=(factors, columns)))
    return standard(shared + own * rng.normal(size=(rows, columns)))
