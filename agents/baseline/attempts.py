"""Fitting pipelines, and what cross-validation says of them."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd
from models import Features, classifiers, regressors
from sklearn.base import clone
from sklearn.metrics import accuracy_score, mean_absolute_error, roc_auc_score, root_mean_squared_error
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.pipeline import Pipeline
from tables import SEED
from task import Target

MANY_TARGETS = 4
_POWERS, _PARTS = (0.3, 0.5, 0.7, 1.0, 1.5), (0.0, 0.02, 0.1, 0.3, 0.6)

log = logging.getLogger("baseline")


@dataclass(frozen=True)
class Attempt:
    """A model's predictions, for each target: of the training rows, by models that did not see them, and of the test.

    Shape (rows, classes) for classification, (rows, 1) for regression.
    """

    name: str
    train: list[np.ndarray]
    test: list[np.ndarray]

    def averaged(self, places: np.ndarray) -> Attempt:
        """With the mean of the test rows that count for the same row of the submission."""
        counts = np.bincount(places)[:, None]
        sums = [np.zeros((len(counts), own.shape[1])) for own in self.test]
        for total, own in zip(sums, self.test, strict=True):
            np.add.at(total, places, own)
        return Attempt(self.name, self.train, [total / counts for total in sums])


def attempts(
    features: Features, train: pd.DataFrame, test: pd.DataFrame, targets: list[Target], metric: str
) -> Iterator[Attempt]:
    """Fit the candidates one after the other; one that fails is logged and left out."""
    models = [
        dict(regressors(features, len(train)) if not t.classes else classifiers(features, len(train), len(t.classes)))
        for t in targets
    ]
    for name in models[0]:
        if len(targets) > MANY_TARGETS and name in ("support vectors", "gradient boosting"):  # they take longest
            continue
        started = time.monotonic()
        try:
            # A target of another kind may have no candidate of this name: it takes its first one.
            pairs = [
                _predictions(named.get(name, next(iter(named.values()))), target, train, test, metric)
                for named, target in zip(models, targets, strict=True)
            ]
        except Exception as error:
            log.info("%s: left out, %s: %s", name, type(error).__name__, str(error)[:300])
            continue
        log.info("%s: fitted in %.1f s", name, time.monotonic() - started)
        if metric != "auc":
            pairs = [_softened(target, *pair) for target, pair in zip(targets, pairs, strict=True)]
        yield Attempt(name, [held_out for held_out, _ in pairs], [unseen for _, unseen in pairs])


def _softened(target: Target, held_out: np.ndarray, unseen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of several classes as certain as they deserve, by the logarithmic loss of the training rows.

    Rare classes may be missing in what a model was fitted to: some of the whole goes to each.
    """
    if target.kind != "probability" or len(target.classes) < 3:
        return held_out, unseen
    truth = target.y[:, None] == np.asarray(target.classes, dtype=object)
    usual = (truth.sum(axis=0) + 0.5) / (len(truth) + 0.5 * truth.shape[1])

    def soft(shares: np.ndarray, power: float, part: float) -> np.ndarray:
        flat = shares.clip(1e-9, 1) ** power
        return np.asarray((1 - part) * flat / flat.sum(axis=1, keepdims=True) + part * usual)

    choices = product(_POWERS, _PARTS)
    best = min(choices, key=lambda own: -np.log(soft(held_out, *own)[truth]).sum())
    return soft(held_out, *best), soft(unseen, *best)


def _predictions(
    model: Pipeline, target: Target, train: pd.DataFrame, test: pd.DataFrame, metric: str
) -> tuple[np.ndarray, np.ndarray]:
    """Predictions of the training rows, each by a model fitted without it, and of the test rows."""
    logarithmic = metric == "rmsle" and target.y.min() >= 0
    y = np.log1p(target.y) if logarithmic else target.y
    folds = 5 if len(train) <= 5_000 else 3
    splitter = KFold(folds, shuffle=True, random_state=SEED)
    if target.classes and pd.Series(y).value_counts().max() >= folds:
        splitter = StratifiedKFold(folds, shuffle=True, random_state=SEED)

    def predict(rows: np.ndarray, table: pd.DataFrame) -> np.ndarray:
        if len(target.classes) == 2 and len(set(y[rows])) == 1:  # a label that only other rows have
            return np.tile([float(y[rows[0]] == label) for label in target.classes], (len(table), 1))
        fitted = clone(model).fit(train.iloc[rows], y[rows])
        if not target.classes:
            values = np.asarray(fitted.predict(table)).reshape(-1, 1)
            return (np.expm1(values) if logarithmic else values).clip(target.y.min(), target.y.max())
        shares = np.zeros((len(table), len(target.classes)))
        shares[:, [target.classes.index(label) for label in fitted.classes_]] = fitted.predict_proba(table)
        return shares

    held_out = np.zeros((len(train), max(1, len(target.classes))))
    for rows, others in splitter.split(train, y):
        held_out[others] = predict(rows, train.iloc[others])
    return held_out, predict(np.arange(len(train)), test)


def blend(members: list[Attempt]) -> Attempt:
    """The mean of several attempts."""
    train = [np.mean(parts, axis=0) for parts in zip(*(member.train for member in members), strict=True)]
    test = [np.mean(parts, axis=0) for parts in zip(*(member.test for member in members), strict=True)]
    return Attempt(f"mean of {', '.join(member.name for member in members)}", train, test)


def score(attempt: Attempt, targets: list[Target], metric: str) -> float:
    """What is compared, higher is better: the mean over the targets, errors with a minus sign."""
    return float(np.mean([_score_one(*pair, metric) for pair in zip(attempt.train, targets, strict=True)]))


def _score_one(predicted: np.ndarray, target: Target, metric: str) -> float:
    if not target.classes:
        if metric == "mae":
            return -float(mean_absolute_error(target.y, predicted[:, 0]))
        if metric == "rmsle" and target.y.min() >= 0:
            return -float(root_mean_squared_error(np.log1p(target.y), np.log1p(predicted[:, 0])))
        return -float(root_mean_squared_error(target.y, predicted[:, 0]))
    classes = np.asarray(target.classes, dtype=object)
    if target.kind == "labels":
        return float(accuracy_score(target.y, classes[predicted.argmax(axis=1)]))
    if len(classes) == 2 and metric == "auc":
        return float(roc_auc_score(target.y == classes[1], predicted[:, 1]))
    truth = (target.y[:, None] == classes).astype(float)
    return -float((-truth * np.log(predicted.clip(1e-15, 1))).sum(axis=1).mean())
