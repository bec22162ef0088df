"""Scoring in this process: for submissions that are trusted, and for the process that grades the others."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from pytest_mlebench.catalog.competition import Competition
from pytest_mlebench.data.authoring.tables import read_csv
from pytest_mlebench.defaults import MAX_SUBMISSION_BYTES
from pytest_mlebench.errors import CompetitionError, DataError, InvalidSubmission
from pytest_mlebench.grading.submission import read_submission


class GraderDefect(Exception):
    """A competition's ``grade.py`` raised something other than InvalidSubmission, which is its cause."""


class Scorer:
    """A competition's ``grade.py`` with the answers, which are read once and kept.

    ``grade(submission, answers)`` is given the tables that were read; a ``read_answers(path)`` beside it reads answers
    that are not a CSV file. Its scores are rounded as their type is, a ``np.float64`` otherwise than a ``float``: a
    grader returns the type that the reference's does. Nothing limits what grading takes here: ``Grader`` grades in a
    process with limits.
    ``READ_OPTIONS`` in ``grade.py`` are those with which pandas reads submissions and answers.
    """

    def __init__(self, competition: Competition, answers: Path, *, max_bytes: int = MAX_SUBMISSION_BYTES) -> None:
        self.competition = competition
        self.max_bytes = max_bytes
        self._grade: Callable[[Any, Any], float] = competition.function("grade", "grade")
        module = competition.module("grade")
        self._options: dict[str, Any] = getattr(module, "READ_OPTIONS", {})
        read_table = partial(read_csv, **self._options)
        self._read_answers: Callable[[Path], Any] = getattr(module, "read_answers", read_table)
        self._path = answers
        self._answers: Any = None
        if not answers.is_file():
            raise DataError(
                f"{competition.id}: no answers at {answers}; run `mlebench prepare -c {competition.id}` first"
            )

    @property
    def answers(self) -> Any:
        if self._answers is None:
            self._answers = self._read_answers(self._path)
        return self._answers

    def score(self, path: Path) -> float:
        """The unrounded score of a submission, NaN if it has none; as the type that the grader returns.

        Raises InvalidSubmission with the reason, GraderDefect where the grader raised anything else.
        """
        answers = self.answers
        submission = read_submission(path, self.max_bytes, **self._options)
        try:
            score = self._grade(submission, _copy(answers))
            float(score)
        except (InvalidSubmission, CompetitionError, MemoryError):
            raise
        except Exception as error:
            raise GraderDefect(f"grade.py raised {self.competition.describe_error(error)}") from error
        return score


def _copy(answers: Any) -> Any:
    """What a grader may change without changing the answers."""
    import pandas as pd

    if isinstance(answers, pd.DataFrame):
        return answers.copy(deep=False)  # pandas copies a column when it is written to
    return answers.copy() if hasattr(answers, "copy") else answers
