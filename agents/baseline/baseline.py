"""An honest agent without a language model.

It reads the public tables, infers from the sample submission what is asked for, compares a few scikit-learn pipelines
by cross-validation, and leaves the best one's predictions, or those of the best ones' mean. The submission is there
from the first second (a copy of the sample) and replaced whenever something better is found, so that the end of the
time may come at any moment. Where it has no model (pictures, sounds, free texts to write), it says so and the copy
stays.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import numpy as np
import pandas as pd
from models import Features, classifiers, regressors
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, mean_absolute_error, roc_auc_score, root_mean_squared_error
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.pipeline import Pipeline
from tables import Source, find_sample, find_tables
from task import CannotSolve, Roles, Target, find_roles, find_targets, metric_of, wants_probability

TIME_SHARE = 0.6
"""Of the time limit: an interrupted fit may take a while to notice."""
MAX_SECONDS = 3600.0
MAX_ROWS = 60_000
MAX_CELLS = 20_000_000

log = logging.getLogger("baseline")


class TimeUp(Exception):
    """The time that this agent gives itself is over."""


@dataclass(frozen=True)
class Attempt:
    """A model's predictions, for each target: of the training rows, by models that did not see them, and of the test.

    Shape (rows, classes) for classification, (rows, 1) for regression.
    """

    name: str
    train: list[np.ndarray]
    test: list[np.ndarray]


def main() -> int:
    started = time.monotonic()
    data, submission, logs, code = (
        Path(os.environ.get(f"{name}_DIR", f"/home/{name.lower()}")) for name in ("DATA", "SUBMISSION", "LOGS", "CODE")
    )
    for folder in (submission, logs, code):
        folder.mkdir(parents=True, exist_ok=True)
    handlers = [logging.StreamHandler(sys.stdout), logging.FileHandler(logs / "baseline.log", encoding="utf-8")]
    logging.basicConfig(level=logging.INFO, format="%(message)s", handlers=handlers)
    warnings.simplefilter("ignore", ConvergenceWarning)
    for path in Path(__file__).parent.glob("*.py"):
        shutil.copyfile(path, code / path.name)

    log.info("competition: %s", os.environ.get("COMPETITION_ID", "unknown"))
    tables = find_tables(data)
    sample = find_sample(tables)
    if sample is None:
        log.info("there is no sample submission in %s: this agent cannot know what is asked for", data)
        return 0
    target = submission / "submission.csv"
    _replace(target, sample.copy)
    log.info("submission: a copy of %s, for a start", sample.name)
    limit = float(os.environ.get("TIME_LIMIT_SECS") or 24 * 3600)
    try:
        _set_alarm(min(TIME_SHARE * limit, MAX_SECONDS) - (time.monotonic() - started))
        solve(data, [table for table in tables if table != sample], sample, target)
    except CannotSolve as reason:
        log.info("this agent has no model for this competition, the sample submission stays: %s", reason)
    except TimeUp:
        log.info("the time is over; the submission is the best so far")
    except Exception:
        log.exception("something failed; the submission is the best so far")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    log.info("done after %.1f s", time.monotonic() - started)
    return 0


def solve(data: Path, tables: list[Source], sample_source: Source, submission: Path) -> None:
    """Improve the submission step by step; raises CannotSolve where there is no way to."""
    path = data / "description.md"
    description = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    metric = metric_of(description)
    sample = sample_source.read()
    roles = find_roles(sample, tables)
    log.info("tables: %s and %s; metric: %s", roles.train.name, roles.test.name, metric or "not told")
    log.info(
        "id: %s; target: %s", ", ".join(roles.ids), ", ".join([*roles.targets[:10], *["…"][: len(roles.targets) > 10]])
    )

    answers = [roles.label] if roles.label else roles.targets
    train = roles.train.read(as_text=[*answers, *(c for c in roles.ids if c in roles.train.columns())])
    train = train[(train[answers] != "").all(axis=1)]
    rows = min(MAX_ROWS, MAX_CELLS // len(roles.features))
    if len(train) > rows:
        log.info("of %d training rows %d are used", len(train), rows)
        train = train.sample(rows, random_state=0)
    if len(train) < 10:
        raise CannotSolve(f"there are {len(train)} training rows")
    test = _in_order(roles, sample)
    targets = find_targets(roles, train, sample, metric, wants_probability(description, metric))
    for target in targets[:10]:
        classes = f" of {len(target.classes)} classes" if target.classes else ""
        log.info("%s: %s%s", ", ".join(target.columns[:10]), target.kind, classes)
    features = Features(train[roles.features])
    if not features:
        raise CannotSolve("no column of the tables tells anything: names only, or the same in every row")
    log.info("features: %s", features.describe())

    attempts: list[tuple[float, Attempt]] = []
    for attempt in _attempts(features, features.table(train), features.table(test), targets, metric):
        score = _score(attempt, targets, metric)
        attempts.append((score, attempt))
        log.info("%s: %.5f in cross-validation", attempt.name, score)
        if score >= max(other for other, _ in attempts):
            _write(attempt, targets, sample, submission)
    if not attempts:
        raise CannotSolve("no model could be fitted")
    attempts.sort(key=lambda pair: -pair[0])
    best = attempts[0][0]
    for count in range(2, len(attempts) + 1):
        blend = _blend([attempt for _, attempt in attempts[:count]])
        score = _score(blend, targets, metric)
        log.info("%s: %.5f", blend.name, score)
        if score > best:
            best = score
            _write(blend, targets, sample, submission)


def _in_order(roles: Roles, sample: pd.DataFrame) -> pd.DataFrame:
    """The test rows that the sample submission asks for, in its order."""
    test = roles.test.read(as_text=roles.ids).set_index(roles.ids)
    wanted = pd.MultiIndex.from_frame(sample[roles.ids]) if len(roles.ids) > 1 else pd.Index(sample[roles.ids[0]])
    if not test.index.is_unique:
        raise CannotSolve(f"a row of the submission stands for several rows of {roles.test.name}")
    if not wanted.isin(test.index).all():
        raise CannotSolve(f"{roles.test.name} lacks rows that the sample submission asks for")
    return test.loc[wanted].reset_index(drop=True)


def _attempts(
    features: Features, train: pd.DataFrame, test: pd.DataFrame, targets: list[Target], metric: str
) -> Iterator[Attempt]:
    """Fit the candidates one after the other; one that fails is logged and left out."""
    models = [
        dict(regressors(features, len(train)) if not t.classes else classifiers(features, len(train), len(t.classes)))
        for t in targets
    ]
    for name in models[0]:
        started = time.monotonic()
        try:
            # A target of another kind may have no candidate of this name: it takes its first one.
            pairs = [
                _predictions(named.get(name, next(iter(named.values()))), target, train, test, metric)
                for named, target in zip(models, targets, strict=True)
            ]
        except TimeUp:
            raise
        except Exception as error:
            log.info("%s: left out, %s: %s", name, type(error).__name__, str(error)[:300])
            continue
        log.info("%s: fitted in %.1f s", name, time.monotonic() - started)
        yield Attempt(name, [held_out for held_out, _ in pairs], [unseen for _, unseen in pairs])


def _predictions(
    model: Pipeline, target: Target, train: pd.DataFrame, test: pd.DataFrame, metric: str
) -> tuple[np.ndarray, np.ndarray]:
    """Predictions of the training rows, each by a model fitted without it, and of the test rows."""
    logarithmic = metric == "rmsle" and target.y.min() >= 0
    y = np.log1p(target.y) if logarithmic else target.y
    folds = 5 if len(train) <= 5_000 else 3
    splitter = KFold(folds, shuffle=True, random_state=0)
    if target.classes and pd.Series(y).value_counts().max() >= folds:
        splitter = StratifiedKFold(folds, shuffle=True, random_state=0)

    def predict(rows: np.ndarray, table: pd.DataFrame) -> np.ndarray:
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


def _blend(attempts: list[Attempt]) -> Attempt:
    """The mean of several attempts."""
    train = [np.mean(parts, axis=0) for parts in zip(*(attempt.train for attempt in attempts), strict=True)]
    test = [np.mean(parts, axis=0) for parts in zip(*(attempt.test for attempt in attempts), strict=True)]
    return Attempt(f"mean of {', '.join(attempt.name for attempt in attempts)}", train, test)


def _score(attempt: Attempt, targets: list[Target], metric: str) -> float:
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


def _write(attempt: Attempt, targets: list[Target], sample: pd.DataFrame, submission: Path) -> None:
    """The sample submission with the predictions in place of its values."""
    table = sample.copy()
    for predicted, target in zip(attempt.test, targets, strict=True):
        if target.kind == "regression":
            table[target.columns[0]] = predicted[:, 0]
        elif target.kind == "labels":
            labels = np.asarray(target.classes, dtype=object)[predicted.argmax(axis=1)]
            table[target.columns[0]] = _as_in(sample[target.columns[0]], labels)
        else:
            shares = predicted / predicted.sum(axis=1, keepdims=True)
            # One column asks for the class that comes last: 1, True, yes.
            table[target.columns] = shares if len(target.columns) > 1 else shares[:, -1:]
    _replace(submission, lambda path: table.to_csv(path, index=False))
    log.info("submission: %s", attempt.name)


def _as_in(sample: pd.Series, labels: np.ndarray) -> np.ndarray:
    """The labels as the sample submission writes such: as whole numbers where all of its values are."""
    if not sample.str.fullmatch(r"-?\d+").all():
        return labels
    numbers = pd.to_numeric(pd.Series(labels).replace({"False": 0, "True": 1}), errors="coerce")
    return labels if numbers.isna().any() else numbers.astype(int).to_numpy()


def _replace(path: Path, write: Callable[[Path], object]) -> None:
    """Write a file in one go: whoever looks, or stops us, finds the old one or the new one."""
    new = path.with_name(f".{path.name}.new")
    write(new)
    new.replace(path)


def _set_alarm(seconds: float) -> None:
    def ring(number: int, frame: FrameType | None) -> None:
        raise TimeUp

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.1))


if __name__ == "__main__":
    sys.exit(main())
