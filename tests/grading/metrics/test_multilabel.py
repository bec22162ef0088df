import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import f1_score
from sklearn.preprocessing import MultiLabelBinarizer

from pytest_mlebench.authoring.metrics.multilabel import f1_micro, f1_micro_of_texts, f1_samples

labels = st.frozensets(st.sampled_from("abcdef"))
rows = st.lists(st.tuples(labels, labels), min_size=1)


def test_hits_are_pooled_over_all_rows() -> None:
    # TP 2, FP 1, FN 2
    assert f1_micro([{"a", "b"}, {"c", "d"}], [{"a", "b", "x"}, set()]) == pytest.approx(4 / 7)


def test_no_true_and_no_predicted_labels_score_zero() -> None:
    assert f1_micro([set(), set()], [set(), set()]) == 0


def test_an_unseen_label_costs_unless_it_is_ignored() -> None:
    assert f1_micro([{"a"}], [{"a", "x"}]) == pytest.approx(2 / 3)
    assert f1_micro([{"a"}], [{"a", "x"}], ignore_unseen=True) == 1


def test_a_true_label_of_another_row_is_not_unseen() -> None:
    assert f1_micro([{"a"}, {"b"}], [{"a", "b"}, {"b"}], ignore_unseen=True) == pytest.approx(4 / 5)


def test_rows_must_be_paired() -> None:
    with pytest.raises(ValueError, match="shorter"):
        f1_micro([{"a"}, {"b"}], [{"a"}])


@given(rows)
def test_it_agrees_with_scikit_learn_on_binarised_labels(pairs: list[tuple[frozenset[str], frozenset[str]]]) -> None:
    true, predicted = [t for t, _ in pairs], [p for _, p in pairs]
    binarizer = MultiLabelBinarizer(classes=list("abcdef")).fit(true)
    expected = f1_score(binarizer.transform(true), binarizer.transform(predicted), average="micro", zero_division=0)
    assert f1_micro(true, predicted) == pytest.approx(expected)
    expected = f1_score(binarizer.transform(true), binarizer.transform(predicted), average="samples", zero_division=1)
    assert f1_samples(true, predicted) == pytest.approx(expected)


@given(rows, st.randoms(use_true_random=False))
def test_row_order_does_not_matter_and_the_score_is_between_0_and_1(pairs, random) -> None:  # type: ignore[no-untyped-def]
    shuffled = random.sample(pairs, len(pairs))
    score = f1_micro([t for t, _ in pairs], [p for _, p in pairs])
    assert 0 <= score <= 1
    assert f1_micro([t for t, _ in shuffled], [p for _, p in shuffled]) == score


@given(st.lists(labels, min_size=1).filter(any))
def test_the_truth_is_perfect(true: list[frozenset[str]]) -> None:
    assert f1_micro(true, true) == f1_micro(true, true, ignore_unseen=True) == 1


TEXTS = st.lists(st.sampled_from(["a", "b", "cat", "", " ", "\t", "\n ", "\x1f", "\xa0", "é"]), max_size=6).map("".join)


@given(st.lists(st.tuples(TEXTS, TEXTS)), st.booleans())
def test_texts_are_graded_as_sets_of_labels(pairs: list[tuple[str, str]], ignore_unseen: bool) -> None:
    true, predicted = [t for t, _ in pairs], [p for _, p in pairs]
    sets = [[frozenset(text.split()) for text in side] for side in (true, predicted)]
    expected = f1_micro(*sets, ignore_unseen=ignore_unseen)
    assert f1_micro_of_texts(true, predicted, ignore_unseen=ignore_unseen) == expected


def test_text_rows_must_be_paired() -> None:
    with pytest.raises(ValueError, match="2 true rows and 1 predicted"):
        f1_micro_of_texts(["a", "b"], ["a"])
