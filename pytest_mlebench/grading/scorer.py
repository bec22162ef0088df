"""Scoring, and checking a submission's form, in this process: for the process that grades, and for trusted files."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_mlebench.authoring.checks import require_columns, require_row_count
from pytest_mlebench.authoring.columns import numeric
from pytest_mlebench.authoring.ids import alignment
from pytest_mlebench.authoring.tables import read_csv
from pytest_mlebench.catalog.competition import Competition, command
from pytest_mlebench.defaults import MAX_SUBMISSION_BYTES
from pytest_mlebench.errors import CompetitionError, DataError, InvalidSubmission, MLEBenchError
from pytest_mlebench.grading.reading import read_answers, read_submission

if TYPE_CHECKING:
    import pandas as pd

    from pytest_mlebench.authoring.resampling import Certainty, RowScores


class GraderDefect(Exception):
    """A competition's ``grade.py`` raised something other than InvalidSubmission, which is its cause."""


class Scorer:
    """A competition's ``grade.py`` with the answers, which are read once and kept.

    ``grade(submission, answers)`` is given the tables that were read; a ``read_answers(path)`` beside it reads answers
    that are not a CSV file. Its scores are rounded as their type is, a ``np.float64`` otherwise than a ``float``: a
    grader returns the type that the reference's does. Nothing limits what grading takes here: ``Grader`` grades in a
    process with limits.
    ``READ_OPTIONS`` in ``grade.py`` are those with which pandas reads submissions and answers. A
    ``row_scores(submission, answers)`` there says how the score comes from the test's rows (see ``resampling``).
    """

    def __init__(self, competition: Competition, answers: Path, *, max_bytes: int = MAX_SUBMISSION_BYTES) -> None:
        self.competition = competition
        self.max_bytes = max_bytes
        self._grade: Callable[[Any, Any], float] = competition.function("grade", "grade")
        module = competition.module("grade")
        self._options: dict[str, Any] = getattr(module, "READ_OPTIONS", {})
        if not isinstance(self._options, Mapping):
            raise CompetitionError(f"{competition.file('grade.py')}: READ_OPTIONS must be a dictionary")
        read_table = partial(read_answers, **self._options)
        self._read_answers: Callable[[Path], Any] = getattr(module, "read_answers", read_table)
        self._row_scores: Callable[[Any, Any], Any] | None = getattr(module, "row_scores", None)
        self._path = answers
        self._answers: Any = None
        self._scored: tuple[Path, float] | None = None
        if not answers.is_file():
            raise DataError(f"{competition.id}: no answers at {answers}; run `{command('prepare', competition)}` first")

    @property
    def answers(self) -> Any:
        if self._answers is None:
            try:
                self._answers = self._read_answers(self._path)
            except (MLEBenchError, OSError, MemoryError):
                raise
            except (Exception, SystemExit) as error:
                raise GraderDefect(f"{self._path} cannot be read: {self.competition.describe_error(error)}") from error
        return self._answers

    def score(self, path: Path) -> float:
        """The unrounded score of a submission, NaN if it has none; as the type that the grader returns.

        Raises InvalidSubmission with the reason, GraderDefect where the grader raised anything else.
        """
        score: float = self._of_submission(self._grade, path)
        try:
            if isinstance(score, str | bytes | bool):  # of which Python makes numbers
                raise TypeError(score)
            float(score)
        except (TypeError, ValueError, OverflowError) as error:
            found = " ".join(reprlib.repr(score).split())
            raise GraderDefect(f"grade.py: grade returned {found}, which is not a number") from error
        self._scored = path, score
        return score

    def certainty(self, path: Path) -> Certainty | None:
        """How certain the score of a submission is; None where the competition's rows do not tell.

        Raises as ``row_scores``.
        """
        from pytest_mlebench.authoring.resampling import certainty

        if (rows := self.row_scores(path)) is None:
            return None
        leaderboard = self.competition.leaderboard
        medal = leaderboard.medal(round(rows.estimate, 5))
        return certainty(rows, None if medal is None else partial(leaderboard.earns, medal))

    def row_scores(self, path: Path) -> RowScores | None:
        """What the score of a submission comes from; None if it has no score, or the competition has no row scores.

        Raises as ``score``, and GraderDefect where ``row_scores`` comes to another score than ``grade``.
        """
        if self._row_scores is None:
            return None
        from pytest_mlebench.authoring.resampling import as_row_scores

        known = self._scored is not None and self._scored[0] == path  # some gradings take minutes
        score = float(self._scored[1] if self._scored is not None and known else self.score(path))
        if not math.isfinite(score):
            return None
        found = self._of_submission(self._row_scores, path)
        try:
            rows = as_row_scores(found)
        except (TypeError, ValueError, AttributeError) as error:
            raise GraderDefect(f"grade.py: row_scores returned what are no row scores: {error}") from error
        if math.isnan(rows.estimate):  # where grade has a score by convention
            return None
        if not math.isclose(rows.estimate, score, rel_tol=1e-6, abs_tol=1e-9):
            raise GraderDefect(f"row_scores comes to {rows.estimate!r}, where grade comes to {score!r}")
        return rows

    def _of_submission(self, function: Callable[[Any, Any], Any], path: Path) -> Any:
        answers = self.answers
        submission = read_submission(path, self.max_bytes, **self._options)
        try:
            return function(submission, _copy(answers))
        except (InvalidSubmission, CompetitionError, MemoryError):
            raise
        except (Exception, SystemExit) as error:
            raise GraderDefect(f"grade.py raised {self.competition.describe_error(error)}") from error


def _copy(answers: Any) -> Any:
    """What a grader may change without changing the answers."""
    import pandas as pd

    if isinstance(answers, pd.DataFrame):
        return answers.copy(deep=False)  # pandas copies a column when it is written to
    return answers.copy() if hasattr(answers, "copy") else answers


class Form:
    """A competition's form of a submission, as its ``grade.py`` and the public files declare it.

    ``check(submission, template)`` in ``grade.py`` raises InvalidSubmission where the form is not as it should be. The
    template is the sample submission, or what ``read_template(public)`` returns. Where a grader calls ``check`` with
    the answers as the template, checker and grader cannot disagree. Without a ``check`` see ``check_like_sample``.
    """

    def __init__(self, competition: Competition, public: Path, *, max_bytes: int = MAX_SUBMISSION_BYTES) -> None:
        module = competition.module("grade")
        self.max_bytes = max_bytes
        self._options: dict[str, Any] = getattr(module, "READ_OPTIONS", {})
        self._check: Callable[[Any, Any], object] = getattr(module, "check", check_like_sample)
        self._template: Any
        if read_template := getattr(module, "read_template", None):
            self._template = read_template(public)
        else:
            side, _, name = competition.sample_submission.partition("/")
            if side != "public":
                raise CompetitionError(
                    f"{competition.file('grade.py')}: needs read_template(public), since the sample submission "
                    f"{competition.sample_submission} is not public"
                )
            self._template = read_csv(public / name, **self._options)

    def check(self, path: Path) -> None:
        """Raises InvalidSubmission with the reason, GraderDefect where ``check`` raised anything else."""
        submission = read_submission(path, self.max_bytes, **self._options)
        try:
            self._check(submission, self._template)
        except (InvalidSubmission, MemoryError):
            raise
        except Exception as error:
            raise GraderDefect(f"grade.py raised {type(error).__name__}: {error}") from error


def check_like_sample(submission: pd.DataFrame, sample: pd.DataFrame) -> None:
    """The sample's columns must be there, with numbers where it has numbers, and the same ids in the first.

    Ids that are not unique in the sample are only counted.
    """
    require_columns(submission, list(sample.columns))
    key, *others = sample.columns
    for column in others:
        if sample[column].dtype.kind in "biuf" and sample[column].notna().any():
            numeric(submission, column)
    if sample[key].is_unique:
        alignment(submission, sample, on=key)
    else:
        require_row_count(submission, sample)
