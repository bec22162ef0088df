from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.errors import DataError

parquet = default_catalogue()["icecube-neutrinos-in-deep-ice"].module("parquet")
distinct_values, filter_parquet = parquet.distinct_values, parquet.filter_parquet


@pytest.fixture
def events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(parquet, "_ROWS", 3)  # several batches
    path = tmp_path / "events.parquet"
    table = pd.DataFrame({"batch": [7, 7, 2, 2, 9, 7, 2], "event": range(7), "angle": [0.1, 1 / 3, 2, 3, 4, 5, 6]})
    table.to_parquet(path, row_group_size=4)
    return path


def test_distinct_values_are_in_order_of_first_appearance(events: Path) -> None:
    assert distinct_values(events, "batch") == [7, 2, 9]


def test_rows_with_a_value_keep_their_order_and_types(events: Path, tmp_path: Path) -> None:
    filter_parquet(events, tmp_path / "new" / "part.parquet", "batch", [9, 7])
    table = pd.read_parquet(events)
    expected = table[table["batch"] != 2].reset_index(drop=True)
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "new" / "part.parquet"), expected)


def test_only_the_requested_columns_are_kept(events: Path, tmp_path: Path) -> None:
    filter_parquet(events, tmp_path / "part.parquet", "batch", [2], ["angle", "event"])
    table = pd.read_parquet(tmp_path / "part.parquet")
    assert list(table.columns) == ["angle", "event"]
    assert table["event"].tolist() == [2, 3, 6]


def test_no_rows_give_an_empty_table(events: Path, tmp_path: Path) -> None:
    filter_parquet(events, tmp_path / "part.parquet", "batch", [1])
    assert pq.read_metadata(tmp_path / "part.parquet").num_rows == 0


def test_a_missing_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"absent\.parquet is missing"):
        distinct_values(tmp_path / "absent.parquet", "batch")


def test_a_damaged_table_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.parquet").write_bytes(b"no parquet at all")
    with pytest.raises(DataError, match=r"bad\.parquet is damaged"):
        distinct_values(tmp_path / "bad.parquet", "batch")
