import pandas as pd
import pytest

from pytest_mlebench.data.synthetic import malformed_rows
from pytest_mlebench.errors import InvalidSubmission
from pytest_mlebench.grading import align

GOOD = pd.DataFrame({"id": [7, 3, 5], "label": ["a", "b", "c"]})


@pytest.mark.parametrize("name", malformed_rows(GOOD, "id", 99))
def test_no_malformed_submission_fits_the_ids_of_the_answers(name: str) -> None:
    submission = malformed_rows(GOOD, "id", 99)[name]
    if isinstance(submission, str):
        assert submission == ""
        return
    with pytest.raises(InvalidSubmission):
        align(submission, GOOD, on="id")


def test_malformed_submissions_differ_from_the_good_one_in_rows_only() -> None:
    tables = [table for table in malformed_rows(GOOD, "id", 99).values() if isinstance(table, pd.DataFrame)]
    assert all(list(table.columns) == ["id", "label"] and table["id"].dtype == int for table in tables)
