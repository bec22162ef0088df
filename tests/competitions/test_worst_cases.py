"""Malicious submissions stay within limits that honest ones are far below."""

from __future__ import annotations

import tracemalloc
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings

from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.data.store import DataStore
from pytest_mlebench.errors import InvalidSubmission
from pytest_mlebench.grading import Grader
from pytest_mlebench.grading.grader import GradingLimits
from pytest_mlebench.grading.scorer import Form, Scorer
from tests.competitions.worst_cases import worst_cases
from tests.extent import one_in
from tests.fuzz.bounded import EXAMPLES, fuzzing, limited_time, run_limited
from tests.fuzz.tables import CHANGES, NAMES, ROWS, changed

CATALOGUE = default_catalogue()
SIZE = 100_000
LIMITS = GradingLimits(memory=640 << 20, seconds=60)
"""Limits for files of ``SIZE`` bytes. The memory includes the interpreter and its libraries."""


@pytest.fixture(scope="module", params=one_in(4, CATALOGUE.ids))
def dataset(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return DataStore(tmp_path_factory.mktemp("data")).prepare(CATALOGUE[request.param], synthetic=1)


@pytest.mark.full
def test_malicious_submissions_need_little_more_than_honest_ones(dataset: Dataset, tmp_path: Path) -> None:
    good, sample = (
        pd.read_csv(path, dtype=str, keep_default_na=False)
        for path in (dataset.perfect_submission, dataset.sample_submission)
    )
    good = good[list(sample)] if set(sample) <= set(good) else sample  # the answers have additional columns
    grader = Grader(dataset.competition, dataset, limits=LIMITS)
    path = tmp_path / "submission.csv"
    for name, content in worst_cases(good, [good.columns[0]], SIZE):
        path.write_bytes(content())
        report = grader.report(path)
        assert not report.grader_defect, f"{name}: {report.error}"
        assert "grading takes more than" not in str(report.error), name


@pytest.mark.full
def test_any_table_is_accepted_or_rejected_with_a_reason(dataset: Dataset, tmp_path: Path) -> None:
    form, scorer = Form(dataset.competition, dataset.public), Scorer(dataset.competition, dataset.answers)
    good = pd.read_csv(dataset.sample_submission, dtype=str, keep_default_na=False, nrows=2000)
    path = tmp_path / "submission.csv"

    @settings(fuzzing, max_examples=EXAMPLES // 15)
    @given(CHANGES, ROWS, NAMES)
    def fuzz(changes: list[tuple[int, str, list[str]]], rows: str, names: str) -> None:
        path.write_text(changed(good, changes, rows, names), encoding="utf-8", errors="surrogatepass")
        with limited_time(), np.errstate(all="ignore"):
            for grades in (form.check, scorer.score):
                with suppress(InvalidSubmission):
                    grades(path)

    run_limited(fuzz)


@pytest.mark.full
@pytest.mark.parametrize(
    "id",
    [
        "paddy-disease-classification",
        "plant-seedlings-classification",
        "tensorflow-speech-recognition-challenge",
        "text-normalization-challenge-english-language",
    ],
)
def test_one_label_of_millions_of_characters_does_not_widen_the_others(id: str, tmp_path: Path) -> None:
    dataset = DataStore(tmp_path).prepare(CATALOGUE[id], synthetic=1)
    sample = pd.read_csv(dataset.sample_submission, dtype=str, keep_default_na=False)
    sample.iloc[0, -1] = "x" * 10_000_000
    sample.to_csv(path := tmp_path / "submission.csv", index=False)
    limits = GradingLimits(memory=1 << 30, seconds=60)
    assert Grader(dataset.competition, dataset, limits=limits).report(path).error is None


def test_a_scan_with_thousands_of_slices_needs_little_memory() -> None:
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
        assert tracemalloc.get_traced_memory()[1] < 200 << 20  # the volume would take 400 MB
    finally:
        tracemalloc.stop()
