import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_mlebench.authoring import (
    InvalidSubmission,
    align,
    alignment,
    answer_positions,
    numeric,
    predictions,
    require_above,
    require_between,
    require_columns,
    require_finite,
    require_not_missing,
    require_row_count,
    require_row_sums,
    require_text,
    texts,
)

GOOD = pd.DataFrame({"id": ["a", "b", "c"], "p": [0.1, 0.2, 0.3], "q": [1, 0, 1]})


def test_answer_positions_allow_repeated_ids() -> None:
    answers = pd.DataFrame({"id": [7, 8, 9]})
    assert answer_positions(pd.DataFrame({"id": [9, 7, 8, 9]}), answers, on="id").tolist() == [2, 0, 1, 2]


@pytest.mark.parametrize(
    ("ids", "reason"),
    [([7, 8], "id 9 is missing"), ([7, 8, 9, 5], "id 5 is not an id"), ([7, 7, 8], "id 9 is missing")],
)
def test_answer_positions_require_exactly_the_ids_of_the_answers(ids: list[int], reason: str) -> None:
    with pytest.raises(InvalidSubmission, match=reason):
        answer_positions(pd.DataFrame({"id": ids}), pd.DataFrame({"id": [7, 8, 9]}), on="id")


def test_texts_are_empty_where_values_are_missing_and_numbers_as_python_prints_them() -> None:
    table = pd.DataFrame({"text": ["a", None], "number": [1.5, None], "whole": [1, 2], "empty": [None, None]})
    assert [texts(table, name).tolist() for name in ["text", "number", "whole", "empty"]] == [
        ["a", ""],
        ["1.5", ""],
        ["1", "2"],
        ["", ""],
    ]


@pytest.mark.parametrize("values", [[1, 2], [1.5, None], [True, False]])
def test_a_column_with_only_numbers_is_not_text(values: list[object]) -> None:
    with pytest.raises(InvalidSubmission, match="column 'text' must contain text"):
        require_text(pd.DataFrame({"text": values}), "text")


@pytest.mark.parametrize("values", [["a", "1"], [None, None], ["a", None]])
def test_a_column_with_some_text_or_none_at_all_passes(values: list[object]) -> None:
    require_text(pd.DataFrame({"text": values}), "text")


def test_ids_too_large_for_an_integer_are_not_in_the_test_set() -> None:
    with pytest.raises(InvalidSubmission, match=r"id 9+ is not an id of the test set"):
        alignment(pd.DataFrame({"id": [10**26 - 1, 7]}), pd.DataFrame({"id": ["a", "b"]}), on="id")


def test_columns_may_be_in_any_order_with_extra_ones() -> None:
    require_columns(GOOD, ["q", "id"])
    require_columns(GOOD, ["q", "p", "id"], exactly=True)


def test_a_missing_column_is_reported_with_the_existing_columns() -> None:
    with pytest.raises(InvalidSubmission, match=r"^column 'target' is missing; the file has 'id', 'p', 'q'$"):
        require_columns(GOOD, ["id", "target"])
    with pytest.raises(InvalidSubmission, match=r"^column 'id' is missing; the file has none$"):
        require_columns(pd.DataFrame(), ["id"])


def test_an_extra_column_is_reported_if_none_is_allowed() -> None:
    with pytest.raises(InvalidSubmission, match=r"^column 'q' is not expected; the columns are id, p$"):
        require_columns(GOOD, ["id", "p"], exactly=True)


def test_column_names_are_truncated_in_reasons() -> None:
    monstrous = pd.DataFrame({"x" * 10**6: [1]})
    for exactly, columns in ((False, ["id"]), (True, [])):
        with pytest.raises(InvalidSubmission) as caught:
            require_columns(monstrous, columns, exactly=exactly)
        assert len(str(caught.value)) < 200


def test_the_number_of_rows_must_match_the_answers() -> None:
    require_row_count(GOOD, GOOD)
    require_row_count(GOOD, 3)
    with pytest.raises(InvalidSubmission, match=r"^the file has 3 rows; 2 were expected$"):
        require_row_count(GOOD, GOOD.head(2))


def test_numbers_are_returned_as_floats_in_the_requested_shape() -> None:
    assert numeric(GOOD, "p").tolist() == [0.1, 0.2, 0.3]
    assert numeric(GOOD, ["q", "p"]).tolist() == [[1, 0.1], [0, 0.2], [1, 0.3]]
    assert numeric(GOOD, ["q"]).shape == (3, 1)


def test_booleans_become_0_and_1_and_missing_values_nan() -> None:
    assert numeric(pd.DataFrame({"p": [True, False]}), "p").tolist() == [1, 0]
    assert np.isnan(numeric(pd.DataFrame({"p": [0.5, None]}), "p")).tolist() == [False, True]
    assert numeric(pd.DataFrame({"p": [True, None]}, dtype=object), "p")[0] == 1


@pytest.mark.parametrize("value", ["high", "1_000", "0x10", "1+2j", "\u0663", "\0", "0.5.1", "1,5"])
def test_a_non_number_is_reported_with_its_row(value: str) -> None:
    with pytest.raises(InvalidSubmission, match=r"^column 'p', row 2: .* is not a number$"):
        numeric(GOOD.assign(p=[0.1, value, "also wrong"]), "p")


def test_an_integer_too_large_for_a_float_is_reported_with_its_row() -> None:
    with pytest.raises(InvalidSubmission, match=r"^column 'p', row 2: -10+\.\.\. is too large a number$"):
        numeric(pd.DataFrame({"p": [1, -(10**400), None]}, dtype=object), "p")


def test_a_long_text_is_truncated_in_the_reason() -> None:
    with pytest.raises(InvalidSubmission) as caught:
        numeric(pd.DataFrame({"p": ["x" * 10**6]}), "p")
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_must_be_finite(value: float) -> None:
    require_finite(np.array([1e308, -1e-308, 0]), "p")
    with pytest.raises(InvalidSubmission, match=r"^column 'q', row 2: the value is missing or not finite$"):
        require_finite(np.array([[0, 1], [0, value]]), ["p", "q"])


def test_a_missing_value_is_reported_with_its_column_and_row() -> None:
    table = pd.DataFrame({"a": ["x", "y"], "b": [1, None]})
    require_not_missing(table, "a")
    with pytest.raises(InvalidSubmission, match=r"^column 'b', row 2: the value is missing$"):
        require_not_missing(table, ["a", "b"])


def test_bounds_are_inclusive_and_missing_values_pass() -> None:
    require_between(np.array([0, 1, 0.5, np.nan]), "p")
    require_between(np.array([-3.0, 7.0]), "p", -3, 7)


@pytest.mark.parametrize("value", [np.nextafter(1, 2), np.nextafter(0, -1), 2.0, -np.inf])
def test_the_range_is_compared_exactly(value: float) -> None:
    with pytest.raises(InvalidSubmission, match=r"^column 'p', row 1: the value .* is not between 0 and 1$"):
        require_between(np.array([value]), "p")


def test_a_lower_bound_may_be_excluded() -> None:
    require_above(np.array([np.nextafter(-1, 0), 5, np.nan]), "p", -1)
    with pytest.raises(InvalidSubmission, match=r"^column 'p', row 1: the value -1\.0 is not greater than -1$"):
        require_above(np.array([-1.0, -2.0]), "p", -1)


def test_rows_must_sum_to_the_total_within_the_tolerance() -> None:
    require_row_sums(np.array([[0.5, 0.5], [1, 0], [1 + 0.9e-5, 0], [np.nan, 1]]))
    require_row_sums(np.array([[50.0, 50.0]]), total=100)
    with pytest.raises(InvalidSubmission, match=r"^row 2: the values sum to 0\.9, not to 1$"):
        require_row_sums(np.array([[0.5, 0.5], [0.4, 0.5]]))
    with pytest.raises(InvalidSubmission, match="row 1"):
        require_row_sums(np.array([[1.01, 0]]), rtol=0.001)


@given(st.permutations(range(6)), st.sampled_from([int, float, str]))
def test_rows_are_aligned_regardless_of_order_and_id_type(order: list[int], kind: type) -> None:
    answers = pd.DataFrame({"id": [kind(k) for k in range(6)], "value": range(6)})
    submission = answers.iloc[order]
    assert align(submission, answers, on="id").equals(answers)
    assert predictions(submission, answers, "value", on="id").tolist() == list(range(6))


def test_whole_floats_equal_integers_but_text_does_not() -> None:
    answers = pd.DataFrame({"id": [1, 2]})
    assert alignment(pd.DataFrame({"id": [2.0, 1.0]}), answers, on="id").tolist() == [1, 0]
    with pytest.raises(InvalidSubmission, match="id '1' is not an id of the test set"):
        alignment(pd.DataFrame({"id": ["1", "2"]}), answers, on="id")


@pytest.mark.parametrize(
    ("ids", "reason"),
    [
        (["a", "b"], r"^id 'c' is missing$"),
        (["b"], r"^id 'a' and 1 more are missing$"),
        ([], r"^id 'a' and 2 more are missing$"),
        (["a", "b", "c", "d"], r"^id 'd' is not an id of the test set$"),
        (["a", "b", "C"], r"^id 'C' is not an id of the test set$"),
        (["a", "b", "b"], r"^id 'b' occurs more than once$"),
        (["a", "b", "c", "c"], r"^id 'c' occurs more than once$"),
        (["a", None, "c"], r"^id nan is not an id of the test set$"),
        (["a", 2, "c"], r"^id 2 is not an id of the test set$"),
    ],
)
def test_a_wrong_id_is_reported(ids: list[object], reason: str) -> None:
    with pytest.raises(InvalidSubmission, match=reason):
        alignment(pd.DataFrame({"id": ids}), GOOD, on="id")


def test_a_table_without_the_id_column_is_rejected() -> None:
    with pytest.raises(InvalidSubmission, match="column 'id' is missing"):
        align(GOOD.drop(columns="id"), GOOD, on="id")


def test_predictions_are_checked_before_they_are_aligned() -> None:
    shuffled = GOOD.iloc[[2, 0, 1]].assign(p=[0.3, 7, 0.2])
    with pytest.raises(InvalidSubmission, match=r"^column 'p', row 2: the value 7\.0 is not between 0 and 1$"):
        predictions(shuffled, GOOD, "p", on="id", between=(0, 1))
    assert predictions(shuffled, GOOD, "p", on="id").tolist() == [7, 0.2, 0.3]


@pytest.mark.parametrize(
    ("column", "text"),
    [
        ([12, 3], ["12", "3"]),
        ([0.5, 2.0], ["0.5", "2.0"]),
        ([0.5, None], ["0.5", "nan"]),
        ([True, False], ["True", "False"]),
        (["a", None], ["a", "nan"]),
        ([None, None], ["nan", "nan"]),
        ([True, None], ["True", "nan"]),
    ],
)
def test_values_become_text_as_python_prints_them_and_missing_values_nan(column: list[object], text: list[str]) -> None:
    assert texts(pd.DataFrame({"x": column}), "x", missing="nan").tolist() == text


@given(st.text(max_size=100), st.integers() | st.floats())
def test_no_reason_reveals_a_value_of_the_answers(secret: str, prediction: float) -> None:
    answers = pd.DataFrame({"id": [1, 2], "label": ["SECRET" + secret, "SECRET"]})
    for submission in (
        pd.DataFrame({"id": [1, 3], "label": [prediction, 0]}, dtype=object),
        pd.DataFrame({"id": [1], "label": ["guess"]}),
        pd.DataFrame({"id": [1, 1], "label": [0, 1]}),
    ):
        with pytest.raises(InvalidSubmission) as caught:
            predictions(submission, answers, "label", on="id", between=(0, 1))
        assert "SECRET" not in str(caught.value)
