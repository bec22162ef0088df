from pathlib import Path

import numpy as np
import pytest

from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.errors import DataError

arrays = default_catalogue()["ml2021spring-hw2"].module("arrays")
open_array, take_rows = arrays.open_array, arrays.take_rows


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12, dtype=np.float32).reshape(4, 3),
        np.asfortranarray(np.arange(12, dtype=">i2").reshape(4, 3)),
        np.array(["1", "22", "3", ""]),
        np.zeros((4, 2, 0), bool),
        np.arange(4.0),
    ],
    ids=["floats", "columns first", "texts", "empty", "one dimension"],
)
@pytest.mark.parametrize("rows", [[2, 0, 3, 1], [1, 1], []])
def test_selected_rows_have_the_bytes_that_numpy_saves(
    array: np.ndarray, rows: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrays, "_BLOCK_BYTES", 8)
    chosen = np.array(rows, dtype=int)
    np.save(tmp_path / "old.npy", array)
    np.save(tmp_path / "expected.npy", array[chosen])
    take_rows(tmp_path / "old.npy", chosen, tmp_path / "deep" / "new.npy")
    assert (tmp_path / "deep" / "new.npy").read_bytes() == (tmp_path / "expected.npy").read_bytes()


def test_an_array_is_not_read_before_it_is_used(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(3))
    assert isinstance(open_array(tmp_path / "a.npy"), np.memmap)


def test_a_missing_array_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.npy is missing in the raw data"):
        open_array(tmp_path / "a.npy")


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY\x01\x00", b"not an array at all"])
def test_a_file_that_is_not_an_array_is_named(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(DataError, match=r"a\.npy is damaged"):
        open_array(tmp_path / "a.npy")


def test_object_arrays_which_could_run_code_are_rejected(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match=r"a\.npy is damaged"):
        open_array(tmp_path / "a.npy")
