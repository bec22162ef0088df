"""Labels, values and tables of known predictability; missing values; random names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import expit, softmax

T = TypeVar("T")


def by_size(size: str, micro: T, small: T, medium: T) -> T:
    """Return the value for a size: ``micro``, ``small`` or ``medium``.

    >>> by_size("small", 60, 500, 2600)
    500
    """
    return {"micro": micro, "small": small, "medium": medium}[size]


def positive_probabilities(score: np.ndarray, *, accuracy: float, positive: float = 0.5) -> np.ndarray:
    """Return probabilities of a positive label that increase with ``score``: both have shape (rows,).

    ``accuracy`` is the best possible accuracy, given the probabilities (the Bayes accuracy). ``positive`` is the share
    of positive labels. Raises ValueError if the two are incompatible.

    >>> p = positive_probabilities(np.linspace(-1, 1, 1000), accuracy=0.9, positive=0.3)
    >>> round(float(np.maximum(p, 1 - p).mean()), 3), round(float(p.mean()), 3)
    (0.9, 0.3)
    """
    score = (score - score.mean()) / score.std()

    def shift(slope: float) -> float:
        return float(brentq(lambda bias: expit(slope * score + bias).mean() - positive, -500, 500))

    def excess(slope: float) -> float:
        p = expit(slope * score + shift(slope))
        return float(np.maximum(p, 1 - p).mean()) - accuracy

    if excess(0) > 0 or excess(60) < 0:
        raise ValueError(f"no noise gives an accuracy of {accuracy} if {positive:.0%} are positive")
    slope = float(brentq(excess, 0, 60))
    return np.asarray(expit(slope * score + shift(slope)))


def class_probabilities(scores: np.ndarray, *, accuracy: float) -> np.ndarray:
    """Return class probabilities that increase with ``scores``: both have shape (rows, classes).

    ``accuracy`` is the best possible accuracy, given the probabilities. Raises ValueError if this is not possible.

    >>> p = class_probabilities(np.random.default_rng(0).normal(size=(500, 4)), accuracy=0.8)
    >>> round(float(p.max(axis=1).mean()), 3)
    0.8
    """
    scores = (scores - scores.mean()) / scores.std()

    def excess(slope: float) -> float:
        return float(softmax(slope * scores, axis=1).max(axis=1).mean()) - accuracy

    if excess(0) > 0 or excess(200) < 0:
        raise ValueError(f"no noise gives an accuracy of {accuracy} with these scores")
    return np.asarray(softmax(float(brentq(excess, 0, 200)) * scores, axis=1))


def draw_classes(probabilities: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw a class for each row of probabilities, of shape (rows, classes); returns integers of shape (rows,)."""
    below = probabilities.cumsum(axis=1) < rng.random((len(probabilities), 1)) * probabilities.sum(
        axis=1, keepdims=True
    )
    return np.asarray(np.minimum(below.sum(axis=1), probabilities.shape[1] - 1))


def add_noise(signal: np.ndarray, rng: np.random.Generator, *, r2: float) -> np.ndarray:
    """Add normal noise to a signal, so that the signal explains a share ``r2`` of the variance."""
    return np.asarray(signal + rng.normal(size=signal.shape) * signal.std(axis=0) * np.sqrt(1 / r2 - 1))


def swap_some(labels: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """Replace a share of the labels by those of random rows, which preserves the class frequencies."""
    labels = labels.copy()
    wrong = np.flatnonzero(rng.random(len(labels)) < share)
    labels[wrong] = labels[rng.integers(len(labels), size=len(wrong))]
    return labels


def with_missing(table: pd.DataFrame, columns: Sequence[str], share: float, rng: np.random.Generator) -> pd.DataFrame:
    """Return a table with a random share of the values in ``columns`` missing."""
    gaps = {name: table[name].astype(object).where(rng.random(len(table)) >= share, None) for name in columns}
    return table.assign(**gaps)


def random_names(rng: np.random.Generator, count: int, length: int, letters: str = "0123456789abcdef") -> list[str]:
    """Draw ``count`` distinct random names of ``length`` letters, in random order."""
    found: dict[str, None] = {}
    while len(found) < count:
        drawn = rng.choice(list(letters), (count - len(found), length))
        found |= dict.fromkeys("".join(row) for row in drawn)
    return list(found)


def hidden_score(
    features: np.ndarray, rng: np.random.Generator, *, curved: float = 0.6, together: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Return a weighted sum of the features, and that sum plus nonlinear terms: both have shape (rows,).

    ``features`` has shape (rows, features), and no constant feature. The sum has standard deviation 1. The nonlinear
    terms are waves of single features, with standard deviation ``curved``, and products of two features, with standard
    deviation ``together``.

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
    """Scale each column to mean 0 and standard deviation 1."""
    return np.asarray((values - values.mean(axis=0)) / values.std(axis=0))


def correlated(rng: np.random.Generator, rows: int, columns: int, *, factors: int, own: float = 0.6) -> np.ndarray:
    """Draw columns that depend on shared factors: shape (rows, columns), standard deviation 1.

    ``own`` is the standard deviation of each column's independent part, relative to the shared part.

    >>> correlated(np.random.default_rng(0), 100, 7, factors=2).shape
    (100, 7)
    """
    shared = standard(rng.normal(size=(rows, factors)) @ rng.normal(size=(factors, columns)))
    return standard(shared + own * rng.normal(size=(rows, columns)))
