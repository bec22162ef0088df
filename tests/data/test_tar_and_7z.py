import pytest

from pytest_mlebench.data.archives import tar_names, unpack_7z, write_7z, write_tar_gz
from pytest_mlebench.data.checksums import listing
from pytest_mlebench.errors import DataError


def test_names_in_a_tar_archive_come_in_its_order(tmp_path):
    write_tar_gz(tmp_path / "a.tar.gz", {"b.zip": b"1", "folder/a.zip": b"2", "c.txt": b""})
    assert tar_names(tmp_path / "a.tar.gz") == ["b.zip", "folder/a.zip", "c.txt"]


def test_a_missing_tar_archive_is_named(tmp_path):
    with pytest.raises(DataError, match=r"a\.tar\.gz is missing"):
        tar_names(tmp_path / "a.tar.gz")


def test_a_tar_archive_that_breaks_off_is_damaged(tmp_path):
    write_tar_gz(tmp_path / "a.tar.gz", {f"{k}.bin": bytes([k]) * 5000 for k in range(20)})
    whole = (tmp_path / "a.tar.gz").read_bytes()
    (tmp_path / "b.tar.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"b\.tar\.gz is damaged"):
        tar_names(tmp_path / "b.tar.gz")


def test_a_7z_archive_gives_back_what_was_put_in(tmp_path):
    (tmp_path / "file").write_bytes(b"from a file")
    write_7z(tmp_path / "new" / "a.7z", {"x/a.txt": "täxt", "b.bin": b"\0\1", "c": tmp_path / "file"})
    unpack_7z(tmp_path / "new" / "a.7z", tmp_path / "out")
    contents = {path: (tmp_path / "out" / path).read_bytes() for path in listing(tmp_path / "out")}
    assert contents == {"x/a.txt": "täxt".encode(), "b.bin": b"\0\1", "c": b"from a file"}
