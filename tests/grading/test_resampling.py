"""The uncertainty of scores: intervals over resampled test rows, and firm medals."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from operator import le
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import cohen_kappa_score, matthews_corrcoef, roc_auc_score

from pytest_mlebench.authoring.resampling import (
    MIN_UNITS,
    RowScores,
    certainty,
    confusion,
    matthews,
    mean_of,
    mean_of_groups,
    quadratic_kappa,
    ratio,
    roc_auc,
    root_mean,
)
from pytest_mlebench.catalog import Competition, default_catalogue
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.data.preparing import run_prepare
from pytest_mlebench.gate.golden import grade_all
from pytest_mlebench.grading.grader import Grader

Rng = np.random.Generator
Floats = NDArray[np.float64]


def _accuracy(rng: Rng) -> RowScores:
    return mean_of(rng.random(300) < 0.8)


def _rmse(rng: Rng) -> RowScores:
    return root_mean(rng.normal(0, 3, 300) ** 2)


def _auc(rng: Rng) -> RowScores:
    truth = np.arange(300) % 3 == 0
    return roc_auc(truth, rng.normal(size=300) + truth)


def _rows_of_patients(rng: Rng) -> RowScores:
    """The ten rows of a patient are nearly equal."""
    patients = np.repeat(np.arange(100), 10)
    return mean_of(rng.normal(2, 1, 100)[patients] + rng.normal(0, 0.1, 1000), units=patients)


def _f1(rng: Rng) -> RowScores:
    hits, sizes = rng.binomial(3, 0.5, 300), rng.integers(2, 7, 300)
    return ratio(2 * hits, 2 * hits + sizes)


TRUTH: dict[Callable[[Rng], RowScores], float] = {
    _accuracy: 0.8,
    _rmse: 3.0,
    _auc: 0.76025,  # AUC of normal scores with means 1 apart: Φ(1 / √2)
    _rows_of_patients: 2.0,
    _f1: 3 / 7,
}


@pytest.mark.full
@pytest.mark.parametrize("draw", TRUTH)
def test_the_95_percent_interval_contains_the_true_score_in_95_percent_of_test_sets(
    draw: Callable[[Rng], RowScores],
) -> None:
    rng, times, covered = np.random.default_rng(5), 300, 0
    for _ in range(times):
        found = certainty(draw(rng), None, resamples=300)
        assert found is not None
        covered += found.low <= TRUTH[draw] <= found.high
    assert 0.91 <= covered / times <= 0.985


def test_resampling_agrees_with_the_normal_approximation() -> None:
    rows = _f1(np.random.default_rng(1))
    drawn = certainty(rows, None)
    normal = certainty(rows, None, drawn_units=MIN_UNITS)
    assert drawn is not None and normal is not None and drawn != normal
    assert (normal.low, normal.high) == pytest.approx((drawn.low, drawn.high), abs=0.005)


def test_a_medal_is_firm_if_it_holds_in_95_percent_of_resamples() -> None:
    rows = mean_of(np.arange(400) % 5 > 0)  # 0.8, with a standard error of 0.02
    firm = {edge: certainty(rows, partial(le, edge)) for edge in (0.75, 0.76, 0.78, 0.8)}
    assert [found and found.firm for found in firm.values()] == [True, True, False, False]
    found = certainty(rows, None)
    assert found is not None and found.firm is None, "there is no medal that could be firm"


@pytest.mark.parametrize("values", [np.ones(MIN_UNITS - 1), np.array([*np.ones(20), np.nan])])
def test_few_rows_and_rows_without_a_score_give_no_interval(values: Floats) -> None:
    assert certainty(mean_of(values), None) is None


def test_functions_of_sums_match_scikit_learn() -> None:
    rng = np.random.default_rng(2)
    truth, predicted = rng.integers(0, 5, 200), rng.integers(0, 5, 200)
    assert confusion(truth, predicted, matthews).estimate == pytest.approx(matthews_corrcoef(truth, predicted))
    kappa = cohen_kappa_score(truth, predicted, weights="quadratic")
    assert confusion(truth, predicted, quadratic_kappa).estimate == pytest.approx(kappa)
    labels, scores = rng.random((200, 3)) < 0.3, rng.random((200, 3)).round(1)
    assert roc_auc(labels, scores).estimate == pytest.approx(roc_auc_score(labels, scores, average="macro"))
    groups = np.arange(200) % 3
    means = [predicted[groups == group].mean() for group in range(3)]
    assert mean_of_groups(predicted, groups, then=np.log).estimate == pytest.approx(np.log(means).mean())


def test_many_predicted_classes_need_little_memory_and_give_no_interval() -> None:
    truth, predicted = np.arange(1731) % 6, np.arange(1731) % 200
    rows = confusion(truth, predicted, quadratic_kappa)
    assert rows.estimate == pytest.approx(cohen_kappa_score(truth, predicted, weights="quadratic"))
    assert rows.terms.nbytes < 1 << 20 and certainty(rows, None) is None
    assert certainty(confusion(truth, predicted % 20, quadratic_kappa), None) is not None
    assert certainty(confusion(predicted[:400], truth[:400], matthews), None) is not None, "these classes are true"
    true = np.arange(4000) % 300
    rows = confusion(true, true[::-1], matthews)
    assert rows.estimate == pytest.approx(matthews_corrcoef(true, true[::-1]))
    assert rows.terms.nbytes < 1 << 20 and certainty(rows, None) is None
    few = np.arange(300)
    assert len(confusion(few, few[::-1], matthews).terms) == 300, "rows are few enough for an interval"
    numbers = np.arange(10**5)
    assert math.isnan(confusion(numbers, numbers, matthews).estimate), "its matrix would take 80 GB"


@pytest.fixture
def digits(tmp_path: Path) -> Dataset:
    competition = default_catalogue()["smoke-digits"]
    raw = tmp_path / "raw"
    raw.mkdir()
    dataset = Dataset(competition, tmp_path)
    run_prepare(competition, raw, dataset)
    return dataset


def test_grading_reports_the_interval_of_a_score_and_whether_its_medal_is_firm(digits: Dataset) -> None:
    grader = Grader(digits.competition, digits)
    perfect = grader.report(digits.perfect_submission)
    assert (perfect.firm, perfect.firmness, perfect.score_low, perfect.score_high) == (True, "firm", 1.0, 1.0)
    sample = grader.report(digits.sample_submission)
    assert sample.score_low is not None and sample.score_high is not None and sample.score is not None
    assert sample.score_low < sample.score < sample.score_high and (sample.firm, sample.firmness) == (None, "")
    hasty = grader.report(digits.perfect_submission, certainty=False)
    assert (hasty.score, hasty.score_low, hasty.firm, hasty.firmness) == (1.0, None, None, "unknown")


@pytest.mark.full
@pytest.mark.parametrize(
    ("body", "reason"),
    [("return [0.5] * len(answers)", "row_scores gives 0.5"), ("raise KeyError('x')", "KeyError")],
)
def test_wrong_row_scores_are_a_defect_in_the_gate_and_leave_firmness_unknown(
    digits: Dataset, tmp_path: Path, body: str, reason: str
) -> None:
    folder = tmp_path / digits.competition.id
    folder.mkdir()
    for file in digits.competition.folder.iterdir():
        if file.is_file():
            text = file.read_text()
            (folder / file.name).write_text(text.replace("    return check(submission, answers) ==", f"    {body}\n #"))
    broken = Competition.load(folder)
    (grade,) = grade_all(broken, digits, {"perfect": digits.perfect_submission})
    assert grade.defect and grade.reason and reason in grade.reason
    report = Grader(broken, replace(digits, competition=broken)).report(digits.perfect_submission)
    assert (report.score, report.gold_medal, report.firmness) == (1.0, True, "unknown")
