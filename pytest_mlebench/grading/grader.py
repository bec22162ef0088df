"""Grading: from a submission and the answers to a report."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pytest_mlebench.catalog.competition import Competition
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.data.tables import read_csv
from pytest_mlebench.errors import CompetitionError, DataError, InvalidSubmission
from pytest_mlebench.grading.report import Report
from pytest_mlebench.grading.submission import MAX_BYTES, read_submission

logger = logging.getLogger(__name__)


class GraderDefect(InvalidSubmission):
    """A grader raised what it should not; the submission counts as invalid."""


class Grader:
    """A competition's ``grade.py`` with the answers, which are read once and kept while the grader lives.

    ``grade(submission, answers)`` takes the tables that were read; a ``read_answers(path)`` beside it reads answers
    that are no CSV file.
    """

    def __init__(self, competition: Competition, dataset: Dataset, *, max_bytes: int = MAX_BYTES) -> None:
        self.competition = competition
        self.dataset = dataset
        self.max_bytes = max_bytes
        module = competition.module("grade")
        self._grade: Callable[[Any, Any], float] = module.grade
        self._read_answers: Callable[[Path], Any] = getattr(module, "read_answers", read_csv)
        self._answers: Any = None

    @property
    def answers(self) -> Any:
        if self._answers is None:
            try:
                self._answers = self._read_answers(self.dataset.answers)
            except FileNotFoundError as error:
                raise DataError(
                    f"{self.competition.id}: no answers at {self.dataset.answers}; "
                    f"run `mlebench prepare -c {self.competition.id}` first"
                ) from error
        return self._answers

    def score(self, path: Path) -> float:
        """The unrounded score of a submission, NaN if it has none.

        Raises InvalidSubmission with the reason; GraderDefect, after logging it, where the grader itself broke.
        """
        answers = self.answers
        submission = read_submission(path, self.max_bytes)
        try:
            return float(self._grade(submission, answers.copy() if hasattr(answers, "copy") else answers))
        except InvalidSubmission:
            raise
        except CompetitionError:
            raise
        except Exception as error:
            logger.warning("grader of %s is defective: it raised on %s", self.competition.id, path, exc_info=True)
            raise GraderDefect(f"the grader could not score the file: {type(error).__name__}: {error}") from error

    def report(self, path: Path) -> Report:
        """Grade a submission; every ending but a fault of the data or the competition is a report."""
        score: float | None = None
        error: str | None = None
        defect = False
        exists = path.is_file() or path.is_symlink()
        if not exists:
            error = f"there is no file {path}"
        else:
            try:
                score = round(self.score(path), 5)
            except InvalidSubmission as reason:
                error, defect = str(reason), isinstance(reason, GraderDefect)
        valid = exists and error is None
        if score is not None and math.isnan(score):
            score = None
        leaderboard = self.competition.leaderboard
        medal = leaderboard.medal(score)
        return Report(
            competition_id=self.competition.id,
            score=score,
            gold_threshold=leaderboard.gold,
            silver_threshold=leaderboard.silver,
            bronze_threshold=leaderboard.bronze,
            median_threshold=leaderboard.median,
            any_medal=medal is not None,
            gold_medal=medal == "gold",
            silver_medal=medal == "silver",
            bronze_medal=medal == "bronze",
            above_median=leaderboard.is_above_median(score),
            submission_exists=exists,
            valid_submission=valid,
            is_lower_better=leaderboard.lower_is_better,
            created_at=datetime.now(UTC).isoformat(),
            submission_path=str(path),
            error=error,
            grader_defect=defect,
            percentile=leaderboard.percentile(score),
        )


def grade(submission_path: Path, competition: Competition, dataset: Dataset, *, max_bytes: int = MAX_BYTES) -> Report:
    """Grade one submission against a prepared data set (see Report).

    Raises DataError where the data is not prepared, CompetitionError where the competition's folder is broken.
    """
    return Grader(competition, dataset, max_bytes=max_bytes).report(Path(submission_path))
