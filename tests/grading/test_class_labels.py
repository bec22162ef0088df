import numpy as np
import pandas as pd
import pytest

from pytest_mlebench.errors import InvalidSubmission
from pytest_mlebench.grading import alignment, class_labels, label_sets, ranked_labels
from pytest_mlebench.grading.columns import whole_numbers

ANSWERS = pd.DataFrame({"id": ["a", "b", "c"], "label": [1, 2, 3]})


def table(*labels: object) -> pd.DataFrame:
    return pd.DataFrame({"id": ["c", "a", "b"], "label": labels})


def test_class_labels_come_in_the_order_of_the_answers() -> None:
    assert class_labels(table(30.0, 10, 20), ANSWERS, "label", on="id").tolist() == [10, 20, 30]


def test_booleans_are_classes_zero_and_one() -> None:
    assert whole_numbers(table(True, False, True), "label").tolist() == [1, 0, 1]


def test_a_fraction_raises_or_is_cut_off_towards_zero() -> None:
    with pytest.raises(InvalidSubmission, match=r"column 'label', row 2: the value 2\.7 is not a whole number"):
        whole_numbers(table(1, 2.7, -2.7), "label")
    assert whole_numbers(table(1, 2.7, -2.7), "label", truncate=True).tolist() == [1, 2, -2]


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300, "cat"])
def test_what_is_no_integer_names_its_row(value: object) -> None:
    with pytest.raises(InvalidSubmission, match="column 'label', row 3"):
        class_labels(table(1, 2, value), ANSWERS, "label", on="id", truncate=True)


def test_label_sets_ignore_order_repetition_and_space() -> None:
    sets = label_sets(table("  rust scab ", "scab\trust rust", None), "label")
    assert sets == [{"rust", "scab"}, {"rust", "scab"}, set()]


def test_a_column_of_numbers_holds_no_labels() -> None:
    for labels in ((1, 2, 3), (1, None, None), (True, True, False)):
        with pytest.raises(InvalidSubmission, match="column 'label' must hold text; the file has nothing but"):
            label_sets(table(*labels), "label")


def test_a_column_that_is_empty_throughout_is_empty_sets() -> None:
    assert label_sets(table(None, None, None), "label") == [set(), set(), set()]


def test_ranked_labels_are_cut_at_every_single_blank() -> None:
    assert ranked_labels(table("a b c d", " a  b", "a\tb "), "label", 3) == [
        ["a", "b", "c"],
        ["", "a", ""],
        ["a\tb", ""],
    ]


def test_ranked_labels_are_text_whatever_was_read() -> None:
    assert ranked_labels(table(7.0, None, 8.0), "label", 5) == [["7.0"], ["nan"], ["8.0"]]


def test_rows_are_aligned_on_several_columns() -> None:
    answers = pd.DataFrame({"image": ["a", "a", "b"], "box": [1, 2, 1]})
    assert alignment(answers, answers, on=["image", "box"]).tolist() == [0, 1, 2]
    assert alignment(answers.iloc[::-1], answers, on=["image", "box"]).tolist() == [2, 1, 0]
    with pytest.raises(InvalidSubmission, match=r"image/box \('b', .*\) is not an id"):
        alignment(answers.assign(box=[1, 2, 3]), answers, on=["image", "box"])


def test_an_empty_id_is_no_id_on_several_columns() -> None:
    answers = pd.DataFrame({"image": ["a", "a", "b"], "box": [1, 2, 1]})
    with pytest.raises(InvalidSubmission, match=r"image/box \(nan, .*\) is not an id"):
        alignment(answers.assign(image=["a", "a", None]), answers, on=["image", "box"])
