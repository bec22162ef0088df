"""Submissions that are made to hurt take no more than limits from which an honest one is far away."""

from __future__ import annotations

import tracemalloc
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
    good, sample = (
        pd.read_csv(path, dtype=str, keep_default_na=False)
        for path in (dataset.perfect_submission, dataset.sample_submission)
    )
    good = good[list(sample)] if set(sample) <= set(good) else sample  # the answers have further columns
    grader = Grader(competition, dataset, limits=LIMITS)
    path = tmp_path / "submission.csv"
    for name, content in worst_cases(good, [good.columns[0]], SIZE):
        path.write_bytes(content())
        report = grader.report(path)
        assert not report.grader_defect, f"{name}: {report.error}"
        assert "grading takes more than" not in str(report.error), name


def test_a_scan_of_thousands_of_slices_takes_no_memory_for_them() -> None:
    slices, side = 6000, 266
    day = pd.DataFrame({"id": [f"case1_day1_slice_{k:04}" for k in range(slices)], "class": "stomach"})
    answers = day.assign(predicted="", image_width=side, image_height=side)
    answers["id"] = [f"case{k // 144}_day1_slice_{k % 144:04}" for k in range(slices)]
    answers.loc[:100, "predicted"] = "3000 40 3266 40"
    submission = day.assign(predicted="")
    submission.loc[[0, slices - 1], "predicted"] = "1 70000"
    grade = CATALOGUE["uw-madison-gi-tract-image-segmentation"].function("grade", "grade")
    tracemalloc.start()
    try:
        assert grade(submission, answers) < 0.1
        assert tracemalloc.get_traced_memory()[1] < 200 << 20  # the volume has 400 MB
    finally:
        tracemalloc.stop()
