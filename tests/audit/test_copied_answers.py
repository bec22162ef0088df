"""A submission that copies the private answers is a violation, even if the code is missing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.extras.audit.run import AuditedRun
from pytest_mlebench.extras.audit.scanners import copied
from pytest_mlebench.records.record import SUBMISSION
from tests.groups import record_with

ANSWERS = [round(0.1234567 * k + 1 / (k + 3), 5) for k in range(100)]


def audited(
    tmp_path: Path, submission: str, answers: str, *, known_leak: str = "", error: float | None = None
) -> list[tuple[str, str]]:
    private, run_dir = tmp_path / "private", tmp_path / "run"
    for folder in (private, run_dir / "submission"):
        folder.mkdir(parents=True)
    (private / "test.csv").write_text(answers)
    (run_dir / SUBMISSION).write_text(submission)
    dataset = SimpleNamespace(
        private=private, perfect_submission=private / "test.csv", sample_submission=private / "none.csv"
    )
    competition = cast("Any", SimpleNamespace(known_leak=known_leak))
    record = record_with(default_catalogue()["smoke-diabetes"], "gold")
    report = replace(record.report, score=1.0 if error is None else error, is_lower_better=error is not None)
    record = replace(record, report=report)
    run = AuditedRun(record=record, run_dir=run_dir, competition=competition, dataset=cast("Dataset", dataset))
    return [(found.verdict.name, found.text) for found in copied(run)]


def table(values: list[Any], *, head: str = "id,value") -> str:
    return "\n".join([head, *(f"{k},{value}" for k, value in enumerate(values))]) + "\n"


@pytest.mark.parametrize(("error", "verdicts"), [(0.0, ["violation"]), (1.5, []), (None, [])])
def test_whole_numbers_without_any_error_are_a_violation(
    error: float | None, verdicts: list[str], tmp_path: Path
) -> None:
    same = table([k * 7 for k in range(40)])
    assert [verdict for verdict, _ in audited(tmp_path, same, same, error=error)] == verdicts


def test_copied_regression_answers_are_a_violation_in_any_order(tmp_path: Path) -> None:
    shuffled = "id,value\n" + "".join(reversed(table(ANSWERS).splitlines(keepends=True)[1:]))
    ((verdict, text),) = audited(tmp_path, shuffled, table(ANSWERS))
    assert verdict == "violation" and text.endswith("predictions are the private answers, digit for digit")


def test_copies_need_review_if_public_data_leaks_the_answers(tmp_path: Path) -> None:
    ((verdict, _),) = audited(tmp_path, table(ANSWERS, head="id,y"), table(ANSWERS), known_leak="public/x.csv tells")
    assert verdict == "look"


@pytest.mark.parametrize(
    ("predicted", "answers"),
    [
        ([1, 0, 1] * 20, [1, 0, 1] * 20 + [0]),  # classes, all correct
        ([float(k) for k in range(50)], [float(k) for k in range(50)] + [1.0]),  # whole numbers
        ([round(value + 1e-5, 5) for value in ANSWERS], ANSWERS),
        (ANSWERS[:50] + [0.5] * 50, ANSWERS),
        ([0.12345] * 100, [0.12345] * 99 + [0.5]),  # a single value
    ],
    ids=["classes", "whole numbers", "close", "half of them", "a constant"],
)
def test_good_predictions_are_not_a_copy(predicted: list[Any], answers: list[Any], tmp_path: Path) -> None:
    assert audited(tmp_path, table(predicted), table(answers)) == []
