"""Fits pipelines, and scores them by cross-validation."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from models import Features, classifiers, regressors
from sklearn.base import BaseEstimator, clone
from sklearn.metrics import accuracy_score, mean_absolute_error, roc_auc_score, root_mean_squared_error
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.pipeline import Pipeline
from tables import SEED
from task import Target

SLOW = ("support vectors", "gradient boosting")
MANY_TARGETS, MOST_TARGETS = 4, 15
"""Slow models are skipped if there are more targets than the first number, and non-linear ones above the second."""
_POWERS, _PARTS = (0.3, 0.5, 0.7, 1.0, 1.5), (0.0, 0.02, 0.1, 0.3, 0.6)

log = logging.getLogger("baseline")


@dataclass(frozen=True)
class Attempt:
    """A model's predictions for each target: out-of-fold for the training rows, and for the test rows.

    The shape is (rows, classes) for classification, and (rows, 1) for regression.
    """

    name: str
    train: list[np.ndarray]
    test: list[np.ndarray]

    def averaged(self, places: np.ndarray) -> Attempt:
        """Average the test rows that belong to the same row of the submission."""
        counts = np.bincount(places)[:, None]
        sums = [np.zeros((len(counts), own.shape[1])) for own in self.test]
        for total, own in zip(sums, self.test, strict=True):
            np.add.at(total, places, own)
        return Attempt(self.name, self.train, [total / counts for total in sums])


def attempts(
    features: Features, train: pd.DataFrame, test: pd.DataFrame, targets: list[Target], metric: str
) -> Iterator[Attempt]:
    """Fit the candidates one by one. A candidate that fails is logged and skipped."""
    models = [
        dict(regressors(features, len(train)) if not t.classes else classifiers(features, len(train), len(t.classes)))
        for t in targets
    ]
    for name in models[0]:
        left_out = SLOW if len(targets) > MANY_TARGETS else ()
        if name in left_out or (len(targets) > MOST_TARGETS and not name.startswith("linear")):
            continue
        started = time.monotonic()
        try:
            # A target of another kind may have no candidate with this name, and then uses its first one.
            names = [name if name in named else next(iter(named)) for named in models]
            chosen = [(own, named[own]) for own, named in zip(names, models, strict=True)]
            pairs = _predictions(chosen, targets, train, test, metric)
        except Exception as error:
            log.info("%s: left out, %s: %s", name, type(error).__name__, str(error)[:300])
            continue
        log.info("%s: fitted in %.1f s", name, time.monotonic() - started)
        if metric != "auc":
            pairs = [_softened(target, *pair) for target, pair in zip(targets, pairs, strict=True)]
        yield Attempt(name, [held_out for held_out, _ in pairs], [unseen for _, unseen in pairs])


def _softened(target: Target, held_out: np.ndarray, unseen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Calibrate the probabilities of three or more classes by the logarithmic loss on the training rows.

    Every class gets some probability, because rare classes may be missing from the rows that a model was fitted to.
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
    models: list[tuple[str, Pipeline]], targets: list[Target], train: pd.DataFrame, test: pd.DataFrame, metric: str
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return out-of-fold predictions of the training rows, and predictions of the test rows, for each target.

    Models with the same name share their transformers, which do not depend on the target and are fitted only once.
    """
    folds = 5 if len(train) <= 5_000 else 3
    splitter: KFold | StratifiedKFold = KFold(folds, shuffle=True, random_state=SEED)
    y = targets[0].y
    if len(targets) == 1 and targets[0].classes and pd.Series(y).value_counts().max() >= folds:
        splitter = StratifiedKFold(folds, shuffle=True, random_state=SEED)

    def predict(rows: np.ndarray, table: pd.DataFrame) -> list[np.ndarray]:
        known: dict[str, tuple[Any, Any]] = {}
        for name, model in models:
            if name not in known:
                transformer = clone(model[:-1])
                known[name] = transformer.fit_transform(train.iloc[rows]), transformer.transform(table)
        return [
            _fitted(model[-1], target, rows, *known[name], metric)
            for (name, model), target in zip(models, targets, strict=True)
        ]

    held_out = [np.zeros((len(train), max(1, len(target.classes)))) for target in targets]
    for rows, others in splitter.split(train, y):
        for own, found in zip(held_out, predict(rows, train.iloc[others]), strict=True):
            own[others] = found
    return list(zip(held_out, predict(np.arange(len(train)), test), strict=True))


def _fitted(model: BaseEstimator, target: Target, rows: np.ndarray, seen: Any, unseen: Any, metric: str) -> np.ndarray:
    """Fit a model to these rows, with the inputs ``seen``, and return its predictions for the inputs ``unseen``."""
    logarithmic = metric == "rmsle" and target.y.min() >= 0
    y = np.log1p(target.y[rows]) if logarithmic else target.y[rows]
    if len(target.classes) == 2 and len(set(y)) == 1:  # only other rows have the other label
        return np.tile([float(y[0] == label) for label in target.classes], (unseen.shape[0], 1))
    fitted = clone(model).fit(seen, y)
    if not target.classes:
        values = np.asarray(fitted.predict(unseen)).reshape(-1, 1)
        return (np.expm1(values) if logarithmic else values).clip(target.y.min(), target.y.max())
    shares = np.zeros((unseen.shape[0], len(target.classes)))
    shares[:, [target.classes.index(label) for label in fitted.classes_]] = fitted.predict_proba(unseen)
    return shares


def blend(members: list[Attempt]) -> Attempt:
    """Return the mean of several attempts."""
    train = [np.mean(parts, axis=0) for parts in zip(*(member.train for member in members), strict=True)]
    test = [np.mean(parts, axis=0) for parts in zip(*(member.test for member in members), strict=True)]
    return Attempt(f"mean of {', '.join(member.name for member in members)}", train, test)


def score(attempt: Attempt, targets: list[Target], metric: str) -> float:
    """Return the mean score over the targets; higher is better, so errors are negative."""
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
