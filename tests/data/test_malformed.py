"""The malformed submissions that every grader must reject."""

from __future__ import annotations

import pandas as pd
import pytest

from pytest_mlebench.authoring import predictions
from pytest_mlebench.authoring.synthetic import first_value, malformed, standard
from pytest_mlebench.errors import InvalidSubmission

GOOD = pd.DataFrame({"id": [7, 3, 5], "p": [0.1, 0.5, 0.9]})
ALSO = (
    "missing_id renamed_id nan_id missing_column renamed_column all_text "
    "nan_prediction text_prediction infinite above_one negative"
)
MADE = malformed(GOOD, "id", 99, "p", ALSO)


def test_there_is_a_submission_for_each_name() -> None:
    rows = {"missing_row", "extra_row", "duplicate_id", "unknown_id", "header_only", "empty.csv"}
    assert malformed(GOOD, "id", 99).keys() == rows
    assert MADE.keys() == rows | set(ALSO.split())
    assert malformed(GOOD, "id", 99, without="duplicate_id header_only").keys() == rows - {
        "duplicate_id",
        "header_only",
    }


@pytest.mark.parametrize("name", [name for name in MADE if name != "empty.csv"])
def test_the_standard_checks_reject_each_of_them(name: str) -> None:
    assert predictions(GOOD, GOOD, "p", on="id", between=(0, 1)).tolist() == [0.1, 0.5, 0.9]
    with pytest.raises(InvalidSubmission):
        predictions(MADE[name], GOOD, "p", on="id", between=(0, 1))


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(KeyError, match="missing_colum"):
        malformed(GOOD, "id", 99, "p", "missing_colum")


def test_standard_submissions_include_two_orders_and_malformed_ones() -> None:
    made = standard(GOOD, "id", 99, "p", "infinite")
    assert made.keys() == {"noisy", "noisy_shuffled", *malformed(GOOD, "id", 99, "p", "infinite")}
    assert made["noisy"] is GOOD and sorted(made["noisy_shuffled"]["id"]) == [3, 5, 7]


def test_the_first_value_of_a_column_is_replaced() -> None:
    made = first_value(GOOD, "p", text="high", empty=None)
    assert made["text"]["p"].tolist() == ["high", 0.5, 0.9] and made["text"]["id"].tolist() == [7, 3, 5]
    assert made["empty"]["p"].isna().tolist() == [True, False, False] and GOOD["p"][0] == 0.1
