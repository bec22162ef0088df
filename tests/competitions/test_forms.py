"""The submission checker's results for every competition's synthetic submissions, using only public files."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_mlebench.catalog import Competition, default_catalogue
from pytest_mlebench.data.store import DataStore
from pytest_mlebench.gate.golden import ANSWERS, synthetic_submissions
from pytest_mlebench.grading.grader import VALID, FormChecker
from tests.extent import one_in

CATALOGUE, CORRECTED = default_catalogue(), default_catalogue(version="v2")
SCORED_CUSTOMERS = "h-and-m-personalized-fashion-recommendations"
REFUSED = {
    # Only some rows count, but only the answers show which, so the checker checks all rows.
    "3d-object-detection-for-autonomous-vehicles": {"invalid_box_of_another_class.csv"},
    SCORED_CUSTOMERS: {ANSWERS, "only_scored_customers.csv"},
    "jigsaw-toxic-comment-classification-challenge": {
        "duplicate_ignored_for_ignored.csv",
        "duplicate_kept_for_kept.csv",
        "nan_in_ignored_row.csv",
        "text_in_ignored_row.csv",
    },
    "osic-pulmonary-fibrosis-progression": {"one_row_twice.csv", "repeats_one_that_does_not_count.csv"},
    "stanford-covid-vaccine": {"text_in_unscored_row.csv", "unscored_position_nan.csv"},
}
"""Submissions that the checker rejects, although they have a score."""
ACCEPTED = {
    # Its score cannot be computed because of what the answers are.
    "jigsaw-unintended-bias-in-toxicity-classification": {"inverted.csv"},
}
"""Submissions that the checker accepts, although they are invalid."""


@pytest.mark.full
@pytest.mark.parametrize("competition_id", one_in(3, CATALOGUE.ids))
def test_the_checker_agrees_with_the_grader_if_public_files_suffice(competition_id: str, tmp_path: Path) -> None:
    expected = REFUSED.get(competition_id, set()), ACCEPTED.get(competition_id, set())
    assert _disagreements(CATALOGUE[competition_id], tmp_path) == expected


@pytest.mark.full
@pytest.mark.parametrize("competition_id", sorted({*REFUSED, *ACCEPTED} - {SCORED_CUSTOMERS}))
def test_in_the_second_version_the_checker_and_the_grader_always_agree(competition_id: str, tmp_path: Path) -> None:
    assert _disagreements(CORRECTED[competition_id], tmp_path) == (set(), set())


def _disagreements(competition: Competition, folder: Path) -> tuple[set[str], set[str]]:
    """Submissions that the checker rejects although they have a score, and accepts although they are invalid."""
    dataset = DataStore(folder).prepare(competition, synthetic=1)
    submissions = synthetic_submissions(competition, dataset, folder / "submissions")
    copies = {name: folder / "submissions" / f"{number}" for number, name in enumerate(submissions)}
    for name, path in submissions.items():
        copies[name].write_bytes(path.read_bytes())
    public = dataset.public.rename(folder / "public")  # away from the private files
    check = FormChecker(competition, public)
    accepted = {name for name, path in copies.items() if check(path) == VALID}
    invalid = set(competition.golden["invalid"])
    return submissions.keys() - invalid - accepted, accepted & invalid
