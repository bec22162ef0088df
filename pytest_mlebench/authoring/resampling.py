"""Confidence intervals of scores, by the bootstrap over the rows of the test set.

If a score is a mean over the rows of the test set, or a smooth function of such means, ``grade.py`` can define
``row_scores(submission, answers)`` in addition to ``grade``. It returns an array of the rows' scores, whose mean is the
score, or the result of a function below. Dependent rows, such as the pixels of an image, are resampled together:
``units`` is an array with the unit (here, the image) of each row, of shape (rows,).

Source: Efron and Tibshirani, An Introduction to the Bootstrap, 1993: percentile intervals (chapter 13).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

LEVEL = 0.95
"""Confidence level of the interval, and the share of resamples that must earn the medal for it to be firm."""
MIN_UNITS = 10
"""With fewer units, resamples are not representative of other test sets."""
RESAMPLES = 2000
DRAWN_UNITS = 10_000
"""With more units, sums are drawn from their limiting normal distribution, in a time that does not grow with
``RESAMPLES``."""
_AT_ONCE = 1 << 21
_MAX_UNDEFINED = 0.1
_MAX_CLASSES = 32
_MAX_CELLS, _MAX_TERMS = 1 << 24, 1 << 28
"""Maximum number of cells of a confusion matrix, and of numbers in an array that has a column for each cell."""


@dataclass(frozen=True)
class RowScores:
    """A score as a function of sums over units of the test set: rows, or groups of rows that are resampled together.

    ``terms`` has shape (units, terms). ``score`` takes sums of shape (resamples, terms) and returns shape (resamples,).
    """

    terms: Floats
    score: Callable[[Floats], Floats]

    @property
    def estimate(self) -> float:
        """The score of the test set itself, which must equal that of ``grade``."""
        return float(self._scores(self.terms.sum(axis=0)[None])[0])

    def resampled(self, resamples: int = RESAMPLES, drawn_units: int = DRAWN_UNITS) -> Floats | None:
        """Return the scores of ``resamples`` test sets of the same size, with a fixed seed: shape (resamples,).

        Undefined scores are left out. Returns None for fewer than ``MIN_UNITS`` units, non-finite terms, or over 10 %
        undefined scores. With more than ``drawn_units`` units, sums are drawn from the normal distribution."""
        if len(self.terms) < MIN_UNITS or not np.isfinite(self.terms).all():
            return None
        draw = _drawn_sums if len(self.terms) <= drawn_units else _normal_sums
        scores = self._scores(draw(self.terms, np.random.default_rng(0), resamples))
        defined = scores[np.isfinite(scores)]
        return defined if len(defined) >= (1 - _MAX_UNDEFINED) * resamples else None

    def _scores(self, sums: Floats) -> Floats:
        with np.errstate(all="ignore"):
            return np.asarray(self.score(sums), dtype=np.float64)


def as_row_scores(values: RowScores | ArrayLike) -> RowScores:
    """Convert the result of ``row_scores``: for an array of shape (rows,), the score is the mean."""
    return values if isinstance(values, RowScores) else mean_of(values)


def mean_of(
    values: ArrayLike, *, units: ArrayLike | None = None, then: Callable[[Floats], Floats] = lambda mean: mean
) -> RowScores:
    """Score that is the mean of ``values``, of shape (rows,), to which the function ``then`` is applied.

    >>> mean_of([1, 0, 1, 1]).estimate
    0.75
    >>> mean_of([9, 16, 9, 16, 0], then=np.sqrt).estimate.__round__(4)
    3.1623
    """
    return ratio(values, np.ones(np.shape(values)), units=units, then=then)


def root_mean(squares: ArrayLike, *, units: ArrayLike | None = None) -> RowScores:
    """Score that is the root of the mean over rows, averaged over columns: shape (rows,) or (rows, columns)."""
    columns = _columns(squares)
    terms = np.column_stack([columns, np.ones(len(columns))])
    return RowScores(_summed_by_unit(terms, units), lambda sums: np.sqrt(sums[:, :-1] / sums[:, -1:]).mean(axis=1))


def ratio(
    numerator: ArrayLike,
    denominator: ArrayLike,
    *,
    units: ArrayLike | None = None,
    then: Callable[[Floats], Floats] = lambda ratio: ratio,
) -> RowScores:
    """Score that is the ratio of two sums over rows, both of shape (rows,), to which ``then`` is applied.

    >>> ratio([1, 2], [2, 4]).estimate
    0.5
    """
    terms = np.column_stack([_columns(numerator), _columns(denominator)])
    return RowScores(_summed_by_unit(terms, units), lambda sums: then(sums[:, 0] / sums[:, 1]))


def mean_of_groups(
    values: ArrayLike, groups: ArrayLike, *, then: Callable[[Floats], Floats] = lambda means: means
) -> RowScores:
    """Score that is the mean over groups of ``then``, applied to each group's mean over its rows.

    ``values`` and ``groups``, the group of each row, have shape (rows,). Use it for few groups with many rows each.
    """
    codes, names = pd.factorize(np.asarray(groups))
    belongs = codes[:, None] == np.arange(len(names))
    terms = np.column_stack([belongs * _columns(values), belongs])
    many = len(names)
    return RowScores(terms.astype(np.float64), lambda sums: then(sums[:, :many] / sums[:, many:]).mean(axis=1))


def roc_auc(y_true: ArrayLike, y_score: ArrayLike, *, units: ArrayLike | None = None) -> RowScores:
    """Score that is the area under the ROC curve, averaged over columns: shapes (rows,) or (rows, columns).

    ``y_true`` is 1 or 0. The term of a positive is the share of negatives with a lower score, the term of a negative
    the share of positives with a higher score. Over resamples, their means vary as the area does. Source: DeLong et
    al., Comparing the areas under two or more correlated receiver operating characteristic curves, 1988.

    >>> roc_auc([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8]).estimate
    0.75
    """
    parts = [_placements(*pair) for pair in zip(_columns(y_true).T, _columns(y_score).T, strict=True)]
    areas = np.array([area for _, area in parts])

    def score(sums: Floats) -> Floats:
        of_positives, positives, of_negatives, negatives = sums.reshape(len(sums), len(areas), 4).transpose(2, 0, 1)
        return np.asarray(np.clip(of_positives / positives + of_negatives / negatives - areas, 0, 1).mean(axis=1))

    return RowScores(_summed_by_unit(np.column_stack([terms for terms, _ in parts]), units), score)


def confusion(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    score: Callable[[Floats], Floats],
    *,
    labels: Sequence[Any] | None = None,
    units: ArrayLike | None = None,
) -> RowScores:
    """Score that is a function of the confusion matrix, for a small number of classes.

    ``y_true`` and ``y_pred`` have shape (rows,). ``score`` takes shape (resamples, true class, predicted class), and
    returns shape (resamples,). ``labels`` are the sorted classes (default: all that occur in either array). There is no
    interval if most of these are only predicted, or if it would take too much memory: if classes² times the number of
    rows, but at least times 2,000, is over 268 million (with more than 10,000 rows also if classes⁴ is). For thousands
    of classes, there is no estimate either: it is NaN.
    """
    truth, predicted = np.asarray(y_true), np.asarray(y_pred)
    classes = np.unique(np.concatenate([truth, predicted])) if labels is None else np.asarray(labels)
    many = len(classes)
    if many**2 > _MAX_CELLS:
        return RowScores(np.full((1, 1), np.nan), lambda sums: sums[:, 0])
    cell = np.searchsorted(classes, truth) * many + np.searchsorted(classes, predicted)
    mostly_predicted = labels is None and many > max(_MAX_CLASSES, 2 * len(np.unique(truth)))
    largest = max(len(cell), RESAMPLES, many**2 if len(cell) > DRAWN_UNITS else 0)  # rows, resamples or covariances
    if mostly_predicted or largest * many**2 > _MAX_TERMS:
        sums = np.bincount(cell, minlength=many * many).astype(np.float64)
        return RowScores(sums[None], lambda sums: score(sums.reshape(-1, many, many)))  # one unit is not resampled
    terms = (cell[:, None] == np.arange(many * many)).astype(np.float64)
    return RowScores(_summed_by_unit(terms, units), lambda sums: score(sums.reshape(-1, many, many)))


def quadratic_kappa(matrices: Floats) -> Floats:
    """Return Cohen's κ with quadratic weights for confusion matrices of shape (resamples, classes, classes)."""
    many = matrices.shape[1]
    weights = np.subtract.outer(np.arange(many), np.arange(many)) ** 2
    rows, columns = matrices.sum(axis=2), matrices.sum(axis=1)
    expected = np.einsum("ri,rj,ij->r", rows, columns, weights) / matrices.sum(axis=(1, 2))
    return np.asarray(1 - np.einsum("rij,ij->r", matrices, weights) / expected)


def matthews(matrices: Floats) -> Floats:
    """Return Matthews correlation coefficients of confusion matrices of shape (resamples, classes, classes)."""
    rows, columns, total = matrices.sum(axis=2), matrices.sum(axis=1), matrices.sum(axis=(1, 2))
    by_chance = (rows * columns).sum(axis=1)
    product = (total**2 - (rows**2).sum(axis=1)) * (total**2 - (columns**2).sum(axis=1))
    found = (np.trace(matrices, axis1=1, axis2=2) * total - by_chance) / np.sqrt(product)
    return np.where(product > 0, found, 0.0)  # 0 if one side has a single class


def pearson(y_true: ArrayLike, y_pred: ArrayLike, *, units: ArrayLike | None = None) -> RowScores:
    """Score that is Pearson's r of two arrays of shape (rows,).

    >>> round(pearson([0, 1, 2], [0, 1, 3]).estimate, 4)
    0.982
    """
    # Standardise first: the moments of large values would lose precision.
    x, y = (_standardised(np.asarray(values, dtype=np.float64)) for values in (y_true, y_pred))

    def score(sums: Floats) -> Floats:
        x_mean, y_mean, xx, yy, xy = sums.T[1:] / sums.T[0]
        return np.asarray((xy - x_mean * y_mean) / np.sqrt((xx - x_mean**2) * (yy - y_mean**2)))

    return RowScores(_summed_by_unit(np.column_stack([np.ones(len(x)), x, y, x * x, y * y, x * y]), units), score)


@dataclass(frozen=True)
class Certainty:
    """The interval that contains ``LEVEL`` of the resampled scores, and whether that share of them earns the medal."""

    low: float
    high: float
    firm: bool | None


def certainty(
    rows: RowScores,
    holds: Callable[[float], bool] | None,
    *,
    resamples: int = RESAMPLES,
    drawn_units: int = DRAWN_UNITS,
) -> Certainty | None:
    """Compute the confidence interval of a score, and whether its medal is firm.

    ``holds`` returns whether a score earns the same medal (None: the score earns no medal). Returns None if the score
    cannot be resampled (see ``RowScores.resampled``).
    """
    if (scores := rows.resampled(resamples, drawn_units)) is None:
        return None
    low, high = np.quantile(scores, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    values, counts = np.unique(scores.round(5), return_counts=True)
    kept = sum(int(count) for value, count in zip(values, counts, strict=True) if holds and holds(float(value)))
    firm = None if holds is None else kept >= LEVEL * len(scores)
    return Certainty(float(round(low, 5)), float(round(high, 5)), firm)


def _drawn_sums(terms: Floats, rng: np.random.Generator, resamples: int) -> Floats:
    """Return the sums of each resample, in which units are drawn with replacement."""
    units = len(terms)
    at_once = max(1, _AT_ONCE // units)
    parts = []
    for begin in range(0, resamples, at_once):
        many = min(at_once, resamples - begin)
        drawn = rng.integers(units, size=(many, units)) + units * np.arange(many)[:, None]
        times = np.bincount(drawn.ravel(), minlength=many * units).reshape(many, units)
        parts.append(times.astype(np.float64) @ terms)
    return np.concatenate(parts)


def _normal_sums(terms: Floats, rng: np.random.Generator, resamples: int) -> Floats:
    """Return sums like ``_drawn_sums``, but from the normal distribution of the central limit theorem."""
    units, many = terms.shape
    mean = terms.mean(axis=0)
    covariance = np.zeros((many, many))
    step = max(1, _AT_ONCE // many)
    for begin in range(0, units, step):
        centred = terms[begin : begin + step] - mean
        covariance += centred.T @ centred
    variances, directions = np.linalg.eigh(covariance)
    draws = rng.standard_normal((resamples, many)) * np.sqrt(np.clip(variances, 0, None))
    return np.asarray(units * mean + draws @ directions.T)


def _columns(values: ArrayLike) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    return array.reshape(len(array), -1)


def _summed_by_unit(terms: Floats, units: ArrayLike | None) -> Floats:
    """Sum the terms of rows by unit."""
    if units is None:
        return terms
    codes, names = pd.factorize(np.asarray(units), use_na_sentinel=False)
    return np.column_stack([np.bincount(codes, weights=column, minlength=len(names)) for column in terms.T])


def _placements(truth: Floats, scores: Floats) -> tuple[Floats, float]:
    """Return each row's share of correctly ordered rows of the other class, and 1, in its class's two columns."""
    positive = truth > 0
    n, m = int(positive.sum()), int((~positive).sum())
    ranks, placed = _ranks(scores), np.zeros(len(scores))
    if n and m:
        placed[positive] = (ranks[positive] - _ranks(scores[positive])) / m
        placed[~positive] = 1 - (ranks[~positive] - _ranks(scores[~positive])) / n
    terms = np.column_stack([placed * positive, positive, placed * ~positive, ~positive]).astype(np.float64)
    return terms, float(placed[positive].mean()) if n and m else math.nan


def _ranks(values: Floats) -> Floats:
    return np.asarray(pd.Series(values).rank(), dtype=np.float64)


def _standardised(values: Floats) -> Floats:
    with np.errstate(all="ignore"):
        centred = values - values.mean()
        return np.asarray(centred / np.sqrt((centred**2).mean()))
