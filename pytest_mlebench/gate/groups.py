"""Whether groups of rows that belong together, such as the recordings of a patient, are on both sides of the split."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pandas as pd

from pytest_mlebench.catalog.competition import Competition
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.data.preparing import call
from pytest_mlebench.errors import CompetitionError, GraderDefect, InvalidSubmission, reason
from pytest_mlebench.gate.public_files import PublicFile, entries, table, text_table
from pytest_mlebench.grading.scorer import Scorer
from pytest_mlebench.io.files import AnyPath

_ALONE = "patient|subject|speaker|vehicle"
_WITH_ID = f"{_ALONE}|sentence|book|recording|session|question|scene|trip|breath|molecule|person"
_GROUP = re.compile(rf"(^|[^a-z])(({_ALONE})|({_WITH_ID})[ _-]?(id|name|code|number|no))$", re.IGNORECASE)
_NAMED = re.compile(rb"(?i)" + _WITH_ID.encode())
_HEAD = 1 << 16
_HUMPED = re.compile(r"(?<=[a-z])(?=[A-Z])")


def shared_groups(competition: Competition, dataset: Dataset, opened: Sequence[PublicFile] | None = None) -> list[str]:
    """Groups on both sides, a sentence for each column; empty if none was found.

    Looks at what ``groups`` of the ``competition.yaml`` declares, and at columns of public tables with training data
    that have the name of a group, such as ``patient_id``, and are in the answers or in a public table of the test, too.
    ``opened`` are the public files, where they were read before. Raises CompetitionError where a file or a column that
    is declared is not there.
    """
    files = list(entries(dataset.public)) if opened is None else opened
    return list(dict.fromkeys([*_declared(competition, dataset), *_found(dataset, files)]))


def _declared(competition: Competition, dataset: Dataset) -> Iterator[str]:
    for name, where in competition.groups.items():
        sides = []
        for side in ("train", "test"):
            try:
                rows = pd.read_csv(dataset.prepared / where[side], dtype=str, keep_default_na=False)
            except (OSError, ValueError) as error:
                raise CompetitionError(
                    f"groups.{name}: {where[side]} is not a readable table: {reason(error)}"
                ) from error
            if (column := where["column"]) not in rows:
                raise CompetitionError(
                    f"groups.{name}: {where[side]} has no column {column!r}: {', '.join(map(str, rows.columns))}"
                )
            values = rows[column]
            if pattern := where.get("pattern"):
                values = values.str.extract(pattern, expand=True)[0].dropna()
            sides.append(set(values))
        if not sides[0] or not sides[1]:
            yield f"groups.{name}: {where['train' if not sides[0] else 'test']} has none"
        yield from _shared(name, *sides)


def _found(dataset: Dataset, opened: Sequence[PublicFile]) -> Iterator[str]:
    answers = text_table(dataset.answers)
    if answers is None:
        return
    key, ids = str(answers.columns[0]), set(answers.iloc[:, 0])
    asked = set(_columns(dataset)) & set(answers.columns) - {key}
    test: dict[str, set[str]] = {column: set(answers[column]) for column in answers.columns}
    train: dict[str, set[str]] = {}
    for entry in opened:
        if (
            not _NAMED.search(entry.content[:_HEAD])
            or (rows := table(entry)) is None
            or not (named := [name for name in rows.columns if _is_group(name)])
        ):
            continue
        held = max((rows[column].isin(ids).sum() for column in rows.columns), default=0) if key else 0
        is_test = held >= len(ids) / 2
        if is_test and held < len(rows) * 0.9:
            continue  # a table of both sides
        if not is_test and "train" not in entry.name.lower() and not asked & set(rows.columns):
            continue
        for name in named:
            (test if is_test else train).setdefault(name, set()).update(set(rows[name]))
    for name in sorted(train.keys() & test.keys()):
        yield from _shared(name, train[name], test[name])


def _shared(name: str, train: set[str], test: set[str]) -> Iterator[str]:
    if shared := sorted((train & test) - {""}):
        first = shared[0][:80]
        yield f"{len(shared)} of {len(test)} groups ({name}) of the test are in the training data: {first!r}"


def _is_group(name: str) -> bool:
    return bool(_GROUP.search(_HUMPED.sub("_", name)))


def _columns(dataset: Dataset) -> list[str]:
    """The columns that a submission is asked for."""
    with dataset.sample_submission.open(encoding="utf-8", errors="replace") as file:
        return next(csv.reader([file.readline()]), [])


_SAME = 5.1e-6
_MOSTLY = 0.6
_FEW = 20


def grader_problems(competition: Competition, dataset: Dataset, scratch: Path) -> tuple[list[str], list[str]]:
    """What a grader does wrong with rows, and the medals that it gives for guesses, a sentence for each.

    The perfect submission must score the same in another order, and be refused with a missing, a surplus or a repeated
    row. Guesses are the sample submission, and one value in all rows: synthetic data tells what that earns only if it
    has some rows, and no value is the true one in most of them. ``scratch`` is a folder for the submissions.
    """
    places = dataset.folder, scratch
    rows, guesses = call(grader_problems_here, competition, *places, read=[dataset.folder], write=[scratch])
    return list(map(str, rows)), list(map(str, guesses))


def grader_problems_here(competition: Competition, root: AnyPath, place: AnyPath) -> tuple[list[str], list[str]]:
    """As ``grader_problems``, in this process."""
    dataset, path = Dataset(competition, Path(root)), Path(place, "rows.csv")
    scorer = Scorer(competition, dataset.answers)

    def score(rows: pd.DataFrame) -> float | None:
        """None where they are refused, or have no score."""
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
    return list(_row_problems(dataset, score)), guesses


def _row_problems(dataset: Dataset, score: Callable[[pd.DataFrame], float | None]) -> Iterator[str]:
    rows = text_table(dataset.perfect_submission)
    if rows is None or len(rows) < 2 or (perfect := score(rows)) is None:  # then nothing can be told
        return
    backwards = score(rows[::-1])
    if backwards is None or not math.isclose(perfect, backwards, rel_tol=1e-9, abs_tol=_SAME):
        shown = "nothing" if backwards is None else f"{backwards:g}"
        yield f"the order of rows matters: the perfect submission scores {perfect:g}, backwards {shown}"
    for what, wrong in (
        ("without its last row", rows[:-1]),
        ("with its last row twice", pd.concat([rows, rows.tail(1)])),
        ("with its last row in place of the first", pd.concat([rows[1:], rows.tail(1)])),
    ):
        if (given := score(wrong)) is not None:
            yield f"the perfect submission {what} scores {given:g}; it must be refused"


def _guesses(dataset: Dataset) -> Iterator[tuple[str, pd.DataFrame]]:
    sample, perfect = text_table(dataset.sample_submission), text_table(dataset.perfect_submission)
    if sample is None or perfect is None:
        return
    asked = [column for column in sample.columns[1:] if column in perfect.columns and perfect[column].nunique() > 1]
    yield "the sample submission", sample
    shares = [perfect[column].value_counts(normalize=True).iloc[0] for column in asked]
    if asked and len(perfect) >= _FEW and max(shares) <= _MOSTLY:
        usual = {column: perfect[column].mode()[0] for column in asked}
        yield "the most frequent true value in all rows", perfect.assign(**usual)
