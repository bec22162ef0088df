"""Golden results: what a competition's synthetic raw data must give when it is prepared and graded.

``golden.json`` holds the ``seed``, the digests of all prepared files by side, the unrounded ``scores`` of the valid
submissions, the names of the ``invalid`` ones, and of those with ``no_score`` (valid, but NaN).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pytest_mlebench.catalog.competition import Competition
from pytest_mlebench.data.checksums import differences, listing
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.data.store import DataStore
from pytest_mlebench.errors import CompetitionError, InvalidSubmission
from pytest_mlebench.grading.grader import Grader, GraderDefect

ANSWERS = "<answers>"
SAMPLE = "<sample_submission>"
TOLERANCE = 5.1e-6
"""Scores are compared as reports round them: to five decimals."""


def prepare_synthetic(competition: Competition, store: DataStore, seed: int = 1) -> Dataset:
    """Make the competition's synthetic raw data in a store, and prepare it (once a store)."""
    dataset = store.dataset(competition)
    if not dataset.is_prepared:
        with store.lock(competition):
            if not dataset.raw.is_dir():
                making = dataset.folder / "raw.making"
                making.mkdir()
                competition.module("synthetic").make(making, seed)
                making.rename(dataset.raw)
    return store.prepare(competition, verify=False)


def synthetic_submissions(competition: Competition, dataset: Dataset, folder: Path, seed: int = 1) -> dict[str, Path]:
    """Write the synthetic submissions to a folder: paths by name, the answers and the sample submission among them."""
    rng = np.random.default_rng(seed)
    made: Mapping[str, Any] = competition.module("synthetic").submissions(dataset.public, dataset.private, rng)
    folder.mkdir(parents=True, exist_ok=True)
    paths = {ANSWERS: dataset.perfect_submission, SAMPLE: dataset.sample_submission}
    for name, content in made.items():
        path = folder / (name if "." in name else f"{name}.csv")
        if isinstance(content, pd.DataFrame):
            content.to_csv(path, index=False)
        else:
            path.write_text(content, encoding="utf-8", newline="")
        paths[path.name] = path
    return paths


@dataclass(frozen=True)
class Grade:
    """How one submission came out: a score (NaN: valid without one), or the reason why it is invalid."""

    name: str
    score: float | None = None
    reason: str | None = None
    defect: bool = False


def grade_all(competition: Competition, dataset: Dataset, submissions: Mapping[str, Path]) -> Iterator[Grade]:
    """Grade submissions by name, unrounded."""
    grader = Grader(competition, dataset)
    for name, path in submissions.items():
        try:
            yield Grade(name, score=grader.score(path))
        except GraderDefect as error:
            yield Grade(name, reason=str(error), defect=True)
        except InvalidSubmission as error:
            yield Grade(name, reason=str(error))


def make_golden(competition: Competition, scratch: Path, seed: int = 1) -> dict[str, Any]:
    """Prepare and grade the synthetic data in an empty folder; raises CompetitionError if the grader is defective."""
    logging.getLogger("pytest_mlebench").setLevel(logging.ERROR)
    dataset = prepare_synthetic(competition, DataStore(scratch / "data"), seed)
    submissions = synthetic_submissions(competition, dataset, scratch / "submissions", seed)
    grades = list(grade_all(competition, dataset, submissions))
    if defects := [f"{grade.name}: {grade.reason}" for grade in grades if grade.defect]:
        raise CompetitionError(
            f"{competition.id}: grade.py must raise InvalidSubmission with a reason for these:\n  "
            + "\n  ".join(defects)
        )
    grades.sort(key=lambda grade: grade.name)
    scores = {grade.name: grade.score for grade in grades if grade.score is not None}
    return {
        "seed": seed,
        "public": prepared_listing(dataset)["public"],
        "private": prepared_listing(dataset)["private"],
        "scores": {name: score for name, score in scores.items() if not math.isnan(score)},
        "no_score": [name for name, score in scores.items() if math.isnan(score)],
        "invalid": [grade.name for grade in grades if grade.reason is not None],
    }


def prepared_listing(dataset: Dataset) -> dict[str, dict[str, Any]]:
    """Digests of the prepared files by side; the description, which every data set has, is not among them."""
    sides = {"public": listing(dataset.public), "private": listing(dataset.private)}
    sides["public"].pop("description.md", None)
    return sides


def prepared_differences(competition: Competition, dataset: Dataset) -> list[str]:
    """What the prepared synthetic data has otherwise than the golden; empty if it holds."""
    found = prepared_listing(dataset)
    return [
        line
        for side in ("public", "private")
        for line in differences(competition.golden[side], found[side], where=side)
    ]


def score_differences(competition: Competition, grades: Mapping[str, Grade]) -> list[str]:
    """Which valid submissions of the golden come out otherwise; empty if all hold."""
    golden = competition.golden
    wanted: dict[str, float] = {**golden["scores"], **dict.fromkeys(golden["no_score"], math.nan)}
    return [*_unknown(golden, grades), *(line for name in wanted if (line := _differs(wanted[name], grades.get(name))))]


def rejection_differences(competition: Competition, grades: Mapping[str, Grade]) -> list[str]:
    """Which malformed submissions of the golden are not rejected with a reason; empty if all are."""
    wrong = []
    for name in competition.golden["invalid"]:
        grade = grades.get(name)
        if grade is None:
            wrong.append(f"{name} is not among the synthetic submissions")
        elif grade.reason is None:
            wrong.append(f"{name} must be invalid; it scores {grade.score!r}")
        elif grade.defect or not grade.reason.strip():
            wrong.append(f"{name} must be rejected with a reason: {grade.reason}")
    return wrong


def _differs(wanted: float, grade: Grade | None) -> str | None:
    if grade is None:
        return "a submission of the golden is not among the synthetic ones"
    if grade.score is None:
        return f"{grade.name} must score {wanted!r}; it is invalid: {grade.reason}"
    same = (
        math.isnan(grade.score)
        if math.isnan(wanted)
        else math.isclose(grade.score, wanted, rel_tol=1e-9, abs_tol=TOLERANCE)
    )
    return None if same else f"{grade.name} must score {wanted!r}; it scores {grade.score!r}"


def _unknown(golden: Mapping[str, Any], grades: Mapping[str, Grade]) -> list[str]:
    known = {*golden["scores"], *golden["no_score"], *golden["invalid"]}
    return [f"{name} is not in golden.json; run `mlebench golden`" for name in grades if name not in known]
