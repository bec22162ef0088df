import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_mlebench.authoring.metrics.text import mean_levenshtein_distance, word_jaccard

WORDS = st.text("abA \u00a0é.", max_size=8)
PAIRS = st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=8)
TAGS = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=4)
TAG_PAIRS = st.lists(st.tuples(TAGS, TAGS), min_size=1, max_size=8)


def unzip(pairs: list[tuple[str, str]]) -> tuple[list[str], list[str]]:
    return [true for true, _ in pairs], [predicted for _, predicted in pairs]


@pytest.mark.parametrize(
    ("true", "predicted", "distance"),
    [
        ("", "", 0),
        ("", "abc", 3),
        ("kitten", "sitting", 3),
        ("flaw", "lawn", 2),
        ("case", "Case", 1),
        ("日本", "日x本", 1),
        ("é", "e\u0301", 2),
    ],
)
def test_levenshtein_distance_counts_insertions_deletions_and_substitutions_of_code_points(
    true: str, predicted: str, distance: int
) -> None:
    assert mean_levenshtein_distance([true], [predicted]) == distance


def test_levenshtein_distance_is_averaged_over_rows() -> None:
    assert mean_levenshtein_distance(["kitten", "flaw", "same"], ["sitting", "lawn", "same"]) == pytest.approx(5 / 3)


def test_levenshtein_distance_counts_beyond_the_range_of_small_integers() -> None:
    assert mean_levenshtein_distance(["a" * 70_000], ["b"]) == 70_000


@given(PAIRS)
def test_levenshtein_distance_is_symmetric_and_bounded_by_the_longer_text(pairs: list[tuple[str, str]]) -> None:
    true, predicted = unzip(pairs)
    distance = mean_levenshtein_distance(true, predicted)
    assert distance == mean_levenshtein_distance(predicted, true)
    assert 0 <= distance <= np.mean([max(map(len, pair)) for pair in pairs])


@given(PAIRS)
def test_levenshtein_distance_of_equal_texts_is_zero(pairs: list[tuple[str, str]]) -> None:
    true, _ = unzip(pairs)
    assert mean_levenshtein_distance(true, true) == 0


@pytest.mark.parametrize(
    ("true", "predicted", "score"),
    [
        ("so happy today", "happy", 1 / 3),
        ("so happy today", "today SO happy", 1),
        ("a b", "b c", 1 / 3),
        ("a a a b", "a b", 1),
        ("end", "end.", 0),
        ("one\u00a0two", "two  one\n", 1),
        ("word", "", 0),
    ],
)
def test_word_jaccard_compares_sets_of_lower_case_words(true: str, predicted: str, score: float) -> None:
    assert word_jaccard([true], [predicted]) == pytest.approx([score])


def test_word_jaccard_of_two_empty_texts_is_the_given_value() -> None:
    assert word_jaccard([" "], [""]) == [0]
    assert np.isnan(word_jaccard([" "], [""], zero_division=np.nan)).all()


@given(PAIRS)
def test_word_jaccard_is_between_0_and_1_and_symmetric(pairs: list[tuple[str, str]]) -> None:
    true, predicted = unzip(pairs)
    scores = word_jaccard(true, predicted)
    assert ((scores >= 0) & (scores <= 1)).all()
    assert (scores == word_jaccard(predicted, true)).all()
    assert (word_jaccard(true, true, zero_division=1) == 1).all()
