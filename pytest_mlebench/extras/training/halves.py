"""Two halves of a test set's rows: rewards during an episode come from one, the final report from the other.

A step's result must not depend on the answers of the final report, since an agent could optimise against them. A half
is a separate data set with the answers of its rows; it grades a submission's rows with the same ids. There are no
halves if the answers are not a table with the sample submission's ids.
"""

from __future__ import annotations

import csv
import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from pytest_mlebench.authoring.tables import read_text_csv, write_csv
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.errors import CompetitionError, DataError
from pytest_mlebench.grading.grader import Grader
from pytest_mlebench.records.outcome import Report

_MAX_FIELD = 1 << 24
NAMES = ("validation", "test")


@dataclass(frozen=True, kw_only=True)
class Half:
    """One half of the rows, and its grader."""

    column: str
    others: frozenset[str]
    """The ids of the other half, whose rows are left out of a submission."""
    grader: Grader
    folder: Path

    def report(self, submission: Path, *, certainty: bool = True) -> Report:
        """Grade this half of a submission. Rows with unknown ids stay in it, so that the grader rejects them."""
        half = self.folder / submission.name
        try:
            self._write(submission, half)
        except (OSError, ValueError, csv.Error) as error:
            found = self.grader.report(submission, certainty=False)  # reports what is wrong with the file
            return replace(found, score=None, valid_submission=False, error=found.error or str(error))
        return self.grader.report(half, certainty=certainty)

    def _write(self, submission: Path, half: Path) -> None:
        csv.field_size_limit(_MAX_FIELD)
        with (
            submission.open(encoding="utf-8-sig", newline="") as source,
            half.open("w", encoding="utf-8", newline="") as target,
        ):
            rows, writer = csv.reader(source), csv.writer(target)
            header = next(rows, [])
            index = header.index(self.column) if self.column in header else None
            writer.writerow(header)
            for row in rows:
                if index is None or index >= len(row) or row[index] not in self.others:
                    writer.writerow(row)


def halves(dataset: Dataset, scratch: Path, secret: str) -> tuple[Half, Half] | None:
    """Create the validation half and the test half of prepared data, with their answers in ``scratch``. Returns None
    if no column identifies the rows. ``secret`` determines the half of each row."""
    if dataset.answers.suffix != ".csv" or dataset.sample_submission.suffix != ".csv":
        return None
    answers, sample = read_text_csv(dataset.answers), read_text_csv(dataset.sample_submission)
    column = next((name for name in sample.columns if name in answers and _are_ids(sample[name], answers[name])), None)
    if column is None:
        return None
    is_first = answers[column].map(lambda id: hashlib.sha256(f"{secret} {id}".encode()).digest()[0] % 2 == 0)
    result = []
    for name, in_half in zip(NAMES, (is_first, ~is_first), strict=True):
        data = Dataset(dataset.competition, scratch / name)
        write_csv(answers[in_half], data.answers)
        write_csv(sample[sample[column].isin(answers[column][in_half])], data.sample_submission)
        others = frozenset(answers[column][~in_half])
        try:
            half = Half(column=column, others=others, grader=Grader(dataset.competition, data), folder=data.folder)
        except (CompetitionError, DataError):
            return None
        if not half.report(dataset.sample_submission, certainty=False).valid_submission:
            return None
        result.append(half)
    return result[0], result[1]


def _are_ids(sample: pd.Series, answers: pd.Series) -> bool:
    return bool(sample.is_unique and answers.is_unique and set(sample) == set(answers))
