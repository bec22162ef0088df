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


def row_problems(competition: Competition, dataset: Dataset, scratch: Path) -> list[str]:
    """What a grader does wrong with the rows of the perfect submission, a sentence for each; empty if nothing.

    In another order they must score the same; a missing, a surplus and a repeated row must be refused. ``scratch`` is
    a folder for the submissions.
    """
    return _confined(row_problems_here, competition, dataset, scratch)


def row_problems_here(competition: Competition, root: AnyPath, place: AnyPath) -> list[str]:
    """As ``row_problems``, in this process."""
    dataset, scratch = Dataset(competition, Path(root)), Path(place)
    rows = text_table(dataset.perfect_submission)
    if rows is None or len(rows) < 2:
        return []
    scorer = Scorer(competition, dataset.answers)
    score, backwards = _score(scorer, rows, scratch), _score(scorer, rows[::-1], scratch)
    found = []
    if score is None:  # then nothing can be told
        return []
    if backwards is None or not math.isclose(score, backwards, rel_tol=1e-9, abs_tol=_SAME):
        found.append(
            f"the order of rows matters: the perfect submission scores {_shown(score)}, backwards {_shown(backwards)}"
        )
    for what, wrong in (
        ("without its last row", rows[:-1]),
        ("with its last row twice", pd.concat([rows, rows.tail(1)])),
        ("with its last row in place of the first", pd.concat([rows[1:], rows.tail(1)])),
    ):
        if (given := _score(scorer, wrong, scratch)) is not None:
            found.append(f"the perfect submission {what} scores {given:g}; it must be refused")
    return found


def medals_for_guesses(competition: Competition, dataset: Dataset, scratch: Path) -> list[str]:
    """Medals that the sample submission earns, or one value in all rows, a sentence for each; empty if none.

    Synthetic data tells it only if it has some rows, and no value is the true one in most of them.
    """
    return _confined(medals_for_guesses_here, competition, dataset, scratch)


def medals_for_guesses_here(competition: Competition, root: AnyPath, place: AnyPath) -> list[str]:
    """As ``medals_for_guesses``, in this process."""
    dataset, scratch = Dataset(competition, Path(root)), Path(place)
    scorer = Scorer(competition, dataset.answers)
    found = []
    for what, rows in _guesses(dataset):
        score = _score(scorer, rows, scratch)
        if score is not None and (medal := competition.leaderboard.medal(round(score, 5))):
            found.append(f"{what} earns {medal}: it scores {score:g}")
    return found


def _confined(
    find: Callable[[Competition, AnyPath, AnyPath], list[str]],
    competition: Competition,
    dataset: Dataset,
    scratch: Path,
) -> list[str]:
    return list(map(str, call(find, competition, dataset.folder, scratch, read=[dataset.folder], write=[scratch])))


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


def _score(scorer: Scorer, rows: pd.DataFrame, scratch: Path) -> float | None:
    """None where they are refused, or have no score."""
    path = scratch / "rows.csv"
    rows.to_csv(path, index=False)
    try:
        score = float(scorer.score(path))
    except (InvalidSubmission, GraderDefect):
        return None
    return None if math.isnan(score) else score


def _shown(score: float | None) -> str:
    return "nothing" if score is None else f"{score:g}"
