from random import Random

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_mlebench.authoring import InvalidSubmission, alignment, require_same_ids

ANSWERS = pd.DataFrame({"id": [3, 1, 2]})


@given(st.lists(st.integers(-5, 50), unique=True), st.randoms(use_true_random=False))
def test_integer_ids_are_aligned_like_other_ids(ids: list[int], random: Random) -> None:
    shuffled = random.sample(ids, len(ids))
    submission, answers = pd.DataFrame({"id": shuffled}), pd.DataFrame({"id": ids})
    order = alignment(submission, answers, "id")
    assert np.array(shuffled)[order].tolist() == ids
    assert (order == alignment(submission.astype(str), answers.astype(str), "id")).all()


@given(
    st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=70), unique=True),
    st.randoms(use_true_random=False),
)
def test_texts_of_any_length_and_script_are_aligned(ids: list[str], random: Random) -> None:
    shuffled = random.sample(ids, len(ids))
    order = alignment(pd.DataFrame({"id": shuffled}, dtype="str"), pd.DataFrame({"id": ids}, dtype="str"), "id")
    assert [shuffled[row] for row in order] == ids


@pytest.mark.parametrize(
    "ids", [np.arange(200_000) * 2**40, np.arange(200_000) - 2**62, 3**39 % (np.arange(200_000) + 9**9)]
)
def test_many_ids_of_any_pattern_are_aligned_as_numbers_and_text(ids: np.ndarray) -> None:
    ids = np.unique(ids)
    shuffled = np.random.default_rng(0).permutation(ids)
    as_numbers, as_texts = (
        alignment(pd.DataFrame({"id": shuffled}).astype(kind), pd.DataFrame({"id": ids}).astype(kind), "id")
        for kind in ("int64", "str")
    )
    assert (shuffled[as_numbers] == ids).all()
    assert (as_numbers == as_texts).all()


@pytest.mark.parametrize(
    ("change", "reason"),
    [("t5", "'t5' occurs more than once"), ("t99999999", "'t99999999' is not an id"), ("x" * 99, "is not an id")],
)
def test_one_wrong_text_among_many_is_reported(change: str, reason: str) -> None:
    ids = pd.Series([f"t{number}" for number in range(70_000)], dtype="str")
    with pytest.raises(InvalidSubmission, match=reason):
        alignment(pd.DataFrame({"id": [*ids[:9], change, *ids[10:]]}, dtype="str"), ids.to_frame("id"), "id")


@pytest.mark.parametrize(
    ("ids", "reason"),
    [([1, 1, 3], "1 occurs more than once"), ([1, 2, 4], "4 is not an id"), ([1, 2], "3 is missing")],
)
def test_wrong_integer_ids_are_reported(ids: list[int], reason: str) -> None:
    with pytest.raises(InvalidSubmission, match=reason):
        alignment(pd.DataFrame({"id": ids}), ANSWERS, "id")


def test_ids_may_repeat_any_number_of_times() -> None:
    require_same_ids(pd.DataFrame({"id": [1, 2, 2.0, 3, 1]}), ANSWERS, "id")


@pytest.mark.parametrize(("ids", "reason"), [([1, 2, 2, 9, 3], "9 is not an id"), ([1, 2, 2, 1], "3 is missing")])
def test_ids_that_are_not_in_the_answers_are_reported(ids: list[int], reason: str) -> None:
    with pytest.raises(InvalidSubmission, match=reason):
        require_same_ids(pd.DataFrame({"id": ids}), ANSWERS, "id")


def test_ids_of_several_columns_are_compared_together() -> None:
    answers = pd.DataFrame({"a": [1, 1, 1], "b": ["x", "x", "y"]})
    require_same_ids(answers.iloc[1:], answers, ["a", "b"])
    with pytest.raises(InvalidSubmission, match="a/b"):
        require_same_ids(answers.assign(b="x"), answers, ["a", "b"])
