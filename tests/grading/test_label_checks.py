import numpy as np
import pandas as pd
import pytest

from pytest_mlebench.authoring import align, require_text, texts
from pytest_mlebench.authoring.checks import require_whole
from pytest_mlebench.errors import InvalidSubmission


def column(*values: object) -> pd.DataFrame:
    return pd.DataFrame({"label": list(values)})


def test_whole_numbers_may_be_written_as_floats_with_any_sign() -> None:
    require_whole(np.array([2.0, -5.0, 0.0, 99.0, np.nan]), "label")


@pytest.mark.parametrize("value", [0.4, -1.5, 1e-300, 2.0**63, 1e300, np.inf])
def test_a_number_that_is_not_whole_is_reported_with_its_row(value: float) -> None:
    with pytest.raises(InvalidSubmission, match=r"column 'label', row 2: the value .* is not a whole number"):
        require_whole(np.array([1.0, value]), "label")


def test_one_of_several_columns_is_reported_by_name() -> None:
    with pytest.raises(InvalidSubmission, match=r"column 'b', row 1: the value 0\.5 "):
        require_whole(np.array([[1.0, 0.5]]), ["a", "b"])


def test_a_missing_label_is_read_as_empty_text() -> None:
    assert list(texts(column("rust", None, "scab"), "label")) == ["rust", "", "scab"]


def test_a_column_without_labels_is_read_as_empty_texts() -> None:
    assert list(texts(column(np.nan, np.nan), "label")) == ["", ""]


def test_numbers_among_text_are_kept_as_text() -> None:
    assert list(texts(column("rust", 7, 7.5), "label")) == ["rust", "7", "7.5"]


@pytest.mark.parametrize(
    ("values", "kind"), [((1, 2), "integer"), ((0.5, None), "floating"), ((True, None), "boolean")]
)
def test_require_text_rejects_a_column_of_other_types(values: tuple[object, ...], kind: str) -> None:
    with pytest.raises(InvalidSubmission, match=rf"column 'label' must contain text; the file has only {kind} values"):
        require_text(column(*values), "label")


def test_a_table_without_rows_has_no_texts() -> None:
    assert len(texts(column(), "label")) == 0


def test_the_reason_for_missing_ids_counts_them() -> None:
    answers = pd.DataFrame({"id": [1, 2, 3]})
    with pytest.raises(InvalidSubmission, match=r"^id 3 is missing$"):
        align(answers.head(2), answers, on="id")
    with pytest.raises(InvalidSubmission, match=r"^id 2 and 1 more are missing$"):
        align(answers.head(1), answers, on="id")


def test_a_missing_field_gets_the_given_text() -> None:
    table = pd.DataFrame({"text": ["a", None], "number": [1.5, None], "flag": [True, None], "NA": [None, None]})
    assert [texts(table, column, missing="nan").tolist() for column in ["text", "number", "flag", "NA"]] == [
        ["a", "nan"],
        ["1.5", "nan"],
        ["True", "nan"],
        ["nan", "nan"],
    ]
