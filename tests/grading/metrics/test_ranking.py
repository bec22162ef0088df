import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_mlebench.authoring.metrics.ranking import mean_average_precision_at_k

items = st.integers(0, 9)
queries = st.lists(st.tuples(st.frozensets(items, min_size=1), st.lists(items, max_size=15)), min_size=1)
cuts = st.integers(1, 13)


def by_definition(relevant: frozenset[int], ranked: list[int], k: int) -> float:
    hits, total = 0, 0.0
    for place, item in enumerate(ranked[:k], start=1):
        if item in relevant and item not in ranked[: place - 1]:
            hits += 1
            total += hits / place
    return total / min(len(relevant), k)


def test_one_relevant_item_scores_one_over_its_rank() -> None:
    assert mean_average_precision_at_k([{"a"}], [["x", "y", "a"]], k=5) == pytest.approx(1 / 3)


def test_several_relevant_items_are_averaged_over_their_number() -> None:
    # hits at places 1 and 3: (1/1 + 2/3) / 2
    assert mean_average_precision_at_k([{"a", "b"}], [["a", "x", "b"]], k=12) == pytest.approx(5 / 6)


def test_with_more_relevant_items_than_k_the_divisor_is_k() -> None:
    assert mean_average_precision_at_k([set("abcde")], [["a", "b"]], k=2) == 1


def test_predictions_after_rank_k_are_ignored() -> None:
    assert mean_average_precision_at_k([{"a"}], [["x", "y", "a"]], k=2) == 0


def test_a_repeated_item_is_a_hit_only_once() -> None:
    assert mean_average_precision_at_k([{"a", "b"}], [["a", "a", "b"]], k=3) == pytest.approx((1 + 2 / 3) / 2)


def test_repeated_relevant_items_count_once() -> None:
    assert mean_average_precision_at_k([["a", "a"]], [["a"]], k=3) == 1


def test_a_query_without_predictions_or_relevant_items_scores_zero() -> None:
    assert mean_average_precision_at_k([{"a"}, {"a"}, set()], [["a"], [], ["a"]], k=3) == pytest.approx(1 / 3)


def test_items_are_compared_without_conversion() -> None:
    assert mean_average_precision_at_k([{"7"}, {("a", 1)}], [["07", "7 "], [("a", 2), ("a", 1)]], k=3) == 0.25


def test_queries_must_be_paired() -> None:
    with pytest.raises(ValueError, match="2 queries have relevant items, 1 have predictions"):
        mean_average_precision_at_k([{"a"}, {"b"}], [["a"]], k=3)


@given(queries, cuts)
def test_the_score_is_the_mean_over_queries_by_definition(
    pairs: list[tuple[frozenset[int], list[int]]], k: int
) -> None:
    expected = np.mean([by_definition(relevant, ranked, k) for relevant, ranked in pairs])
    score = mean_average_precision_at_k([r for r, _ in pairs], [p for _, p in pairs], k)
    assert score == pytest.approx(expected)
    assert 0 <= score <= 1 + 1e-12


@given(queries, cuts, st.randoms(use_true_random=False))
def test_the_order_of_the_queries_does_not_matter(pairs, k, random) -> None:  # type: ignore[no-untyped-def]
    shuffled = random.sample(pairs, len(pairs))
    scores = [mean_average_precision_at_k([r for r, _ in p], [p for _, p in p], k) for p in (pairs, shuffled)]
    assert scores[0] == pytest.approx(scores[1])


@given(queries, cuts)
def test_listing_the_relevant_items_first_is_perfect(pairs: list[tuple[frozenset[int], list[int]]], k: int) -> None:
    relevant = [r for r, _ in pairs]
    ranked = [[*sorted(r), *wrong] for (r, _), wrong in zip(pairs, [[10, 11]] * len(pairs), strict=True)]
    assert mean_average_precision_at_k(relevant, ranked, k) == pytest.approx(1)
