import gzip
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from pytest_mlebench.errors import DataError, InvalidSubmission
from pytest_mlebench.gate.public_files import text_table
from pytest_mlebench.grading.scorer import open_submission, read_submission


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "submission.csv"


def read(path: Path, content: bytes) -> pd.DataFrame:
    path.write_bytes(content)
    return read_submission(path)


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


# Accepted files


def test_a_table_is_read_with_its_types(path: Path) -> None:
    table = read(path, b"id,p,name\n1,0.5,a\n2,,b\n")
    assert table["id"].tolist() == [1, 2]
    assert table["p"].isna().tolist() == [False, True]
    assert table["name"].tolist() == ["a", "b"]


def test_floats_are_read_exactly(path: Path) -> None:
    assert read(path, b"x\n40.712278000000005\n0.1\n")["x"].tolist() == [40.712278000000005, 0.1]


@pytest.mark.parametrize("content", [b"", b"\n\n\n", b"  \n ", b"\xef\xbb\xbf"])
def test_a_file_without_content_is_a_table_without_columns(content: bytes, path: Path) -> None:
    table = read(path, content)
    assert table.shape == (0, 0)


def test_a_header_alone_is_a_table_without_rows(path: Path) -> None:
    assert read(path, b"id,p").columns.tolist() == ["id", "p"]
    assert len(read_submission(path)) == 0


@pytest.mark.parametrize(
    "content", [b"\xef\xbb\xbfid,p\n1,2\n", b"id,p\r\n1,2\r\n", b"id,p\r1,2\r", b'"id","p"\n1,"2"']
)
def test_marks_line_ends_and_quotes_of_other_programs_are_read(content: bytes, path: Path) -> None:
    assert read(path, content).to_dict("list") == {"id": [1], "p": [2]}


def test_row_names_before_the_columns_are_dropped(path: Path) -> None:
    table = read(path, b"id,p\n7,1,0.5\n7,2,0.25\n")
    assert table.to_dict("list") == {"id": [1, 2], "p": [0.5, 0.25]}
    assert table.index.equals(pd.RangeIndex(2))


def test_a_duplicate_column_is_renamed(path: Path) -> None:
    assert read(path, b"id,p,p\n1,2,3\n").columns.tolist() == ["id", "p", "p.1"]


def test_fields_with_null_bytes_or_complex_numbers_are_text(path: Path) -> None:
    assert read(path, b"id,p\n1,\x000.5\n2,1+2j\n")["p"].tolist() == ["\x000.5", "1+2j"]


# Rejected files


@pytest.mark.parametrize(
    "content",
    [
        bytes(range(128, 256)) * 40,
        "id,p\n1,é\n".encode("latin-1"),
        "id,p\n1,2\n".encode("utf-16"),
        gzip.compress(b"id,p\n1,2\n"),
        b'id,p\n1,"never closed\n2,3\n',
        b"id,p\n1,2\n3,4,5,6\n",
    ],
    ids=["binary", "latin-1", "utf-16", "gzip", "open quote", "ragged"],
)
def test_an_invalid_csv_file_is_rejected(content: bytes, path: Path) -> None:
    with pytest.raises(InvalidSubmission, match=r"^not a readable CSV file: "):
        read(path, content)


def test_commas_in_a_text_are_not_columns(path: Path) -> None:
    assert read(path, b'id,p\n1,"' + b"," * 20_000 + b'"\n').shape == (1, 2)


def test_a_file_may_be_as_large_as_the_limit_but_no_larger(path: Path) -> None:
    path.write_bytes(b"id,p\n1,2\n")
    assert len(read_submission(path, max_bytes=9)) == 1
    with pytest.raises(InvalidSubmission, match=r"submission\.csv has 9 bytes; at most 8 are read"):
        read_submission(path, max_bytes=8)


def test_a_huge_sparse_file_is_rejected_by_its_size(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)
    with pytest.raises(InvalidSubmission, match=r"has 1,099,511,627,776 bytes; at most 1,073,741,824 are read"):
        read_submission(path)


def make_link(path: Path) -> None:
    target = path.with_name("answers.csv")
    target.write_text("id,p\n1,2\n")
    path.symlink_to(target)


def make_dangling_link(path: Path) -> None:
    path.symlink_to("nowhere")


def make_loop(path: Path) -> None:
    path.symlink_to(path)


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


@pytest.mark.parametrize("make", [make_link, make_dangling_link, make_loop])
def test_a_link_is_rejected_wherever_it_points(make: Callable[[Path], None], path: Path) -> None:
    make(path)
    with pytest.raises(InvalidSubmission, match=r"submission\.csv is a symbolic link"):
        read_submission(path)


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir])
def test_a_pipe_and_a_folder_are_rejected_at_once(make: Callable[[Path], None], path: Path) -> None:
    make(path)
    before = open_descriptors()
    with pytest.raises(InvalidSubmission, match=r"submission\.csv is not a regular file"):
        read_submission(path)
    assert open_descriptors() == before


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null"])
def test_a_device_is_rejected(device: str) -> None:
    with pytest.raises(InvalidSubmission, match="is not a regular file"):
        read_submission(Path(device))


def test_a_socket_and_a_missing_file_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a socket's path must be short
    make_socket(Path("socket"))
    for name in ("socket", "missing", "x" * 300):
        with pytest.raises(InvalidSubmission, match=rf"^{name} cannot be read: "):
            read_submission(Path(name))


def test_a_read_error_is_reported() -> None:
    with pytest.raises(InvalidSubmission, match="mem cannot be read: "):
        read_submission(Path("/proc/self/mem"))  # a regular file; its first page is not mapped


def test_an_open_submission_is_closed_afterwards(path: Path) -> None:
    path.write_bytes(b"abc")
    with open_submission(path) as file:
        assert file.read() == b"abc"
    assert file.closed
    before = open_descriptors()
    with pytest.raises(InvalidSubmission), open_submission(path, max_bytes=2):
        pass
    assert open_descriptors() == before


@pytest.mark.parametrize(
    ("suffix", "method"), [("gz", "gzip"), ("bz2", "bz2"), ("xz", "xz"), ("zip", "zip"), ("tar.gz", "tar")]
)
def test_a_damaged_compressed_table_is_an_error_that_says_so(tmp_path: Path, suffix: str, method: str) -> None:
    path = tmp_path / f"table.csv.{suffix}"
    pd.DataFrame({"id": range(1000)}).to_csv(path, index=False)
    whole = path.read_bytes()
    assert len(read_submission(path, compression=method)) == 1000
    for damaged in (whole[: len(whole) // 2], whole[:60] + bytes(60) + whole[120:]):
        path.write_bytes(damaged)
        with pytest.raises(InvalidSubmission, match="not a readable CSV file"):
            read_submission(path, compression=method)
        with pytest.raises(DataError, match=f"{path} is damaged"):
            text_table(path)
