"""An honest agent without a language model.

It reads the public tables, texts, pictures, scans, sounds and series, and infers the task from the sample submission.
It compares a few scikit-learn pipelines by cross-validation, and submits the predictions of the best one, or the mean
of the best ones. Masks and boxes come from a model of single pixels, texts from training answers and the given text.
Recommendations, forecasts, tracks, directions and orders each have a separate module. The submission exists from the
first second (as a copy of the sample) and is replaced by each improvement, so the time can end at any moment. If there
is no model for the task (such as for videos), the agent logs this and the copy remains.
"""

from __future__ import annotations

import logging
import math
import os
import re
import shutil
import signal
import sys
import time
import warnings
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from tables import SEED, Source, find_sample, find_tables, find_test_in_form, to_numbers
from task import (
    CannotSolve,
    NoClasses,
    Roles,
    Target,
    are_shares,
    find_roles,
    find_targets,
    metric_of,
    wants_probability,
)

if TYPE_CHECKING:
    from attempts import Attempt
    from media import Frame

TIME_SHARE = 0.6
"""Share of the time limit that is used: an interrupted fit may stop late."""
MAX_SECONDS = 3600.0
MEDIA_SHARE = 0.3
"""Share of that time for reading pictures and sounds."""
MAX_ROWS = 60_000
MAX_CELLS = 20_000_000

_PLACE = "place in the submission"

log = logging.getLogger("baseline")


class TimeUp(BaseException):
    """The agent's own time limit is over. A BaseException, so that no ``except Exception`` catches it."""


def main() -> int:
    started = time.monotonic()
    data, submission, logs, code = (
        Path(os.environ.get(f"{name}_DIR", f"/home/{name.lower()}")) for name in ("DATA", "SUBMISSION", "LOGS", "CODE")
    )
    for folder in (submission, logs, code):
        folder.mkdir(parents=True, exist_ok=True)
    handlers = [logging.StreamHandler(sys.stdout), logging.FileHandler(logs / "baseline.log", encoding="utf-8")]
    logging.basicConfig(level=logging.INFO, format="%(message)s", handlers=handlers)
    warnings.simplefilter("ignore")  # one per fold and model would flood the log
    programs = Path(__file__).parent
    if not programs.samefile(code):
        for path in programs.glob("*.py"):
            shutil.copyfile(path, code / path.name)
        shutil.copyfile(programs / "start.sh", code / "reproduce.sh")

    log.info("competition: %s", os.environ.get("COMPETITION_ID", "unknown"))
    tables = find_tables(data)
    sample = find_sample(tables) or find_test_in_form(data)
    if sample is None:
        log.info("there is no sample submission in %s, so this agent cannot infer the task", data)
        return 0
    target = submission / "submission.csv"
    _replace(target, sample.copy)
    log.info("submission: initially a copy of %s", sample.name)
    limit = float(os.environ.get("TIME_LIMIT_SECS") or 24 * 3600)
    try:
        seconds = min(TIME_SHARE * limit, MAX_SECONDS) - (time.monotonic() - started)
        _set_alarm(seconds)
        solve(data, [table for table in tables if table != sample], sample, target, seconds)
    except CannotSolve as reason:
        log.info("this agent has no model for this competition, so the sample submission remains: %s", reason)
    except TimeUp:
        log.info("the time is over; the submission is the best so far")
    except Exception:
        log.exception("something failed; the submission is the best so far")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    log.info("done after %.1f s", time.monotonic() - started)
    return 0


def _roles(data: Path, sample: pd.DataFrame, tables: list[Source], seconds: float) -> Roles:
    """Find the training data: files that the ids name, otherwise tables. Raises CannotSolve."""
    from arrays import array_tables
    from joining import joined_tables
    from media import media_tables
    from sequences import measured_tables, sequence_tables

    ways = (
        lambda: media_tables(data, sample, tables, MEDIA_SHARE * seconds),
        lambda: sequence_tables(sample, tables),
        lambda: measured_tables(sample, tables),
        lambda: joined_tables(sample, tables),
        lambda: array_tables(data, sample),
    )
    for way in ways:
        try:
            made = way()
        except Exception as error:  # the original tables may still be enough
            log.info("left out: %s: %s", type(error).__name__, str(error)[:300])
            continue
        if made:
            log.info("generated rows: %d for training, %d for the test", *(len(frame.table) for frame in made))
            return find_roles(sample, made)
    return find_roles(sample, [_with_joined_id(table, sample) for table in tables])


def _with_joined_id(table: Source, sample: pd.DataFrame) -> Source | Frame:
    """Add the submission's id to a test table, if the id joins the values of two of its columns."""
    from media import Frame

    id, example = sample.columns[0], str(sample.iloc[0, 0])
    names = table.columns() if "test" in table.name and "_" in example else []
    if id in names or len(names) < 2:
        return table
    rows = table.read()
    for first, second in permutations(names[:6], 2):
        joined = rows[first] + "_" + rows[second]
        if sample[id].isin(set(joined)).all():
            return Frame(table.name, rows.assign(**{id: joined}))
    return table


def solve(data: Path, tables: list[Source], sample_source: Source, submission: Path, seconds: float) -> None:
    """Improve the submission step by step within this time. Raises CannotSolve if there is no model for the task."""
    path = data / "description.md"
    description = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    metric = metric_of(description)
    sample = sample_source.read()
    if re.fullmatch(r"|Unnamed: 0", sample.columns[0]) and len(sample.columns) > 2:  # row numbers
        sample = sample.set_index(sample.columns[0]).rename_axis("")
    if _solve_otherwise(data, sample, tables, submission, description):
        return
    if _solve_pixels(data, sample, tables, submission, description):
        return
    roles = _roles(data, sample, tables, seconds)
    log.info("tables: %s and %s; metric: %s", roles.train.name, roles.test.name, metric or "not named")
    log.info(
        "id: %s; target: %s", ", ".join(roles.ids), ", ".join([*roles.targets[:10], *["…"][: len(roles.targets) > 10]])
    )

    answers = [roles.label] if roles.label else roles.targets
    train = roles.train.read(as_text=[*answers, *(c for c in roles.ids if c in roles.train.columns())])
    train = train[(train[answers] != "").all(axis=1)]
    rows = min(MAX_ROWS, MAX_CELLS // len(roles.features))
    if len(train) > rows:
        log.info("using %d of %d training rows", rows, len(train))
        train = train.sample(rows, random_state=SEED)
    if len(train) < 10:
        raise CannotSolve(f"there are only {len(train)} training rows")
    test, places = _in_order(roles, sample)
    try:
        targets = find_targets(roles, train, sample, metric, wants_probability(description, metric))
    except NoClasses as reason:
        if len(roles.targets) != 1:
            raise CannotSolve(str(reason)) from reason
        _write_texts(roles, sample, submission)
        return
    for target in targets[:10]:
        classes = f" of {len(target.classes)} classes" if target.classes else ""
        log.info("%s: %s%s", ", ".join(target.columns[:10]), target.kind, classes)
    improve(roles, train, test, targets, metric,
        lambda attempt: _write(attempt.averaged(places), targets, sample, submission))  # fmt: skip


def _solve_pixels(data: Path, sample: pd.DataFrame, tables: list[Source], submission: Path, description: str) -> bool:
    """Predict masks or pixel values; returns False if the sample does not ask for them."""
    from masks import asks_for_pixels, submissions

    if not asks_for_pixels(data, sample, tables):
        return False
    try:
        for made in submissions(data, sample, tables, description):
            _replace(submission, lambda path, made=made: _save(made, path))
            log.info("submission: a model of pixels")
    except CannotSolve as reason:  # the numbers may be labels
        log.info("no masks: %s", reason)
        return False
    return True


def _solve_otherwise(
    data: Path, sample: pd.DataFrame, tables: list[Source], submission: Path, description: str
) -> bool:
    """Solve tasks that have a separate module, such as lists of items; returns False if this is not one of them."""
    from boxes import box_submission
    from clouds import cloud_submission
    from completing import completed
    from events import directions
    from forecasting import forecasts
    from listings import classes_of_recordings
    from ordering import orders
    from parts import part_submission
    from positions import positions
    from recommending import recommendations
    from runs import sequence_submission
    from versions import version_submission

    ways = {
        "boxes": lambda: box_submission(data, sample, tables),
        "runs of sound": lambda: sequence_submission(data, sample, tables),
        "boxes in clouds of points": lambda: cloud_submission(data, sample, tables),
        "parts of scans": lambda: part_submission(data, sample, tables, description),
        "versions of pictures": lambda: version_submission(data, sample, description),
        "orders": lambda: orders(data, sample, tables),
        "recommendations": lambda: recommendations(sample, tables),
        "forecasts": lambda: forecasts(sample, tables),
        "positions": lambda: positions(data, sample),
        "directions": lambda: directions(data, sample, tables),
        "completed sentences": lambda: completed(data, sample),
        "classes of recordings": lambda: classes_of_recordings(data, sample),
    }
    for name, way in ways.items():
        try:
            made = way()
        except Exception as error:  # the tables may still be enough
            log.info("no %s: %s: %s", name, type(error).__name__, str(error)[:300])
            continue
        if made is not None:
            _replace(submission, lambda path, made=made: _save(made, path))
            log.info("submission: %s", name)
            return True
    return False


def _write_texts(roles: Roles, sample: pd.DataFrame, submission: Path) -> None:
    from answers import text_answers

    train, test = roles.train.read(), roles.test.read()
    answer, id = roles.label or roles.targets[0], roles.ids[0]
    features = [name for name in roles.features if name in test and name in train and name != id]
    rows = test.drop_duplicates(id).set_index(id, drop=False).reindex(sample[id])
    if rows[id].isna().any():
        raise CannotSolve(f"{roles.test.name} lacks rows that the sample submission asks for")
    asked, given = (_kinds_of_words(own) for own in (sample[roles.targets[0]].iloc[0], train[answer].iloc[0]))
    if asked and not given.startswith(asked[:4]) and len(set(asked)) > 1:
        raise CannotSolve(f"{answer!r} has answers in a different format than the sample submission")
    lengths = sample[roles.targets[0]].str.split().str.len()
    single = not train[answer].str.strip().str.contains(" ").any()
    count = int(lengths.iloc[0]) if single and lengths.iloc[0] > 1 and lengths.nunique() == 1 else 0
    texts = text_answers(train, rows, features, answer, count)
    table = sample.assign(**{roles.targets[0]: texts})
    _replace(submission, lambda path: _save(table, path))
    log.info("submission: written texts")


def _kinds_of_words(text: str) -> str:
    """Return a letter for each word: n for whole numbers, w for others."""
    return "".join("n" if word.isdecimal() else "w" for word in text.split())


def improve(
    roles: Roles,
    train: pd.DataFrame,
    test: pd.DataFrame,
    targets: list[Target],
    metric: str,
    write: Callable[[Attempt], None],
) -> None:
    """Fit all candidates, and write the submission for each that is better than all before."""
    # Importing scikit-learn takes seconds, so this is done only if there is something to fit.
    from attempts import attempts, blend, score
    from models import Features

    features = Features(train[roles.features])
    if not features:
        raise CannotSolve("no column of the tables is useful: all are names, or the same in every row")
    log.info("features: %s", features.describe())
    scored: list[tuple[float, Attempt]] = []
    best = -math.inf

    def consider(attempt: Attempt) -> None:
        nonlocal best
        value = score(attempt, targets, metric)
        scored.append((value, attempt))
        log.info("%s: %.5f in cross-validation", attempt.name, value)
        if value > best:
            best = value
            write(attempt)

    for attempt in attempts(features, features.table(train), features.table(test), targets, metric):
        consider(attempt)
    if not scored:
        raise CannotSolve("no model could be fitted")
    ranked = [attempt for _, attempt in sorted(scored, key=lambda pair: -pair[0])]
    for count in range(2, len(ranked) + 1):
        consider(blend(ranked[:count]))


def _in_order(roles: Roles, sample: pd.DataFrame) -> tuple[pd.DataFrame, np.ndarray]:
    """Return the test rows that the sample submission asks for, and the submission's row for each of them."""
    test = roles.test.read(as_text=roles.ids)
    if len(test) == len(sample) and (test[roles.ids].to_numpy() == sample[roles.ids].to_numpy()).all():
        return test, np.arange(len(sample))
    wanted = sample[roles.ids].assign(**{_PLACE: np.arange(len(sample))})
    found = wanted.merge(test, on=roles.ids, how="inner")
    if found[_PLACE].nunique() < len(sample):
        raise CannotSolve(f"{roles.test.name} lacks rows that the sample submission asks for")
    return found.drop(columns=_PLACE), found[_PLACE].to_numpy()


def _write(attempt: Attempt, targets: list[Target], sample: pd.DataFrame, submission: Path) -> None:
    """Write the sample submission with the predictions instead of its values."""
    table = sample.copy()
    for predicted, target in zip(attempt.test, targets, strict=True):
        if target.kind == "regression":
            table[target.columns[0]] = predicted[:, 0]
        elif target.kind == "labels":
            labels = np.asarray(target.classes, dtype=object)[predicted.argmax(axis=1)]
            table[target.columns[0]] = _as_in(sample[target.columns[0]], labels)
        else:
            shares = predicted / predicted.sum(axis=1, keepdims=True)
            # A single column asks for the probability of the last class: 1, True, yes.
            table[target.columns] = shares if len(target.columns) > 1 else shares[:, -1:]
    columns = [column for target in targets for column in target.columns]
    if len(targets) > 1 and are_shares(sample[columns]):
        shares = table[columns].astype(float).clip(lower=1e-6)
        table[columns] = shares.div(shares.sum(axis=1), axis=0)
    _replace(submission, lambda path: _save(table, path))
    log.info("submission: %s", attempt.name)


def _as_in(sample: pd.Series, labels: np.ndarray) -> np.ndarray:
    """Return the labels in the sample submission's format: as whole numbers if all of its values are."""
    if not sample.str.fullmatch(r"-?\d+").all():
        return labels
    numbers = to_numbers(pd.Series(labels).replace({"False": 0, "True": 1}))
    return labels if numbers.isna().any() else numbers.astype(int).to_numpy()


def _save(table: pd.DataFrame, path: Path) -> None:
    table.to_csv(path, index=table.index.name is not None)


def _replace(path: Path, write: Callable[[Path], object]) -> None:
    """Replace a file atomically, so that it is always complete, even if this process is stopped."""
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
