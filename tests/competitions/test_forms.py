"""What the submission checker says of every competition's synthetic submissions, from the public files alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.data.store import DataStore
from pytest_mlebench.grading.golden import ANSWERS, prepare_synthetic, synthetic_submissions
from pytest_mlebench.grading.verdicts import VALID, FormChecker

CATALOGUE = default_catalogue()
REFUSED = {
    # Only some rows count, and the answers know which: the checker looks at all.
    "3d-object-detection-for-autonomous-vehicles": {"invalid_box_of_another_class.csv"},
    "h-and-m-personalized-fashion-recommendations": {ANSWERS, "only_scored_customers.csv"},
    "jigsaw-toxic-comment-classification-challenge": {
        "duplicate_ignored_for_ignored.csv",
        "duplicate_kept_for_kept.csv",
        "nan_in_ignored_row.csv",
        "text_in_ignored_row.csv",
    },
    "osic-pulmonary-fibrosis-progression": {"one_row_twice.csv", "repeats_one_that_does_not_count.csv"},
    "stanford-covid-vaccine": {"text_in_unscored_row.csv", "unscored_position_nan.csv"},
}
"""Submissions that have a score, though the checker refuses them."""
ACCEPTED = {
    # Its score cannot be computed because of what the answers are.
    "jigsaw-unintended-bias-in-toxicity-classification": {"inverted.csv"},
}
"""Submissions that are invalid, though the checker accepts them."""


@pytest.mark.full
@pytest.mark.parametrize("competition_id", CATALOGUE.ids)
def test_the_checker_agrees_with_the_grader_where_public_files_suffice(competition_id: str, tmp_path: Path) -> None:
    competition = CATALOGUE[competition_id]
    dataset = prepare_synthetic(competition, DataStore(tmp_path))
    submissions = synthetic_submissions(competition, dataset, tmp_path / "submissions")
    copies = {name: tmp_path / "submissions" / f"{number}" for number, name in enumerate(submissions)}
    for name, path in submissions.items():
        copies[name].write_bytes(path.read_bytes())
    public = dataset.public.rename(tmp_path / "public")  # away from the private files
    check = FormChecker(competition, public)
    accepted = {name for name, path in copies.items() if check(path) == VALID}
    invalid = set(competition.golden["invalid"])
    assert submissions.keys() - invalid - accepted == REFUSED.get(competition_id, set())
    assert accepted & invalid == ACCEPTED.get(competition_id, set())
