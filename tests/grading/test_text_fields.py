import numpy as np
import pandas as pd
import pytest

from pytest_mlebench.grading import InvalidSubmission, parse_texts, split_records, to_floats


def column(*values: object) -> pd.DataFrame:
    return pd.DataFrame({"text": list(values)})


def test_each_field_is_parsed_with_the_values_of_its_row() -> None:
    parsed = parse_texts(column("a", "b"), "text", str.ljust, [2, 3], ["-", "+"], expected="a word")
    assert parsed == ["a-", "b++"]


@pytest.mark.parametrize("missing", [None, np.nan])
def test_a_missing_field_stands_for_the_text_that_was_given(missing: object) -> None:
    assert parse_texts(column("a", missing), "text", str.upper, expected="a word", missing="none") == ["A", "NONE"]


def test_a_missing_field_is_refused_otherwise() -> None:
    with pytest.raises(InvalidSubmission, match=r"column 'text', row 2: the value is missing; expected a word"):
        parse_texts(column("a", None), "text", str.upper, expected="a word")


def test_a_column_of_numbers_is_refused() -> None:
    with pytest.raises(InvalidSubmission, match=r"column 'text', row 1: 5 is not text; expected a word"):
        parse_texts(column(5, 6), "text", str.upper, expected="a word")


def test_the_reason_of_the_parser_is_given_with_column_and_row() -> None:
    with pytest.raises(InvalidSubmission, match=r"column 'text', row 2: 'x' is not a number"):
        parse_texts(column("1", "x"), "text", lambda text: to_floats(text.split()), expected="numbers")


def test_a_table_without_rows_has_nothing_to_parse() -> None:
    assert parse_texts(column(), "text", str.upper, expected="a word") == []


def test_records_come_in_groups() -> None:
    assert split_records("a 1 b  2", 2) == [["a", "1"], ["b", "2"]]
    assert split_records("  ", 2) == []


def test_records_that_do_not_come_out_even_are_refused() -> None:
    with pytest.raises(ValueError, match="it has 3 values, which is not a multiple of 2"):
        split_records("a 1 b", 2)


def test_a_single_separator_leaves_empty_values_and_is_hinted_at() -> None:
    assert split_records("a  1 2", 2, separator=" ") == [["a", ""], ["1", "2"]]
    with pytest.raises(ValueError, match="a space too many"):
        split_records("a 1 ", 2, separator=" ")


def test_numbers_are_what_python_takes_for_a_float() -> None:
    assert to_floats(["1", "-2.5e3", "inf"]) == [1, -2500, float("inf")]


def test_the_first_text_that_is_no_number_is_named() -> None:
    with pytest.raises(ValueError, match="'one' is not a number"):
        to_floats(["1", "one", "two"])
    with pytest.raises(ValueError, match=r"'' is not a number \(is there a space too many\?\)"):
        to_floats(["1", ""])
