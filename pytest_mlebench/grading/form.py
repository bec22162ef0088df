"""Whether a submission has the form that its competition asks for, from what is public alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_mlebench.authoring.checks import require_columns, require_row_count
from pytest_mlebench.authoring.columns import numeric
from pytest_mlebench.authoring.ids import alignment
from pytest_mlebench.authoring.tables import read_csv
from pytest_mlebench.catalog.competition import Competition
from pytest_mlebench.defaults import MAX_SUBMISSION_BYTES
from pytest_mlebench.errors import CompetitionError, InvalidSubmission
from pytest_mlebench.grading.reading import read_submission
from pytest_mlebench.grading.scorer import GraderDefect

if TYPE_CHECKING:
    import pandas as pd


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
