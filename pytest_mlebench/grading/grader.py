"""Grading: from a submission and the answers to a report."""

from __future__ import annotations

import logging
import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pytest_mlebench.catalog.competition import Competition
from pytest_mlebench.catalog.leaderboard import Leaderboard
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.defaults import MAX_SUBMISSION_BYTES
from pytest_mlebench.errors import CompetitionError, DataError, expect, reason
from pytest_mlebench.grading import process_client
from pytest_mlebench.grading.process_client import GradingLimits
from pytest_mlebench.io.files import AnyPath, expanded
from pytest_mlebench.records.report import TWIN, Report


def standing(leaderboard: Leaderboard, score: float | None) -> dict[str, Any]:
    """The fields of a report that follow from its score: thresholds, medals, and the place among the teams."""
    medal = leaderboard.medal(score)
    return {
        "gold_threshold": leaderboard.gold,
        "silver_threshold": leaderboard.silver,
        "bronze_threshold": leaderboard.bronze,
        "median_threshold": leaderboard.median,
        "any_medal": medal is not None,
        "gold_medal": medal == "gold",
        "silver_medal": medal == "silver",
        "bronze_medal": medal == "bronze",
        "above_median": leaderboard.is_above_median(score),
        "is_lower_better": leaderboard.lower_is_better,
        "percentile": leaderboard.percentile(score),
    }


logger = logging.getLogger(__name__)


class Grader:
    """Grades submissions of a competition, each within limits, in a process that has nothing else to lose.

    Submissions that are graded one after another share a process, which reads the answers once.
    Raises DataError where the data is not prepared, CompetitionError where the competition's folder is broken.

    >>> from pytest_mlebench import DataStore, default_catalogue
    >>> competition = default_catalogue()["smoke-diabetes"]
    >>> dataset = DataStore().prepare(competition)
    >>> Grader(competition, dataset).report(dataset.sample_submission).score
    72.61873
    """

    def __init__(
        self,
        competition: Competition,
        dataset: Dataset,
        *,
        max_bytes: int = MAX_SUBMISSION_BYTES,
        limits: GradingLimits | None = None,
    ) -> None:
        expect(competition, Competition, "the competition", "default_catalogue()['smoke-digits'] is one")
        expect(dataset, Dataset, "the dataset", "DataStore().prepare(competition) is one")
        if dataset.competition.id != competition.id:
            raise DataError(f"the data is that of {dataset.competition.id}, the competition is {competition.id}")
        if dataset.competition.is_twin:  # which has a leaderboard of its own
            competition = dataset.competition
        self.competition = competition
        self._generated = TWIN if competition.is_twin else "synthetic" if dataset.is_synthetic else ""
        self.limits = limits or GradingLimits()
        self.max_bytes = max_bytes
        answers = dataset.answers.absolute()
        self._job = process_client.job_of(
            competition, answers, answers=str(answers), max_bytes=max_bytes, memory=self.limits.memory
        )
        # What is broken is said before an agent runs for a day.
        self.confinement: dict[str, Any] = process_client.prepare(self._job, self.limits.seconds).get("confinement", {})
        """What confines the process that grades."""

    def report(self, path: AnyPath, *, certainty: bool = True) -> Report:
        """Grade a submission; whatever happens is a report. ``grader_defect`` says that it was not the submission.

        Without ``certainty`` it is not resampled how certain the score is, and whether the medal is firm.
        """
        path = expanded(path)
        score: float | None = None
        error: str | None = None
        defect = False
        try:
            exists = path.is_file() or path.is_symlink()
        except OSError as problem:
            exists, error = False, f"{path} cannot be read: {reason(problem)}"
        if error is not None:
            pass
        elif not exists:
            error = f"{path} is a folder, not a file" if path.is_dir() else f"there is no file {path}"
            error = "there is no submission" if path == Path() else error
        else:
            score, error, defect = self._grade(path)
        known = self._certainty(path) if certainty and score is not None else {}
        return Report(
            competition_id=self.competition.id,
            score=score,
            **standing(self.competition.leaderboard, score),
            submission_exists=exists,
            valid_submission=exists and error is None,
            created_at=datetime.now(UTC).isoformat(),
            submission_path=str(path),
            error=error,
            grader_defect=defect,
            bench_version=self.competition.version,
            thresholds=self.competition.thresholds,
            contaminated=bool(self.competition.contaminated),
            generated=self._generated,
            score_low=known.get("low"),
            score_high=known.get("high"),
            firm=known.get("firm"),
        )

    def _certainty(self, path: Path) -> dict[str, Any]:
        """How certain the score of a submission is that has one (see ``resampling.Certainty``); empty if unknown."""
        try:
            reply = process_client.ask(self._job, path, self.limits.seconds, certainty=True)
        except (CompetitionError, DataError) as problem:
            reply = {"defect": str(problem)}
        found = reply.get("certainty")
        if "certainty" not in reply:
            what = reply.get("defect") or reply.get("invalid") or f"more {reply.get('beyond')} than grading may take"
            logger.warning("%s: whether the medal is firm is unknown: %s", self.competition.id, what)
        return found if isinstance(found, dict) else {}

    def _grade(self, path: Path) -> tuple[float | None, str | None, bool]:
        """The rounded score, the reason why there is none, and whether that is the grader's defect."""
        try:
            reply = process_client.ask(self._job, path, self.limits.seconds)
        except (CompetitionError, DataError) as problem:
            reply = {"defect": str(problem)}  # the folder or the data broke since the check at the start
        if "invalid" in reply:
            return None, str(reply["invalid"]), False
        if "beyond" in reply:
            return None, self.limits.exceeded(reply["beyond"]), False
        score = reply.get("rounded")
        if isinstance(score, float):
            return None if math.isnan(score) else score, None, False
        defect = str(reply.get("defect", "the grading process gave no score"))
        logger.warning("%s: the grader failed on %s: %s", self.competition.id, path, reply.get("traceback", defect))
        return None, defect, True


def grade(
    submission_path: AnyPath,
    competition: Competition,
    dataset: Dataset,
    *,
    max_bytes: int = MAX_SUBMISSION_BYTES,
    limits: GradingLimits | None = None,
) -> Report:
    """Grade one submission against a prepared data set (see Report).

    Raises DataError where the data is not prepared, CompetitionError where the competition's folder is broken.

    >>> from pytest_mlebench import DataStore, default_catalogue
    >>> competition = default_catalogue()["smoke-diabetes"]
    >>> dataset = DataStore().prepare(competition)
    >>> grade(dataset.sample_submission, competition, dataset).any_medal
    False
    """
    return Grader(competition, dataset, max_bytes=max_bytes, limits=limits).report(submission_path)
