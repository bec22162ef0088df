from io import StringIO

import numpy as np
import pandas as pd
import pytest

from pytest_mlebench.authoring import alignment, class_labels, class_probabilities, label_sets, ranked_labels
from pytest_mlebench.authoring.columns import whole_numbers
from pytest_mlebench.errors import InvalidSubmission

ANSWERS = pd.DataFrame({"id": ["a", "b", "c"], "label": [1, 2, 3]})


def table(*labels: object) -> pd.DataFrame:
    return pd.DataFrame({"id": ["c", "a", "b"], "label": labels})


def test_class_labels_are_returned_in_the_order_of_the_answers() -> None:
    assert class_labels(table(30.0, 10, 20), ANSWERS, "label", on="id").tolist() == [10, 20, 30]


def test_booleans_are_classes_zero_and_one() -> None:
    assert whole_numbers(table(True, False, True), "label").tolist() == [1, 0, 1]


def test_a_fraction_raises_or_is_truncated_towards_zero() -> None:
    with pytest.raises(InvalidSubmission, match=r"column 'label', row 2: the value 2\.7 is not a whole number"):
        whole_numbers(table(1, 2.7, -2.7), "label")
    assert whole_numbers(table(1, 2.7, -2.7), "label", truncate=True).tolist() == [1, 2, -2]


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300, "cat"])
def test_a_non_integer_is_reported_with_its_row(value: object) -> None:
    with pytest.raises(InvalidSubmission, match="column 'label', row 3"):
        class_labels(table(1, 2, value), ANSWERS, "label", on="id", truncate=True)


@pytest.mark.parametrize(
    "labels",
    [
        ["9223372036854775807", "-9223372036854775808", "0"],
        ["9223372036854775808", "18446744073709551615", "0"],
        ["9007199254740993", "9007199254740992", "9007199254740991"],
    ],
    ids=["with a sign", "without a sign", "no floats"],
)
def test_integers_of_64_bits_stay_exact(labels: list[str]) -> None:
    read = pd.read_csv(StringIO("\n".join(["label", *labels])))
    for truncate in (False, True):
        assert whole_numbers(read, "label", truncate=truncate).tolist() == list(map(int, labels))


def test_whole_floats_are_accepted_within_64_bits() -> None:
    assert whole_numbers(table(-(2.0**63), 2.0**62, 0.5), "label", truncate=True).tolist() == [-(2**63), 2**62, 0]
    assert whole_numbers(table(2.0**63, 1.5, 0.0), "label", truncate=True).tolist() == [2**63, 1, 0]
    for values in ((2.0**63, -1.0, 0.0), (2.0**64, 0.0, 0.0)):
        with pytest.raises(InvalidSubmission, match=r"row 1: the value .* is not a whole number"):
            whole_numbers(table(*values), "label", truncate=True)
    with pytest.raises(InvalidSubmission, match=r"row 2: the value .* is not a whole number"):
        whole_numbers(table(1.0, 2.0**63, 0.0), "label")


def test_label_sets_ignore_order_duplicates_and_whitespace() -> None:
    sets = label_sets(table("  rust scab ", "scab\trust rust", None), "label")
    assert sets == [{"rust", "scab"}, {"rust", "scab"}, set()]


def test_a_column_of_numbers_is_rejected_as_label_sets() -> None:
    for labels in ((1, 2, 3), (1, None, None), (True, True, False)):
        with pytest.raises(InvalidSubmission, match="column 'label' must contain text; the file has only"):
            label_sets(table(*labels), "label")


def test_an_entirely_empty_column_gives_empty_sets() -> None:
    assert label_sets(table(None, None, None), "label") == [set(), set(), set()]


def test_ranked_labels_are_split_at_every_space() -> None:
    assert ranked_labels(table("a b c d", " a  b", "a\tb "), "label", 3) == [
        ["a", "b", "c"],
        ["", "a", ""],
        ["a\tb", ""],
    ]


def test_ranked_labels_are_text_even_if_numbers_were_read() -> None:
    assert ranked_labels(table(7.0, None, 8.0), "label", 5) == [["7.0"], ["nan"], ["8.0"]]


def test_rows_are_aligned_on_several_columns() -> None:
    answers = pd.DataFrame({"image": ["a", "a", "b"], "box": [1, 2, 1]})
    assert alignment(answers, answers, on=["image", "box"]).tolist() == [0, 1, 2]
    assert alignment(answers.iloc[::-1], answers, on=["image", "box"]).tolist() == [2, 1, 0]
    with pytest.raises(InvalidSubmission, match=r"image/box \('b', .*\) is not an id"):
        alignment(answers.assign(box=[1, 2, 3]), answers, on=["image", "box"])


def test_an_empty_id_is_rejected_with_several_id_columns() -> None:
    answers = pd.DataFrame({"image": ["a", "a", "b"], "box": [1, 2, 1]})
    with pytest.raises(InvalidSubmission, match=r"image/box \(nan, .*\) is not an id"):
        alignment(answers.assign(image=pd.Series(["a", "a", None])), answers, on=["image", "box"])


PROBABILITIES = pd.DataFrame({"id": ["a", "b"], "cat": [0.25, 1.0], "dog": [0.75, 0.0]})


def test_class_probabilities_are_returned_in_the_order_of_the_answers() -> None:
    found = class_probabilities(PROBABILITIES.iloc[::-1], PROBABILITIES, ["cat", "dog"], on="id")
    assert found.tolist() == [[0.25, 0.75], [1.0, 0.0]]


@pytest.mark.parametrize(
    ("cat", "reason"),
    [(0.26, "row 1: the values sum to 1.01"), (np.nan, "row 1: the values sum to 0.75"), ("cat", "is not a number")],
)
def test_class_probabilities_must_sum_to_one(cat: object, reason: str) -> None:
    table = PROBABILITIES.assign(cat=pd.Series([cat, 1.0]))
    with pytest.raises(InvalidSubmission, match=reason):
        class_probabilities(table, PROBABILITIES, ["cat", "dog"], on="id")
    if cat == 0.26:
        assert class_probabilities(table, PROBABILITIES, ["cat", "dog"], on="id", atol=0.1)[0].tolist() == [0.26, 0.75]


def test_class_probabilities_lie_between_0_and_1() -> None:
    with pytest.raises(InvalidSubmission, match="is not between 0 and 1"):
        class_probabilities(PROBABILITIES.assign(cat=1.5, dog=-0.5), PROBABILITIES, ["cat", "dog"], on="id")
