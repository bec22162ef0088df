import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_mlebench.authoring.rle import (
    hold_out_by_category,
    read_metadata,
    select,
    split_by_category,
    write_metadata,
)
from pytest_mlebench.authoring.tables import split
from pytest_mlebench.errors import DataError


@given(st.lists(st.integers(0, 6), min_size=1))
def test_every_row_is_on_one_side_and_every_category_in_the_training_set(categories: list[int]) -> None:
    train, test = split_by_category(categories, test_size=0.2)
    assert sorted(train + test) == list(range(len(categories)))
    assert {categories[k] for k in train} == set(categories)


@given(st.lists(st.integers(0, 6), min_size=1))
def test_every_category_with_several_rows_is_in_the_test_set(categories: list[int]) -> None:
    _, test = split_by_category(categories, test_size=0.2)
    several = {category for category in categories if categories.count(category) > 1}
    assert {categories[k] for k in test} == several


def test_the_last_row_of_a_small_category_is_held_out_and_training_rows_are_grouped() -> None:
    train, test = split_by_category(["b", "a", "b", "a", "c", "b"], test_size=0.2)
    assert train == [0, 2, 1, 4]
    assert sorted(test) == [3, 5]


def test_each_larger_category_is_split_at_random() -> None:
    train, test = split_by_category(["a", "b"] * 12, test_size=0.2)
    kept, held_out = split(list(range(0, 24, 2)), test_size=0.2)
    assert train[: len(kept)] == kept
    assert {k for k in test if k % 2 == 0} == set(held_out)


def test_the_size_of_small_categories_can_be_set() -> None:
    train, _ = split_by_category(["a"] * 4, test_size=0.25, few=0)
    assert train == split(list(range(4)), test_size=0.25)[0]


METADATA: dict[str, Any] = {
    "annotations": [{"image_id": k, "category_id": k % 2} for k in range(6)],
    "images": [{"id": k, "file_name": f"images/{k % 2}/{k}.jpg"} for k in range(6)],
    "categories": [{"id": 0, "name": "Günther"}],
    "info": {"year": 2020},
    "licenses": [],
}


def test_selecting_images_keeps_their_annotations_and_other_metadata() -> None:
    chosen = select(METADATA, [4, 1])
    assert [annotation["image_id"] for annotation in chosen["annotations"]] == [4, 1]
    assert [image["id"] for image in chosen["images"]] == [4, 1]
    assert chosen["categories"] is METADATA["categories"]
    assert len(METADATA["images"]) == 6


def test_metadata_are_written_sorted_indented_and_in_ascii(tmp_path: Path) -> None:
    write_metadata({"b": "ü", "a": [1]}, tmp_path / "new" / "x.json")
    assert (tmp_path / "new" / "x.json").read_bytes() == b'{\n    "a": [\n        1\n    ],\n    "b": "\\u00fc"\n}'


def test_metadata_are_read_in_another_encoding(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(json.dumps(METADATA, ensure_ascii=False), encoding="latin-1")
    assert read_metadata(tmp_path / "x.json", encoding="latin-1") == METADATA


def test_annotations_that_are_not_parallel_to_the_images_are_rejected(tmp_path: Path) -> None:
    write_metadata({**METADATA, "images": METADATA["images"][::-1]}, tmp_path / "x.json")
    with pytest.raises(DataError, match="one annotation for each image"):
        read_metadata(tmp_path / "x.json")


def test_missing_metadata_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"x\.json is missing"):
        read_metadata(tmp_path / "x.json")


def test_held_out_images_are_renumbered_without_a_trace_of_their_category(tmp_path: Path) -> None:
    for image in METADATA["images"]:
        path = tmp_path / "raw" / image["file_name"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(image["id"]))
    train, test = tmp_path / "train", tmp_path / "test"
    categories = hold_out_by_category(METADATA, tmp_path / "raw", train, test, test_size=0.2)

    assert sorted(path.name for path in train.rglob("*.jpg")) == ["0.jpg", "1.jpg", "2.jpg", "3.jpg"]
    assert [int((test / f"images/000/{k}.jpg").read_text()) % 2 for k in range(2)] == categories
    shown = json.loads((test / "metadata.json").read_text())
    assert shown.keys() == {"images", "info", "licenses"}
    assert shown["images"] == [{"id": str(k), "file_name": f"images/000/{k}.jpg"} for k in range(2)]
