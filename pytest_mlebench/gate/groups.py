"""Finds groups of related rows, such as a patient's recordings, that are on both sides of the split."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from pytest_mlebench.authoring.archives import archive_errors
from pytest_mlebench.catalog.competition import Competition
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.data.preparing import call
from pytest_mlebench.data.tables import columns_of
from pytest_mlebench.errors import CompetitionError, DataError, GraderDefect, InvalidSubmission, reason
from pytest_mlebench.gate.golden import TOLERANCE
from pytest_mlebench.gate.public_files import PublicFile, entries, table, text_table
from pytest_mlebench.grading.scorer import Scorer
from pytest_mlebench.io.files import AnyPath

_ALONE = "patient|subject|speaker|vehicle"
_WITH_ID = f"{_ALONE}|sentence|book|recording|session|question|scene|trip|breath|molecule|person"
_GROUP = re.compile(rf"(^|[^a-z])(({_ALONE})|({_WITH_ID})[ _-]?(id|name|code|number|no))$", re.IGNORECASE)
_NAMED = re.compile(rb"(?i)" + _WITH_ID.encode())
_HEAD = 1 << 16
_CAMEL_CASE = re.compile(r"(?<=[a-z])(?=[A-Z])")


def shared_groups(competition: Competition, dataset: Dataset, opened: Sequence[PublicFile] | None = None) -> list[str]:
    """Return groups that are on both sides, one sentence per column; empty if none was found.

    Checks the ``groups`` declared in ``competition.yaml``. Also checks columns of public training tables that are named
    like a group, such as ``patient_id``, if the answers or a public test table have them too. ``opened`` are the public
    files, if already read. Raises CompetitionError if a declared file or column does not exist.
    """
    files = list(entries(dataset.public)) if opened is None else opened
    return list(dict.fromkeys([*_declared(competition, dataset), *_undeclared(dataset, files)]))


def _declared(competition: Competition, dataset: Dataset) -> Iterator[str]:
    for name, declared in competition.groups.items():
        sides = []
        for side in ("train", "test"):
            try:
                path = dataset.prepared / declared[side]
                with archive_errors(path):
                    rows = pd.read_csv(path, dtype=str, keep_default_na=False)
            except (OSError, ValueError, ImportError, DataError) as error:
                raise CompetitionError(
                    f"groups.{name}: {declared[side]} is not a readable table: {reason(error)}"
                ) from error
            if (column := declared["column"]) not in rows:
                raise CompetitionError(
                    f"groups.{name}: {declared[side]} has no column {column!r}: {', '.join(map(str, rows.columns))}"
                )
            values = rows[column]
            if pattern := declared.get("pattern"):
                values = values.str.extract(pattern, expand=True)[0].dropna()
            sides.append(set(values))
        if not sides[0] or not sides[1]:
            yield f"groups.{name}: {declared['train' if not sides[0] else 'test']} has no groups"
        yield from _shared(name, *sides)


def _undeclared(dataset: Dataset, opened: Sequence[PublicFile]) -> Iterator[str]:
    answers = text_table(dataset.answers)
    if answers is None:
        return
    key, ids = str(answers.columns[0]), set(answers.iloc[:, 0])
    targets = set(columns_of(dataset.sample_submission)) & set(answers.columns) - {key}
    test: dict[str, set[str]] = {column: set(answers[column]) for column in answers.columns}
    train: dict[str, set[str]] = {}
    for entry in opened:
        if (
            not _NAMED.search(entry.content[:_HEAD])
            or (rows := table(entry)) is None
            or not (names := [name for name in rows.columns if _is_group(name)])
        ):
            continue
        matches = max((rows[column].isin(ids).sum() for column in rows.columns), default=0) if key else 0
        is_test = matches >= len(ids) / 2
        if is_test and matches < len(rows) * 0.9:
            continue  # the table has rows of both sides
        if not is_test and "train" not in entry.name.lower() and not targets & set(rows.columns):
            continue
        for name in names:
            (test if is_test else train).setdefault(name, set()).update(set(rows[name]))
    for name in sorted(train.keys() & test.keys()):
        yield from _shared(name, train[name], test[name])


def _shared(name: str, train: set[str], test: set[str]) -> Iterator[str]:
    if shared := sorted((train & test) - {""}):
        first = shared[0][:80]
        yield f"{len(shared)} of {len(test)} groups ({name}) of the test set are also in the training data: {first!r}"


def _is_group(name: str) -> bool:
    return bool(_GROUP.search(_CAMEL_CASE.sub("_", name)))


_MAX_SHARE = 0.6
_MIN_ROWS = 20


def grader_problems(competition: Competition, dataset: Dataset, scratch: Path) -> tuple[list[str], list[str]]:
    """Return errors in how a grader handles rows, and medals that it gives for guesses, one sentence each.

    The perfect submission must score the same in another order, and be rejected with a missing, additional or repeated
    row. Guesses are the sample submission, and the most frequent true value in all rows. The latter is skipped
    if the synthetic data has few rows, or one value in most of them. ``scratch`` is a folder for submissions.
    """
    folders = dataset.folder, scratch
    options: dict[str, Any] = {"kind": _Problems, "read": [dataset.folder], "write": [scratch]}
    found: _Problems = call(grader_problems_here, competition, *folders, **options)
    return list(found.rows), list(found.guesses)


@dataclass(frozen=True)
class _Problems:
    rows: tuple[str, ...]
    guesses: tuple[str, ...]


def grader_problems_here(competition: Competition, root: AnyPath, place: AnyPath) -> dict[str, list[str]]:
    """Return the same as ``grader_problems`` by name, in this process."""
    dataset, path = Dataset(competition, Path(root)), Path(place, "rows.csv")
    scorer = Scorer(competition, dataset.answers)

    def score(rows: pd.DataFrame) -> float | None:
        """Return None if the rows are rejected or have no score."""
        rows.to_csv(path, index=False)
        try:
            found = float(scorer.score(path))
        except (InvalidSubmission, GraderDefect):
            return None
        return None if math.isnan(found) else found

    guesses = [
        f"{what} earns {medal}: it scores {found:g}"
        for what, rows in _guesses(dataset)
        if (found := score(rows)) is not None and (medal := competition.leaderboard.medal(round(found, 5)))
    ]
    return {"rows": list(_row_problems(dataset, score)), "guesses": guesses}


def _row_problems(dataset: Dataset, score: Callable[[pd.DataFrame], float | None]) -> Iterator[str]:
    rows = text_table(dataset.perfect_submission)
    if rows is None or len(rows) < 2 or (perfect := score(rows)) is None:  # then nothing can be checked
        return
    reverse = score(rows[::-1])
    if reverse is None or not math.isclose(perfect, reverse, rel_tol=1e-9, abs_tol=TOLERANCE):
        result = "nothing" if reverse is None else f"{reverse:g}"
        yield f"the order of rows matters: the perfect submission scores {perfect:g}, in reverse {result}"
    for what, wrong in (
        ("without its last row", rows[:-1]),
        ("with its last row twice", pd.concat([rows, rows.tail(1)])),
        ("with its last row in place of the first", pd.concat([rows[1:], rows.tail(1)])),
    ):
        if (found := score(wrong)) is not None:
            yield f"the perfect submission {what} scores {found:g}; it must be rejected"


def _guesses(dataset: Dataset) -> Iterator[tuple[str, pd.DataFrame]]:
    sample, perfect = text_table(dataset.sample_submission), text_table(dataset.perfect_submission)
    if sample is None or perfect is None:
        return
    targets = [column for column in sample.columns[1:] if column in perfect.columns and perfect[column].nunique() > 1]
    yield "the sample submission", sample
    shares = [perfect[column].value_counts(normalize=True).iloc[0] for column in targets]
    if targets and len(perfect) >= _MIN_ROWS and max(shares) <= _MAX_SHARE:
        modes = {column: perfect[column].mode()[0] for column in targets}
        yield "the most frequent true value in all rows", perfect.assign(**modes)
