import io
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_mlebench.authoring.archives import write_zip
from pytest_mlebench.authoring.tables import (
    hold_out,
    one_hot,
    read_csv,
    read_header,
    read_zipped_csv,
    split,
    split_groups,
    take_groups,
    write_csv,
)


def test_groups_are_in_the_given_order_and_their_rows_in_table_order() -> None:
    table = pd.DataFrame({"group": ["b", "a", "c", "b", "a"], "value": range(5)})
    assert take_groups(table, "group", ["c", "b"])["value"].tolist() == [2, 0, 3]
    assert take_groups(table, "group", ["a", "b", "c"])["value"].tolist() == [1, 4, 0, 3, 2]


def test_without_groups_there_are_no_rows() -> None:
    table = pd.DataFrame({"group": [1, 2], "value": [3, 4]})
    assert take_groups(table, "group", []).columns.tolist() == ["group", "value"]
    assert len(take_groups(table, "group", [])) == 0


@given(st.lists(st.floats(allow_nan=False), min_size=1))
def test_floats_are_read_exactly(values: list[float]) -> None:
    text = "x\n" + "\n".join(map(repr, values)) + "\n0.5\n"
    assert read_csv(io.BytesIO(text.encode()))["x"].tolist() == [*values, 0.5]


@pytest.mark.parametrize(
    "text",
    [
        "a,b\n40.712278000000005,1e-17\n-73.844311,0.1\n",
        'id,text\n1,"a, ""b"""\n2,"two\nlines"\n3,café\n',
        "whole,gap\n1,2.0\n3,\n",
    ],
)
def test_a_table_is_written_back_as_it_was_read(text: str, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "folder" / "table.csv"
    write_csv(read_csv(io.BytesIO(text.encode())), path)
    assert path.read_bytes() == text.encode()


def test_options_of_pandas_are_passed_on(tmp_path: Path) -> None:
    write_csv(pd.DataFrame({"a": [1]}), tmp_path / "x", sep="\t", index=True)
    assert (tmp_path / "x").read_text() == "\ta\n0\t1\n"
    assert read_csv(tmp_path / "x", sep="\t", index_col=0).equals(pd.DataFrame({"a": [1]}))


@settings(deadline=None)  # imports scikit-learn
@given(st.integers(2, 200), st.sampled_from([0.1, 0.19, 0.3, 0.5]))
def test_a_share_of_the_rows_is_rounded_up_and_every_row_is_on_one_side(n: int, share: float) -> None:
    train, test = split(list(range(n)), test_size=share)
    assert sorted([*train, *test]) == list(range(n))
    assert len(test) == math.ceil(n * share)


def test_a_split_equals_scikit_learns_with_seed_0() -> None:
    train, test = split(np.arange(10), test_size=3)
    assert train.tolist() == [9, 1, 6, 7, 3, 0, 5]
    assert test.tolist() == [2, 8, 4]


def test_a_table_keeps_its_columns_and_index_when_it_is_split() -> None:
    table = pd.DataFrame({"id": range(10, 20), "label": [0, 1] * 5})
    train, test = split(table, test_size=0.2)
    assert test["id"].tolist() == [12, 18]
    assert pd.concat([train, test]).sort_index().equals(table)


def test_options_of_the_split_are_passed_on() -> None:
    labels = np.array([0] * 8 + [1] * 2)
    _, test = split(labels, test_size=0.5, stratify=labels)
    assert sorted(test.tolist()) == [0, 0, 0, 0, 1]


@pytest.mark.parametrize(
    ("content", "names"),
    [("", []), ("id\n", ["id"]), ('id,"a, b","say ""x"""\n1,2,3\n', ["id", "a, b", 'say "x"']), ("é\r\n", ["é"])],
)
def test_the_header_has_the_column_names(content: str, names: list[str], tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(content, encoding="utf-8", newline="")
    assert read_header(tmp_path / "x.csv") == names


def test_a_one_hot_table_has_a_column_for_each_class_in_the_given_order() -> None:
    labels = pd.Series(["b", "a", "x"], index=[5, 3, 4])
    table = one_hot(labels, ["a", "b", "c"])
    assert table.to_dict("list") == {"a": [0, 1, 0], "b": [1, 0, 0], "c": [0, 0, 0]}
    assert table.index.tolist() == [5, 3, 4]


def test_a_one_hot_table_can_be_created_from_any_sequence() -> None:
    assert one_hot([2, 1], classes=range(1, 3)).to_dict("list") == {1: [0, 1], 2: [1, 0]}


def test_the_table_in_a_zip_archive_is_the_member_named_after_it(tmp_path: Path) -> None:
    write_zip(tmp_path / "train.tsv.zip", {"__MACOSX/train.tsv": "junk", "train.tsv": "a\tb\n1\t2\n"})
    assert read_zipped_csv(tmp_path / "train.tsv.zip", sep="\t").to_dict("list") == {"a": [1], "b": [2]}


def test_groups_stay_together_and_rows_keep_their_order() -> None:
    table = pd.DataFrame({"patient": list("abcabcdefghij"), "row": range(13)})
    train, test = split_groups(table, "patient", test_size=0.2, random_state=1)
    assert not set(train["patient"]) & set(test["patient"]) and test["patient"].nunique() == 2
    assert train["row"].is_monotonic_increasing and test["row"].is_monotonic_increasing
    _, chosen = split(list("abcdefghij"), test_size=0.2, random_state=1)
    assert set(test["patient"]) == set(chosen)


def test_rows_are_held_out_by_a_columns_values() -> None:
    table = pd.DataFrame({"id": [3, 1, 2, 1]})
    train, test = hold_out(table, "id", {1, 9})
    assert train["id"].tolist() == [3, 2] and test.index.tolist() == [1, 3]
