import hashlib
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from pytest_mlebench.authoring.archives import write_7z, write_tar_gz, write_zip
from pytest_mlebench.data.dataset import differences, digest, listing, md5
from pytest_mlebench.errors import DataError
from pytest_mlebench.gate.public_files import PublicFile, table

ONE = "f97c5d29941bfb1b2fdab0874906ab82"  # echo -n one | md5sum
TWO = "b8a9f715dbb64fd5c56e7783c6820a61"
EMPTY = "d41d8cd98f00b204e9800998ecf8427e"


def test_bytes_paths_and_open_files_have_the_same_md5(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"one")
    assert md5(b"one") == md5(tmp_path / "one") == md5(io.BytesIO(b"one")) == ONE
    assert md5(b"") == md5(io.BytesIO()) == EMPTY


def test_a_large_file_is_read_in_blocks(tmp_path: Path) -> None:
    content = os.urandom(3 << 20)
    (tmp_path / "large").write_bytes(content)
    assert md5(tmp_path / "large") == hashlib.md5(content).hexdigest()


@pytest.mark.parametrize(
    ("write", "name"), [(write_zip, "x.zip"), (write_tar_gz, "x.tar.gz"), (write_tar_gz, "x.tgz"), (write_7z, "x.7z")]
)
def test_the_checksum_of_an_archive_covers_its_members(write: Callable[..., None], name: str, tmp_path: Path) -> None:
    write(tmp_path / name, {"1.txt": b"one", "deep/2.txt": b"two"})
    assert digest(tmp_path / name) == {"1.txt": ONE, "deep/2.txt": TWO}


def test_folders_in_an_archive_do_not_count(tmp_path: Path) -> None:
    write_zip(tmp_path / "x.zip", {"folder/": b"", "folder/1.txt": b"one"})
    assert digest(tmp_path / "x.zip") == {"folder/1.txt": ONE}


def test_the_checksum_of_a_parquet_table_covers_columns_and_rows(tmp_path: Path) -> None:
    rows = pd.DataFrame({"a": [1, 2], "b": ["x", None]})
    options_by_name: dict[str, dict[str, Any]] = {"a": {}, "b": {"compression": None}, "c": {"row_group_size": 1}}
    for name, options in options_by_name.items():
        rows.to_parquet(tmp_path / f"{name}.parquet", **options)
    rows[["b", "a"]].to_parquet(tmp_path / "swapped.parquet")
    same = [digest(tmp_path / f"{name}.parquet") for name in "abc"]
    assert same[0] == same[1] == same[2] != digest(tmp_path / "swapped.parquet")
    assert len({(tmp_path / f"{name}.parquet").read_bytes() for name in "abc"}) == 3


def test_a_small_parquet_file_with_a_huge_table_is_not_read(tmp_path: Path) -> None:
    zeros = np.zeros(2**25 + 1, np.int8)
    parquet.write_table(pa.table({"zeros": zeros}), path := tmp_path / "x.parquet")
    assert path.stat().st_size < 1 << 20
    with pytest.raises(DataError, match=r"x.parquet is not read: it has more than 33,554,432 values"):
        digest(path)
    assert table(PublicFile(path.name, path.read_bytes())) is None


@pytest.mark.parametrize("kind", ["text", "list", "struct", "map", "fixed size"])
def test_a_small_parquet_file_with_a_long_text_in_many_rows_is_not_read(tmp_path: Path, kind: str) -> None:
    values = pa.array(["x" * (1 << 20)], pa.binary(1 << 20) if kind == "fixed size" else pa.string())
    texts = pa.DictionaryArray.from_arrays(np.zeros(1100, np.int32), values)
    offsets = pa.array(np.arange(1101, dtype=np.int32))
    arrays: dict[str, Callable[[], pa.Array]] = {
        "text": lambda: texts,
        "list": lambda: pa.ListArray.from_arrays(offsets, texts),
        "struct": lambda: pa.StructArray.from_arrays([texts], ["a"]),
        "map": lambda: pa.MapArray.from_arrays(offsets, pa.array(range(1100)), texts),
        "fixed size": lambda: texts,
    }
    path, page = tmp_path / "x.parquet", 1 << 24
    parquet.write_table(pa.table({"a": arrays[kind]()}), path, dictionary_pagesize_limit=page)
    assert parquet.read_metadata(path).row_group(0).total_byte_size < 1 << 24
    assert path.stat().st_size < 1 << 20
    with pytest.raises(DataError, match=r"x.parquet is not read: it takes more than 1 GiB"):
        digest(path)
    assert table(PublicFile(path.name, path.read_bytes())) is None


@pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY", "PLAIN"])
def test_parquet_texts_in_any_encoding_are_read(tmp_path: Path, encoding: str) -> None:
    rows, path = pa.table({"a": ["é", None, "éa"], "b": [["x"], [], None]}), tmp_path / "x.parquet"
    encodings = {"a": encoding, "b.list.element": encoding}
    parquet.write_table(rows, path, use_dictionary=False, column_encoding=encodings)
    parquet.write_table(rows, same := tmp_path / "same.parquet")
    assert digest(path) == digest(same)


def test_a_small_parquet_file_with_a_long_common_beginning_is_not_read(tmp_path: Path) -> None:
    part = pa.table({"a": ["x" * (1 << 20) + str(row) for row in range(103)]})
    encodings = {"a": "DELTA_BYTE_ARRAY"}
    path = tmp_path / "x.parquet"
    with parquet.ParquetWriter(path, part.schema, use_dictionary=False, column_encoding=encodings) as writer:
        for _ in range(10):
            writer.write_table(part)
    assert path.stat().st_size < 1 << 24
    with pytest.raises(DataError, match=r"x.parquet is not read: it takes more than 1 GiB"):
        digest(path)


def test_the_checksum_of_any_other_file_covers_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "zip").write_bytes(b"one")
    assert digest(tmp_path / "zip") == ONE


@pytest.mark.parametrize("name", ["x.zip", "x.tar.gz", "x.7z", "x.parquet"])
def test_damaged_archives_and_tables_are_named(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"PAR1 or an archive")
    with pytest.raises(DataError, match=f"{name} is damaged"):
        listing(tmp_path)


def test_a_listing_has_every_file_by_its_path(tmp_path: Path) -> None:
    for name, content in {"b/2.txt": b"two", "a.txt": b"one", "b/0.txt": b""}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    (tmp_path / "folder").mkdir()
    assert list(listing(tmp_path).items()) == [("a.txt", ONE), ("b/0.txt", EMPTY), ("b/2.txt", TWO)]


def test_each_difference_is_a_sentence() -> None:
    expected: dict[str, Any] = {"same": ONE, "gone": ONE, "changed": ONE, "x.zip": {"1": ONE, "2": TWO}}
    found: dict[str, Any] = {"same": ONE, "more": TWO, "changed": TWO, "x.zip": {"2": TWO, "1": ONE}}
    assert differences(expected, found, where="public") == [
        "public/gone is missing",
        "public/more should not be there",
        f"public/changed: expected {ONE}, found {TWO}",
    ]
