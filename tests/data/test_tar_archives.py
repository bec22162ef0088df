import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from pytest_mlebench.authoring.archives import (
    TarWriter,
    copy_members,
    open_tar,
    tar_members,
    tar_names,
    write_tar_gz,
    write_zip,
)
from pytest_mlebench.errors import DataError

FILES = {"a/1.jpg": b"one", "b.txt": b"", "a/ü.jpg": b"x" * 100_000}


def contents(path: Path) -> dict[str, bytes]:
    with open_tar(path) as archive:
        return {name: file.read() for name, _, file in tar_members(archive)}


@pytest.mark.parametrize("gzipped", [True, False])
def test_members_are_read_in_their_order(tmp_path: Path, gzipped: bool) -> None:
    path = tmp_path / "deep" / "files.tar"
    with TarWriter(path, gzipped=gzipped) as archive:
        for name, content in FILES.items():
            archive.write(name, content)
    assert list(contents(path).items()) == list(FILES.items())
    assert (path.read_bytes()[:2] == b"\x1f\x8b") is gzipped


def test_files_are_streamed_from_archive_to_archive(tmp_path: Path) -> None:
    write_tar_gz(tmp_path / "old.tar.gz", FILES)
    with open_tar(tmp_path / "old.tar.gz") as old, TarWriter(tmp_path / "new.tar") as archive:
        for name, size, file in tar_members(old):
            archive.write(f"new/{name}", file, size)
    assert contents(tmp_path / "new.tar") == {f"new/{name}": content for name, content in FILES.items()}


def test_a_path_is_written_with_its_size(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    with TarWriter(tmp_path / "new.tar") as archive:
        archive.write("renamed", tmp_path / "file")
    assert contents(tmp_path / "new.tar") == {"renamed": b"content"}


def test_an_open_file_needs_its_size(tmp_path: Path) -> None:
    with TarWriter(tmp_path / "new.tar") as archive, pytest.raises(ValueError, match="size of a must be given"):
        archive.write("a", io.BytesIO(b"x"))


def test_the_bytes_depend_only_on_the_members(tmp_path: Path) -> None:
    for name in ("1.tar.gz", "2.tar.gz"):
        write_tar_gz(tmp_path / name, FILES)
    assert (tmp_path / "1.tar.gz").read_bytes() == (tmp_path / "2.tar.gz").read_bytes()


def test_names_in_a_tar_archive_are_in_its_order(tmp_path: Path) -> None:
    write_tar_gz(tmp_path / "a.tar.gz", {"b.zip": b"1", "folder/a.zip": b"2", "c.txt": b""})
    assert tar_names(tmp_path / "a.tar.gz") == ["b.zip", "folder/a.zip", "c.txt"]


def test_folders_are_not_members(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "old.tar", "w") as archive:
        folder = tarfile.TarInfo("folder")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
    assert contents(tmp_path / "old.tar") == {}


def test_a_link_is_rejected(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "old.tar", "w") as archive:
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    with pytest.raises(DataError, match="member link is neither a file nor a folder"):
        contents(tmp_path / "old.tar")


def test_a_missing_archive_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.tar is missing"):
        contents(tmp_path / "none.tar")
    with pytest.raises(DataError, match=r"none\.tar is missing"):
        tar_names(tmp_path / "none.tar")


@pytest.mark.parametrize("gzipped", [True, False])
def test_a_truncated_archive_is_named(tmp_path: Path, gzipped: bool) -> None:
    path = tmp_path / "cut.tar"
    with TarWriter(path, gzipped=gzipped) as archive:
        archive.write("a", b"x" * 100_000)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(DataError, match=r"cut\.tar is damaged"):
        contents(path)
    with pytest.raises(DataError, match=r"cut\.tar is damaged"):
        tar_names(path)


def test_zip_members_are_copied_under_new_names_in_the_requested_order(tmp_path: Path) -> None:
    write_zip(tmp_path / "old.zip", {"train/1.jpg": b"1", "train/2.jpg": b"2", "train/3.jpg": b"3"})
    copy_members(tmp_path / "old.zip", tmp_path / "new.zip", {"train/3.jpg": "3.jpg", "train/1.jpg": "1.jpg"})
    copy_members(tmp_path / "new.zip", tmp_path / "same.zip", ["1.jpg"])
    for name, expected in (("new.zip", {"3.jpg": b"3", "1.jpg": b"1"}), ("same.zip", {"1.jpg": b"1"})):
        with zipfile.ZipFile(tmp_path / name) as archive:
            assert [(info.filename, archive.read(info)) for info in archive.infolist()] == list(expected.items())


def test_a_zip_member_that_is_missing_is_named(tmp_path: Path) -> None:
    write_zip(tmp_path / "old.zip", {"1.jpg": b"1"})
    with pytest.raises(DataError, match=r"has no member 2\.jpg"):
        copy_members(tmp_path / "old.zip", tmp_path / "new.zip", ["2.jpg"])
