"""Submissions that are made to hurt take no more than limits from which an honest one is far away."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.data.store import DataStore
from pytest_mlebench.grading import Grader
from pytest_mlebench.grading.golden import prepare_synthetic
from pytest_mlebench.grading.limits import GradingLimits
from tests.competitions.worst_cases import worst_cases

CATALOGUE = default_catalogue()
SIZE = 100_000
LIMITS = GradingLimits(memory=640 << 20, seconds=60)
"""For files of ``SIZE`` bytes; the interpreter and its libraries are within this memory."""


@pytest.mark.full
@pytest.mark.parametrize("competition_id", CATALOGUE.ids)
def test_no_submission_takes_much_more_than_an_honest_one(competition_id: str, tmp_path: Path) -> None:
    competition = CATALOGUE[competition_id]
    dataset = prepare_synthetic(competition, DataStore(tmp_path))
    good = pd.read_csv(dataset.perfect_submission, dtype=str, keep_default_na=False)
    grader = Grader(competition, dataset, limits=LIMITS)
    path = tmp_path / "submission.csv"
    for name, content in worst_cases(good, [good.columns[0]], SIZE):
        path.write_bytes(content)
        report = grader.report(path)
        assert not report.grader_defect, f"{name}: {report.error}"
        assert "grading takes more than" not in str(report.error), name
