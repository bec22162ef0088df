from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_mlebench.authoring.metrics.text import mean_levenshtein_distance, word_error_rate

WORDS = st.lists(st.integers(1, 5), min_size=1, max_size=8)
PAIRS = st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=6)


def test_distances_are_summed_and_divided_by_the_number_of_true_words() -> None:
    true, predicted = [[9, 12], [3, 1, 4], [8, 7]], [[5, 9, 9, 12], [3, 4], [7, 7]]
    assert word_error_rate(true, predicted) == pytest.approx((2 + 1 + 1) / 7)


def test_an_empty_prediction_misses_every_word() -> None:
    assert word_error_rate([["the", "house"]], [[]]) == 1


def test_surplus_words_can_raise_the_rate_above_one() -> None:
    assert word_error_rate([[1]], [[2, 3, 4]]) == 3


def test_a_different_number_of_rows_is_an_error() -> None:
    with pytest.raises(ValueError, match="shorter"):
        word_error_rate([[1], [2]], [[1]])


@given(st.lists(WORDS, min_size=1))
def test_the_truth_has_no_errors(true: list[list[int]]) -> None:
    assert word_error_rate(true, true) == 0


@given(PAIRS, st.randoms(use_true_random=False))
def test_the_order_of_the_rows_makes_no_difference(pairs: list[tuple[list[int], list[int]]], random: Random) -> None:
    shuffled = random.sample(pairs, len(pairs))
    assert word_error_rate(*zip(*shuffled, strict=True)) == pytest.approx(word_error_rate(*zip(*pairs, strict=True)))


@given(PAIRS)
def test_for_letters_the_rate_is_the_mean_distance_over_the_mean_length(
    pairs: list[tuple[list[int], list[int]]],
) -> None:
    true, predicted = zip(*pairs, strict=True)
    texts = ([bytes(words).decode() for words in side] for side in (true, predicted))
    mean_length = sum(map(len, true)) / len(true)
    assert word_error_rate(true, predicted) == pytest.approx(mean_levenshtein_distance(*texts) / mean_length)
