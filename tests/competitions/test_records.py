from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pytest_mlebench.catalog import default_catalogue

records = default_catalogue()["facebook-recruiting-iii-keyword-extraction"].module("records")
scratch_records = records.scratch_records


@pytest.fixture
def table() -> pd.DataFrame:
    return pd.DataFrame(
        {"Id": ["1", "2", "3", "4"], "Text": ['say "a, b"', "line\r\nbreak", None, "日本"], "Tag": ["x", "", "z", "x"]}
    )


def test_records_are_written_in_the_requested_order_as_by_pandas(table: pd.DataFrame, tmp_path: Path) -> None:
    order = np.array([3, 1, 0, 2])
    with scratch_records(tmp_path) as records:
        records.add(table.head(3))
        records.add(table.tail(1))
        assert len(records) == 4
        records.write_csv(tmp_path / "deep" / "out.csv", table.columns.tolist(), order)
    table.take(order).to_csv(tmp_path / "expected.csv", index=False)
    assert (tmp_path / "deep" / "out.csv").read_bytes() == (tmp_path / "expected.csv").read_bytes()


def test_a_part_of_the_records_can_be_written(table: pd.DataFrame, tmp_path: Path) -> None:
    with scratch_records(tmp_path) as records:
        records.add(table)
        records.write_csv(tmp_path / "one.csv", table.columns.tolist(), np.array([2]))
        records.write_csv(tmp_path / "none.csv", table.columns.tolist(), np.array([], dtype=int))
    assert (tmp_path / "one.csv").read_text() == "Id,Text,Tag\n3,,z\n"
    assert (tmp_path / "none.csv").read_text() == "Id,Text,Tag\n"


def test_the_scratch_file_is_gone_afterwards(table: pd.DataFrame, tmp_path: Path) -> None:
    with scratch_records(tmp_path) as records:
        records.add(table)
    assert list(tmp_path.iterdir()) == []
