"""Whether groups of rows that belong together, such as the recordings of a patient, are on both sides of the split."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence

import pandas as pd

from pytest_mlebench.catalog.competition import Competition
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.errors import CompetitionError, reason
from pytest_mlebench.grading.public_files import PublicFile, entries, table

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
                raise CompetitionError(f"groups.{name}: {where[side]} is no readable table: {reason(error)}") from error
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
    answers = _read(dataset)
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


def _read(dataset: Dataset) -> pd.DataFrame | None:
    try:
        return pd.read_csv(dataset.answers, dtype=str, keep_default_na=False)
    except (ValueError, pd.errors.ParserError):
        return None
