"""Infers the task from the sample submission, the tables' columns and the description."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np
import pandas as pd
from tables import Source, to_numbers

MAX_CLASSES = 200
MANY_NUMBERS = 30
"""A whole-numbered target with more different values than this is a quantity, not a label."""

Kind = Literal["regression", "labels", "probability"]

_LABEL = re.compile(r"(target|label|class|category)(_?(id|name))?", re.I)

METRICS = (  # the one that the description mentions first is used
    ("rmsle", r"rmsle|logarithmic error|squared log"),
    ("rmse", r"rmse|root.mean.squared? error"),
    ("mae", r"\bmae\b|mean.absolute error"),
    ("auc", r"\bauc\b|\broc\b"),
    ("log loss", r"log.?loss|logarithmic loss|cross.?entropy"),
    ("accuracy", r"accuracy|matthews|\bf.?1\b|kappa|share of .* correctly"),
)


class NoClasses(Exception):
    """The target is free text."""


class CannotSolve(Exception):
    """This agent has no model for the competition."""


@dataclass(frozen=True)
class Roles:
    """The tables, and the roles of columns: the ids and targets of a submission, the features, the label.

    ``label`` is the training column with the target's true value, or with the classes if the targets are one column
    per class. It is empty if the training table has the targets under their own names.
    """

    train: Source
    test: Source
    ids: list[str]
    targets: list[str]
    features: list[str]
    label: str = ""


@dataclass(frozen=True)
class Target:
    """One target: ``columns`` of the submission, true values ``y``, and the classes if it is a classification."""

    columns: list[str]
    kind: Kind
    y: np.ndarray
    classes: list[str]


def metric_of(description: str) -> str:
    """Return the metric's name in METRICS, from the evaluation section if there is one; '' if none is mentioned."""
    section = re.search(r"^#+\s*evaluation.*?(?=^#+\s*\w|\Z)", description, re.I | re.S | re.M)
    text = section[0] if section else description
    found = [(match.start(), name) for name, pattern in METRICS if (match := re.search(pattern, text, re.I))]
    return min(found)[1] if found else ""


def wants_probability(description: str, metric: str) -> bool:
    return metric in ("auc", "log loss") or (not metric and "probabilit" in description.lower())


def find_roles(sample: pd.DataFrame, tables: list[Source]) -> Roles:
    """Return the first pair of a training and a test table that fits the sample. Raises CannotSolve if none does."""
    headers = {table: table.columns() for table in tables}
    trains = sorted((t for t in tables if "test" not in t.name), key=lambda t: "train" not in t.name)
    tests = sorted((t for t in tables if "train" not in t.name), key=lambda t: "test" not in t.name)
    reasons = []
    for train, test in product(trains, tests):
        if train is not test and headers[train] and headers[test]:
            try:
                return _roles(sample, train, headers[train], test, headers[test])
            except CannotSolve as reason:
                reasons.append(f"{train.name} with {test.name}: {reason}")
    raise CannotSolve("; ".join(reasons[:3]) or "there is no pair of a training and a test table")


def _roles(
    sample: pd.DataFrame, train: Source, train_columns: list[str], test: Source, test_columns: list[str]
) -> Roles:
    ids = [column for column in sample if column in test_columns]
    targets = [column for column in sample if column not in ids]
    features = [column for column in train_columns if column in test_columns and column not in ids]
    answers = [column for column in train_columns if column not in test_columns]
    if not features and len(ids) > 1:  # a sample submission that repeats the test table
        features = [column for column in train_columns if column in ids]
    if not ids or not targets:
        raise CannotSolve("the sample submission needs an id of the test table, and a target that is not in it")
    if not features:
        raise CannotSolve("the tables have no feature column in common")
    if set(targets) <= set(answers):
        return Roles(train, test, ids, targets, features)
    labels = answers if len(answers) == 1 else [column for column in answers if _LABEL.fullmatch(column)]
    if len(targets) == 1 and len(labels) == 1:
        return Roles(train, test, ids, targets, features, labels[0])
    texts = [column for column in answers if re.search("answer|text|after|labels?$", column, re.I)]
    if len(targets) == 1 and len(texts) >= 1:
        return Roles(train, test, ids, targets, features, texts[0])
    if len(targets) > 1 and answers:
        values = train.read(as_text=answers)
        for column in answers:
            if values[column].nunique() > 1 and set(values[column]) <= set(targets):
                return Roles(train, test, ids, targets, features, column)
    raise CannotSolve(f"no column of the training table matches {', '.join(map(repr, targets[:5]))}")


def find_targets(
    roles: Roles, train: pd.DataFrame, sample: pd.DataFrame, metric: str, probability: bool
) -> list[Target]:
    """Return the targets with their true values. The columns of ``train`` and ``sample`` are text. Raises NoClasses."""
    if len(roles.targets) > 1 and roles.label:
        return [Target(roles.targets, "probability", train[roles.label].to_numpy(object), roles.targets)]
    if len(roles.targets) > 1 and _is_one_hot(train[roles.targets]):
        y = np.asarray(roles.targets, dtype=object)[train[roles.targets].astype(float).to_numpy().argmax(axis=1)]
        return [Target(roles.targets, "probability", y, roles.targets)]
    return list(_single_targets(roles, train, sample, metric, probability))


def _single_targets(
    roles: Roles, train: pd.DataFrame, sample: pd.DataFrame, metric: str, probability: bool
) -> Iterator[Target]:
    for column in roles.targets:
        truth = train[roles.label or column]
        numbers = to_numbers(truth)
        numeric = bool(numbers.notna().all())
        classes = sorted(truth.unique())
        asked = to_numbers(sample[column])
        if set(classes) <= {"0", "1"} and len(roles.targets) > 1:  # even if one does not occur
            classes = ["0", "1"]
        between = bool(((asked > 0) & (asked < 1)).any())
        if sample[column].str.split().str.len().min() > 1 and not truth.str.contains(" ").any():
            raise NoClasses(f"{column!r} asks for several labels in each row")
        many = len(classes) > MANY_NUMBERS and metric != "accuracy"
        quantity = metric in ("rmse", "rmsle", "mae") or many or (between and len(classes) > 2)
        if numeric and (quantity or (numbers % 1 != 0).any()):
            yield Target([column], "regression", numbers.to_numpy(float), [])
        elif not 1 < len(classes) <= min(MAX_CLASSES, max(2, len(truth) // 2)):
            raise NoClasses(f"{column!r} is not a class: it has {len(classes)} values in {len(truth)} rows")
        elif len(classes) == 2 and asked.notna().all() and (between or probability):
            yield Target([column], "probability", truth.to_numpy(object), classes)
        else:
            yield Target([column], "labels", truth.to_numpy(object), classes)


def are_shares(table: pd.DataFrame) -> bool:
    """Return whether there are several columns, and every row sums to one."""
    sums = table.apply(to_numbers).sum(axis=1)
    return table.shape[1] > 1 and bool(np.allclose(sums, 1, atol=1e-3))


def _is_one_hot(table: pd.DataFrame) -> bool:
    numbers = table.apply(to_numbers)
    return bool(numbers.isin([0, 1]).all(axis=None) and (numbers.sum(axis=1) == 1).all())
