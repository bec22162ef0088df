import pandas as pd
import pytest

from pytest_mlebench.grading import InvalidSubmission, alignment, positions, require_text, texts


def test_positions_let_ids_repeat():
    answers = pd.DataFrame({"id": [7, 8, 9]})
    assert positions(pd.DataFrame({"id": [9, 7, 8, 9]}), answers, on="id").tolist() == [2, 0, 1, 2]


@pytest.mark.parametrize(
    ("ids", "reason"),
    [([7, 8], "id 9 is missing"), ([7, 8, 9, 5], "id 5 is not an id"), ([7, 7, 8], "id 9 is missing")],
)
def test_positions_want_every_id_and_no_other(ids, reason):
    with pytest.raises(InvalidSubmission, match=reason):
        positions(pd.DataFrame({"id": ids}), pd.DataFrame({"id": [7, 8, 9]}), on="id")


def test_texts_are_empty_where_values_are_missing_and_numbers_as_python_prints_them():
    table = pd.DataFrame({"text": ["a", None], "number": [1.5, None], "whole": [1, 2], "empty": [None, None]})
    assert [texts(table, column) for column in table] == [["a", ""], ["1.5", ""], ["1", "2"], ["", ""]]


@pytest.mark.parametrize("values", [[1, 2], [1.5, None], [True, False]])
def test_a_column_of_numbers_alone_is_no_text(values):
    with pytest.raises(InvalidSubmission, match="column 'text' holds numbers only"):
        require_text(pd.DataFrame({"text": values}), "text")


@pytest.mark.parametrize("values", [["a", "1"], [None, None], ["a", None]])
def test_a_column_with_some_text_or_none_at_all_passes(values):
    require_text(pd.DataFrame({"text": values}), "text")


def test_ids_too_large_for_an_integer_are_no_ids_of_the_test_set():
    with pytest.raises(InvalidSubmission, match=r"id 9+ is not an id of the test set"):
        alignment(pd.DataFrame({"id": [10**26 - 1, 7]}), pd.DataFrame({"id": ["a", "b"]}), on="id")
