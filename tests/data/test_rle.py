import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from pytest_mlebench.authoring.rle import Order, cut, decode_rle, decode_rles, encode_rle, mask_from_rle, pixels, union

MASKS = arrays(bool, array_shapes(min_dims=2, max_dims=2, max_side=12))


@given(MASKS, st.sampled_from("CF"))
def test_encoding_and_decoding_a_mask_is_lossless(mask: np.ndarray, order: Order) -> None:
    np.testing.assert_array_equal(mask_from_rle(encode_rle(mask, order), mask.shape, order), mask)


@given(MASKS)
def test_runs_are_ascending_disjoint_and_maximal(mask: np.ndarray) -> None:
    runs = decode_rle(encode_rle(mask), mask.size)
    assert (runs[:, 0] < runs[:, 1]).all()
    assert (runs[1:, 0] > runs[:-1, 1]).all()


def test_pixels_go_down_the_columns_or_along_the_rows() -> None:
    mask = np.array([[1, 0, 0], [1, 1, 0]])
    assert encode_rle(mask, "F") == "1 2 4 1"
    assert encode_rle(mask, "C") == "1 1 4 2"


@pytest.mark.parametrize("text", ["", "   ", "7", " 7 "])
def test_empty_text_and_a_single_number_mark_nothing(text: str) -> None:
    assert decode_rle(text, 10).shape == (0, 2)


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        ("1 3 10 2", [[0, 3], [9, 11]]),
        ("1 2 3 2", [[0, 2], [2, 4]]),  # touching
        ("+01 0_3", [[0, 3]]),
        ("1 2 7", [[0, 2], [6, 8]]),  # one length for both starts
        ("11 50", [[10, 12]]),  # beyond the end
        ("1 1 13 4 13 4", [[0, 1]]),  # overlaps beyond the end
        ("1 999999999999999999 13 1", [[0, 12]]),
    ],
)
def test_valid_texts(text: str, runs: list[list[int]]) -> None:
    np.testing.assert_array_equal(decode_rle(text, 12), runs)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("1 2 5 2 9", "5 numbers"),
        ("5 2 1 2", "ascending"),
        ("0 2", "above 0, not 0"),
        ("4 0", "above 0, not 0"),
        ("-4 3", "above 0, not -4"),
        ("1 5 3 2", "pixel 3 is marked twice"),
        ("4 1 4 1", "pixel 4 is marked twice"),
        ("1.0 2", "'1.0' is not a whole number"),
        ("1 two", "'two' is not a whole number"),
        ("1,2", "'1,2' is not a whole number"),
        ("1 99999999999999999999", "more than 18 digits"),
    ],
)
def test_invalid_texts_are_rejected(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        decode_rle(text, 12)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 12)), max_size=12))
def test_a_union_has_each_pixel_once_and_in_order(pairs: list[tuple[int, int]]) -> None:
    runs = np.array([[start, start + length] for start, length in pairs], dtype=np.int64).reshape(-1, 2)
    merged = union(runs)
    np.testing.assert_array_equal(pixels(merged), np.unique(pixels(runs)))
    assert (merged[1:, 0] > merged[:-1, 1]).all()


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 30)), max_size=12), st.integers(1, 12))
def test_split_runs_have_the_same_pixels_and_cross_no_border(pairs: list[tuple[int, int]], length: int) -> None:
    runs = union(np.array([(start, start + extent) for start, extent in pairs], dtype=np.int64).reshape(-1, 2))
    pieces = cut(runs, length)
    assert pixels(pieces).tolist() == pixels(runs).tolist()
    assert (pieces[:, 0] // length == (pieces[:, 1] - 1) // length).all()


NUMBERS = st.one_of(st.integers(-1, 50).map(str), st.sampled_from(["1_0", "+3", "x", "9" * 20, "1.0", "\u0663"]))
TEXTS = st.one_of(
    st.lists(NUMBERS, max_size=6).map(" ".join),
    st.lists(st.integers(1, 50), max_size=8).map(lambda numbers: " ".join(f"{k} 1" for k in sorted(numbers))),
)


@given(st.lists(st.tuples(TEXTS, st.integers(0, 40)), max_size=5))
def test_decoding_many_texts_equals_decoding_each(pairs: list[tuple[str, int]]) -> None:
    texts, sizes = [text for text, _ in pairs], [size for _, size in pairs]
    try:
        expected = [decode_rle(text, size).tolist() for text, size in pairs]
    except ValueError:
        with pytest.raises(ValueError, match=r"invalid|twice|whole|ascending|above 0|it has"):
            decode_rles(texts, sizes)
    else:
        runs, masks = decode_rles(texts, sizes)
        assert [runs[masks == k].tolist() for k in range(len(texts))] == expected
