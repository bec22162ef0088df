"""Checks of a competition's preparer and grader, on synthetic data or on the prepared real data.

Graders and pandas are imported only when a check runs, because collecting does not need them.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from pytest_mlebench.catalog import Competition
from pytest_mlebench.errors import CompetitionError
from pytest_mlebench.io.units import first

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_mlebench.data.dataset import Dataset
    from pytest_mlebench.gate.gate import Gate
    from pytest_mlebench.gate.golden import Grade
    from pytest_mlebench.records.outcome import Report

Check = Callable[..., None]
KEEP_CELLS = (
    "Read the table with `pytest_mlebench.authoring.tables.read_text_csv`, which keeps cells as they are written."
)


@cache
def _gate() -> type[Gate]:
    from pytest_mlebench.gate.gate import Gate

    return Gate


def synthetic_prepare(
    competition: Competition, synthetic_dataset: Dataset, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Prepared files equal the golden ones byte for byte (archives: member for member), and cells are preserved."""
    _fail_if_any(
        _gate().prepared_differences(competition, synthetic_dataset),
        _gate().advice(competition, "prepare.py", "synthetic.py"),
    )
    if (found := _gate().cell_differences(competition, synthetic_dataset, tmp_path)) is not None:
        _fail_if_any(_unexcused(competition, "cells_are_kept", found, request), KEEP_CELLS if found else "")


def synthetic_scores(
    competition: Competition, synthetic_grades: dict[str, Grade], request: pytest.FixtureRequest
) -> None:
    """Every valid submission has its golden score, and the answers themselves are valid."""
    defective = any(grade.defect for grade in synthetic_grades.values())
    _fail_if_any(
        _gate().score_differences(competition, synthetic_grades),
        _gate().advice(competition, "grade.py", accept=not defective),
    )
    if placeholder := competition.placeholder_scores:
        with warnings.catch_warnings():  # only a hint, even if the project turns warnings into errors
            warnings.simplefilter("default")
            warnings.warn(pytest.PytestWarning(placeholder), stacklevel=1)
    reason = synthetic_grades[_gate().ANSWERS].reason
    invalid = [] if reason is None else [f"the perfect submission is invalid: {reason}"]
    _fail_if_any(_unexcused(competition, "answers_are_invalid", invalid, request))


def synthetic_rejections(
    competition: Competition,
    synthetic_dataset: Dataset,
    synthetic_grades: dict[str, Grade],
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    """Every malformed submission is rejected with a reason, rows are matched by id, and guesses earn no medal."""
    _fail_if_any(_gate().rejection_differences(competition, synthetic_grades), _gate().advice(competition, "grade.py"))
    rows, guesses = _gate().grader_problems(competition, synthetic_dataset, tmp_path)
    unmatched = _unexcused(competition, "rows_are_matched", rows, request)
    _fail_if_any(unmatched + _unexcused(competition, "guesses_earn_nothing", guesses, request))


def synthetic_answers_stay_private(
    competition: Competition, synthetic_dataset: Dataset, request: pytest.FixtureRequest
) -> None:
    """No public file reveals the answers, and no group is on both sides of the split."""
    _no_leaks(competition, synthetic_dataset, request)


def real_checksums(dataset: Dataset, request: pytest.FixtureRequest) -> None:
    """Prepared files have the reference's checksums; without checksums, their cells equal those of the raw files."""
    competition = dataset.competition
    if competition.checksums:
        _fail_if_any(_gate().checksum_errors(dataset))
    elif not dataset.has_raw and competition.source != "bundled":
        pytest.skip("the competition has no checksums, and the data store has no raw data to compare cells with")
    else:
        found = _gate().changed_cells(competition, dataset.raw, dataset)
        _fail_if_any(_unexcused(competition, "cells_are_kept", found, request), KEEP_CELLS if found else "")


def real_sample_submission(competition: Competition, dataset: Dataset) -> None:
    """The sample submission has its known score and earns no medal."""
    report = _gate().Grader(competition, dataset).report(dataset.sample_submission)
    expected = competition.sample_submission_score
    if expected is not None or not competition.is_corrected:  # else the reference score is unknown
        score = math.nan if report.score is None else report.score
        if score != pytest.approx(math.nan if expected is None else expected, abs=1.1e-5, nan_ok=True):
            pytest.fail(_wrong_sample_score(competition, report), pytrace=False)
    if report.any_medal:
        pytest.fail(f"the sample submission earns a medal: {report.medal}", pytrace=False)
    if placeholder := competition.placeholder_scores:
        pytest.fail(placeholder, pytrace=False)


def real_perfect_submission(competition: Competition, dataset: Dataset) -> None:
    """The answers themselves earn gold."""
    report = _gate().Grader(competition, dataset).report(dataset.perfect_submission)
    if not report.gold_medal:
        why = f"is invalid: {report.error}" if report.score is None else f"scores {report.score:g}"
        file = competition.file("competition.yaml")
        pytest.fail(
            f"{file}: the answers must earn gold ({report.gold_threshold:g}), but as a submission they {why}. "
            "Correct `leaderboard`, grade.py or `perfect_submission`",
            pytrace=False,
        )


def real_answers_stay_private(competition: Competition, dataset: Dataset, request: pytest.FixtureRequest) -> None:
    """No public file reveals the answers, and no group is on both sides of the split."""
    _no_leaks(competition, dataset, request)


def _wrong_sample_score(competition: Competition, report: Report) -> str:
    """Return an error message with the value to write into ``competition.yaml``."""
    file, expected = competition.file("competition.yaml"), competition.sample_submission_score
    if report.score is None:
        found = f"is invalid: {report.error}" if report.error else "has no score"
        return f"{file}: the sample submission {found}; sample_submission_score is {expected:g}"
    stated = "does not state its score" if expected is None else f"states {expected:g}"
    return (
        f"{file}: the sample submission scores {report.score}, but the file {stated}; if the score is correct, write "
        f"`sample_submission_score: {report.score}`"
    )


def _no_leaks(competition: Competition, dataset: Dataset, request: pytest.FixtureRequest) -> None:
    try:
        shared, found = _gate().exposed(competition, dataset)
    except CompetitionError as error:
        pytest.fail(f"{competition.file('competition.yaml')}: {error}", pytrace=False)
    _fail_if_any(_unexcused(competition, "groups_stay_apart", shared, request))
    if competition.known_leak:
        request.node.user_properties.append(("known_leak", competition.known_leak))
        pytest.xfail(f"known leak: {competition.known_leak}")
    _fail_if_any(found)


def _unexcused(competition: Competition, name: str, problems: list[str], request: pytest.FixtureRequest) -> list[str]:
    """Return the problems, or none if the competition's ``exceptions`` give a reason for them."""
    reason = competition.exceptions.get(name)
    if reason is None:
        return [f"{problem} (to allow this, add exceptions.{name} to competition.yaml)" for problem in problems]
    request.node.user_properties.append((name, reason))
    return [] if problems else [f"exceptions.{name} in competition.yaml is not needed: no problem was found"]


def _fail_if_any(differences: Sequence[Any], advice: str = "") -> None:
    if differences:
        shown = first([str(difference) for difference in differences], 50)
        pytest.fail("\n".join([*shown, *filter(None, [advice])]), pytrace=False)


SYNTHETIC_CHECKS: Mapping[str, Check] = {
    "prepare": synthetic_prepare,
    "scores": synthetic_scores,
    "rejections": synthetic_rejections,
    "answers_stay_private": synthetic_answers_stay_private,
}
REAL_CHECKS: Mapping[str, Check] = {
    "checksums": real_checksums,
    "sample_submission": real_sample_submission,
    "perfect_submission": real_perfect_submission,
    "answers_stay_private": real_answers_stay_private,
}
"""The checks by their names in node ids."""
