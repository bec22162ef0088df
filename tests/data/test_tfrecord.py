import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_mlebench.authoring.tfrecord import (
    copy_records,
    keep_features,
    parse_example,
    read_examples,
    read_records,
    tfrecord,
)
from pytest_mlebench.errors import DataError

values = st.binary(max_size=300) | st.text() | st.integers(0, 2**63 - 1)


def delimited(number: int, content: bytes) -> bytes:
    """A protocol buffer field of bytes, for contents of less than 128."""
    return bytes([number << 3 | 2, len(content)]) + content


def example(feature: bytes) -> bytes:
    """An example with the single feature ``x``."""
    return delimited(1, delimited(1, delimited(1, b"x") + delimited(2, feature)))


@given(st.lists(st.dictionaries(st.text(), values, max_size=4), max_size=3))
def test_written_records_can_be_read(tmp_path_factory: pytest.TempPathFactory, written: list[dict[str, Any]]) -> None:
    path = tmp_path_factory.mktemp("records") / "images.tfrec"
    path.write_bytes(tfrecord(written))
    assert list(read_examples(path)) == [
        {name: [value.encode() if isinstance(value, str) else value] for name, value in features.items()}
        for features in written
    ]


def test_written_records_have_the_formats_checksums() -> None:
    assert tfrecord([{}]).hex(" ") == "02 00 00 00 00 00 00 00 78 27 0b 34 0a 00 39 81 8b ab"


def test_a_feature_keeps_all_values_of_its_list() -> None:
    assert parse_example(example(delimited(1, delimited(1, b"one") + delimited(1, b"") + delimited(1, b"two")))) == {
        "x": [b"one", b"", b"two"]
    }


def test_integers_are_read_packed_and_one_by_one() -> None:
    packed = delimited(3, delimited(1, b"\x01\xac\x02"))
    single = delimited(3, b"\x08\x01\x08\xac\x02")
    assert parse_example(example(packed)) == parse_example(example(single)) == {"x": [1, 300]}


def test_negative_integers_are_read_correctly() -> None:
    assert parse_example(example(delimited(3, delimited(1, b"\xff" * 9 + b"\x01")))) == {"x": [-1]}


def test_floats_are_read_packed_and_one_by_one() -> None:
    packed = delimited(2, delimited(1, struct.pack("<2f", 0.5, -2)))
    single = delimited(2, b"\x0d" + struct.pack("<f", 0.5) + b"\x0d" + struct.pack("<f", -2))
    assert parse_example(example(packed)) == parse_example(example(single)) == {"x": [0.5, -2.0]}


def test_a_feature_without_a_list_is_empty() -> None:
    assert parse_example(example(b"")) == {"x": []}


def test_records_need_not_be_examples(tmp_path: Path) -> None:
    path = tmp_path / "any.tfrec"
    path.write_bytes(struct.pack("<Q4x3s4x", 3, b"abc") + struct.pack("<Q4x4x", 0))
    assert list(read_records(path)) == [b"abc", b""]


@pytest.mark.parametrize("left", [5, 13, 20, -1])
def test_a_truncated_file_is_named(tmp_path: Path, left: int) -> None:
    path = tmp_path / "short.tfrec"
    path.write_bytes(tfrecord([{"image": b"abc" * 20}])[:left])
    with pytest.raises(DataError, match=r"short\.tfrec is damaged or cut off"):
        list(read_examples(path))


@pytest.mark.parametrize("record", [b"\x0a\x7f", b"\x08\x01", b"\x0f", b"\xff" * 12, b"\x0a"])
def test_an_invalid_record_is_reported_with_its_file(tmp_path: Path, record: bytes) -> None:
    path = tmp_path / "odd.tfrec"
    path.write_bytes(struct.pack("<Q4x", len(record)) + record + bytes(4))
    with pytest.raises(DataError, match=r"odd\.tfrec contains a record that is not a tf\.train\.Example"):
        list(read_examples(path))
    with pytest.raises(DataError, match=r"odd\.tfrec contains a record that is not a tf\.train\.Example"):
        keep_features(path, ["x"])


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"train00\.tfrec is missing"):
        list(read_examples(tmp_path / "train00.tfrec"))


def test_selected_records_are_copied_byte_for_byte(tmp_path: Path) -> None:
    examples: list[dict[str, str | int]] = [{"name": name, "target": number} for number, name in enumerate("abc")]
    (tmp_path / "all.tfrec").write_bytes(tfrecord(examples))
    count = copy_records(tmp_path / "all.tfrec", tmp_path / "some.tfrec", lambda example: example["name"] != [b"b"])
    assert count == 2
    assert (tmp_path / "some.tfrec").read_bytes() == tfrecord([examples[0], examples[2]])
