import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_mlebench.authoring import (
    InvalidSubmission,
    labelled_columns,
    labelled_records,
    number_records,
    parse_texts,
    to_floats,
)


def column(*values: object) -> pd.DataFrame:
    return pd.DataFrame({"text": list(values)})


def test_each_field_is_parsed_with_the_values_of_its_row() -> None:
    parsed = parse_texts(column("a", "b"), "text", str.ljust, [2, 3], ["-", "+"], expected="a word")
    assert parsed == ["a-", "b++"]


@pytest.mark.parametrize("missing", [None, np.nan])
def test_a_missing_field_is_replaced_by_the_given_text(missing: object) -> None:
    assert parse_texts(column("a", missing), "text", str.upper, expected="a word", missing="none") == ["A", "NONE"]


def test_a_missing_field_is_rejected_without_a_replacement() -> None:
    with pytest.raises(InvalidSubmission, match=r"column 'text', row 2: the value is missing; expected a word"):
        parse_texts(column("a", None), "text", str.upper, expected="a word")


def test_a_column_of_numbers_is_rejected() -> None:
    with pytest.raises(InvalidSubmission, match=r"column 'text', row 1: 5 is not text; expected a word"):
        parse_texts(column(5, 6), "text", str.upper, expected="a word")


def test_the_parsers_reason_is_reported_with_column_and_row() -> None:
    with pytest.raises(InvalidSubmission, match=r"column 'text', row 2: 'x' is not a number"):
        parse_texts(column("1", "x"), "text", lambda text: to_floats(text.split()), expected="numbers")


def test_a_table_without_rows_gives_no_texts() -> None:
    assert parse_texts(column(), "text", str.upper, expected="a word") == []


def test_records_of_numbers_are_the_rows_of_a_table() -> None:
    assert number_records("3 1 4\t1", 2).tolist() == [[3, 1], [4, 1]]
    assert number_records("  ", 2).shape == (0, 2)


def test_records_have_their_label_first_or_last() -> None:
    for text, label in (("a 1 2 b 3 4", 0), ("1 2 a 3 4 b", -1)):
        labels, numbers = labelled_records(text, 3, label=label)
        assert labels == ["a", "b"] and numbers.tolist() == [[1, 2], [3, 4]]


def test_incomplete_records_are_rejected() -> None:
    with pytest.raises(ValueError, match="it has 3 values, which is not a multiple of 2"):
        labelled_records("a 1 b", 2)


def test_a_single_separator_leaves_empty_values_and_gets_a_hint() -> None:
    assert labelled_records("a 1  2", 2, separator=" ")[0] == ["a", ""]
    with pytest.raises(ValueError, match="an extra space"):
        labelled_records("a 1 ", 2, separator=" ")


def test_numbers_are_parsed_as_python_floats() -> None:
    assert to_floats(["1", "-2.5e3", "inf"]).tolist() == [1, -2500, float("inf")]


def test_the_first_non_number_is_reported() -> None:
    with pytest.raises(ValueError, match="'one' is not a number"):
        to_floats(["1", "one", "two"])
    with pytest.raises(ValueError, match=r"'' is not a number \(is there an extra space\?\)"):
        to_floats(["1", ""])


PARTS = st.sampled_from(["cat", "1", "-2.5e3", "inf", "nan", "1_0", "x", "", "+1", ".5", "1."])


@given(
    st.lists(st.lists(PARTS, max_size=7).map(" ".join), max_size=5),
    st.sampled_from([0, -1]),
    st.sampled_from([None, " "]),
)
def test_the_records_of_a_column_match_those_of_its_texts(texts: list[str], label: int, separator: str | None) -> None:
    try:
        rows = [
            labelled_records(text, 3, label=label, separator=separator) if text.strip() else ([], np.empty((0, 2)))
            for text in texts
        ]
    except ValueError:
        with pytest.raises(ValueError, match=r"multiple|not a number"):
            labelled_columns(texts, 3, label=label, separator=separator)
    else:
        counts, labels, numbers = labelled_columns(texts, 3, label=label, separator=separator)
        assert counts.tolist() == [len(names) for names, _ in rows]
        assert labels == [name for names, _ in rows for name in names]
        np.testing.assert_array_equal(numbers, np.concatenate([np.empty((0, 2)), *(values for _, values in rows)]))


@pytest.mark.parametrize(
    "text",
    [
        *("1", "+1", "-0", "1.", ".5", "1e5", "1E-400", "1e400", "1_000", "inf", "-Infinity", "nan", "0.1", "1e23"),
        *("9007199254740993", "2.2250738585072011e-308", "123456789012345678901234567890", "\u0663", "4.9e-324"),
    ],
)
def test_many_numbers_are_read_as_python_reads_one(text: str) -> None:
    assert np.array_equal(to_floats(["0.5"] * 2000 + [text]), [0.5] * 2000 + [float(text)], equal_nan=True)


@pytest.mark.parametrize("text", ["nan(1)", "0x10", "1,5", "", "1e", " ", "true", "\ud800", "1\x00"])
def test_a_non_number_among_many_numbers_is_reported(text: str) -> None:
    with pytest.raises(ValueError, match="is not a number"):
        to_floats(["0.5"] * 2000 + [text])
