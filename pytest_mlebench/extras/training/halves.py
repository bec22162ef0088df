"""Two halves of a test set's rows: rewards during an episode come from one, the final report from the other.

What a step returns must not depend on the answers that the final report is graded with, else an agent could climb on
them. A half is a data set of its own, with the answers of its rows; of a submission it takes the rows of these ids.
Where the answers are no table with the sample submission's ids, there are no halves.
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
    """The rows of some ids, and what grades them."""

    column: str
    others: frozenset[str]
    """The ids of the other half, whose rows are left out of a submission."""
    grader: Grader
    folder: Path

    def report(self, submission: Path, *, certainty: bool = True) -> Report:
        """Grade this half of a submission, whose rows with unknown ids stay, to be refused."""
        mine = self.folder / submission.name
        try:
            self._write(submission, mine)
        except (OSError, ValueError, csv.Error) as error:
            found = self.grader.report(submission, certainty=False)  # which says what is wrong with the file
            return replace(found, score=None, valid_submission=False, error=found.error or str(error))
        return self.grader.report(mine, certainty=certainty)

    def _write(self, submission: Path, mine: Path) -> None:
        csv.field_size_limit(_MAX_FIELD)
        with (
            submission.open(encoding="utf-8-sig", newline="") as source,
            mine.open("w", encoding="utf-8", newline="") as target,
        ):
            rows, writer = csv.reader(source), csv.writer(target)
            header = next(rows, [])
            place = header.index(self.column) if self.column in header else None
            writer.writerow(header)
            for row in rows:
                if place is None or place >= len(row) or row[place] not in self.others:
                    writer.writerow(row)


def halves(dataset: Dataset, scratch: Path, secret: str) -> tuple[Half, Half] | None:
    """The validation half and the test half of prepared data, in a folder for their answers; None where rows cannot be
    told apart by an id. ``secret`` decides which row is of which half."""
    if dataset.answers.suffix != ".csv" or dataset.sample_submission.suffix != ".csv":
        return None
    answers, sample = read_text_csv(dataset.answers), read_text_csv(dataset.sample_submission)
    column = next((own for own in sample.columns if own in answers and _are_ids(sample[own], answers[own])), None)
    if column is None:
        return None
    is_first = answers[column].map(lambda id: hashlib.sha256(f"{secret} {id}".encode()).digest()[0] % 2 == 0)
    made = []
    for name, mine in zip(NAMES, (is_first, ~is_first), strict=True):
        own = Dataset(dataset.competition, scratch / name)
        write_csv(answers[mine], own.answers)
        write_csv(sample[sample[column].isin(answers[column][mine])], own.sample_submission)
        others = frozenset(answers[column][~mine])
        try:
            half = Half(column=column, others=others, grader=Grader(dataset.competition, own), folder=own.folder)
        except (CompetitionError, DataError):
            return None
        if not half.report(dataset.sample_submission, certainty=False).valid_submission:
            return None
        made.append(half)
    return made[0], made[1]


def _are_ids(sample: pd.Series, answers: pd.Series) -> bool:
    return bool(sample.is_unique and answers.is_unique and set(sample) == set(answers))
