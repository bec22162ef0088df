import bz2
import gzip
import io
import lzma
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_mlebench.authoring.archives import (
    ArchiveError,
    TarWriter,
    ZipWriter,
    check_zip,
    open_tar,
    open_zip,
    read_7z,
    safe_join,
    tar_members,
    unpack_7z,
    unpack_zip,
    write_7z,
    write_zip,
    zip_member,
)
from pytest_mlebench.errors import DataError


def test_a_member_of_a_zip_archive_can_be_written_piece_by_piece(tmp_path: Path) -> None:
    with ZipWriter(tmp_path / "whole.zip") as archive:
        archive.write("a.txt", b"one two")
    with ZipWriter(tmp_path / "pieces.zip") as archive, archive.open("a.txt") as member:
        member.write(b"one ")
        member.write(b"two")
    for name in ("whole.zip", "pieces.zip"):
        with zipfile.ZipFile(tmp_path / name) as written:
            assert written.read("a.txt") == b"one two"
            assert written.getinfo("a.txt").compress_type == zipfile.ZIP_DEFLATED
            assert written.getinfo("a.txt").date_time == (1980, 1, 1, 0, 0, 0)


MEMBERS = {"train/": b"", "train/1.txt": b"one", "train/deep/2.jpg": b"\xff\xd8", "täst.csv": b"id\n"}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    write_zip(tmp_path / "raw" / "data.zip", MEMBERS)
    return tmp_path / "raw" / "data.zip"


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_unpacking_returns_all_files_in_the_order_of_the_archive(archive: Path, tmp_path: Path) -> None:
    assert unpack_zip(archive, tmp_path / "out") == ["train/1.txt", "train/deep/2.jpg", "täst.csv"]
    assert contents(tmp_path / "out") == {name: data for name, data in MEMBERS.items() if not name.endswith("/")}


def test_unpacking_renames_by_a_mapping_and_skips_the_others(archive: Path, tmp_path: Path) -> None:
    assert unpack_zip(archive, tmp_path / "out", {"train/1.txt": "test/a.txt"}) == ["test/a.txt"]
    assert contents(tmp_path / "out") == {"test/a.txt": b"one"}


def test_unpacking_renames_by_a_function_and_skips_files_without_a_name(archive: Path, tmp_path: Path) -> None:
    unpack_zip(archive, tmp_path / "out", lambda name: name.upper() if "train" in name else None)
    assert contents(tmp_path / "out") == {"TRAIN/1.TXT": b"one", "TRAIN/DEEP/2.JPG": b"\xff\xd8"}


def test_a_missing_member_is_named_with_its_archive(archive: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"data\.zip has no member train/3\.txt"):
        unpack_zip(archive, tmp_path / "out", {"train/1.txt": "1", "train/3.txt": "3"})
    with pytest.raises(DataError, match=r"data\.zip has no member nothing"), zip_member(archive, "nothing"):
        pass
    assert not (tmp_path / "out").exists()


def test_a_single_member_is_read_as_a_file(archive: Path) -> None:
    with zip_member(archive, "train/1.txt") as file:
        assert file.read() == b"one"


def test_the_only_file_of_an_archive_needs_no_name(archive: Path, tmp_path: Path) -> None:
    write_zip(tmp_path / "single.zip", {"folder/": b"", "folder/a.csv": b"x\n"})
    with zip_member(tmp_path / "single.zip") as file:
        assert file.read() == b"x\n"
    with pytest.raises(DataError, match=r"data\.zip contains 3 files"), zip_member(archive):
        pass


def test_missing_and_damaged_archives_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.zip is missing in the raw data"), open_zip(tmp_path / "a.zip"):
        pass
    (tmp_path / "b.zip").write_bytes(b"PK\3\4 and nothing else")
    with pytest.raises(DataError, match=r"b\.zip is damaged"), open_zip(tmp_path / "b.zip"):
        pass


def test_a_member_with_changed_bytes_counts_as_damaged(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("1.txt", b"before")
    (tmp_path / "a.zip").write_bytes((tmp_path / "a.zip").read_bytes().replace(b"before", b"behind"))
    with pytest.raises(DataError, match=r"a\.zip is damaged"):
        unpack_zip(tmp_path / "a.zip", tmp_path / "out")


def spoil(content: bytes, place: bytes, offset: int, new: bytes) -> bytes:
    start = content.index(place) + offset
    return content[:start] + new + content[start + len(new) :]


def zip_of(method: int) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        archive.writestr("é.txt", bytes(range(256)) * 9)
    return file.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        spoil(zip_of(zipfile.ZIP_STORED), b"PK\1\2", 46, b"\xff"),  # a name that is not UTF-8
        spoil(zip_of(zipfile.ZIP_BZIP2), b"BZh", 4, b"xxxx"),
        spoil(zip_of(zipfile.ZIP_LZMA), b"PK\3\4", 36, b"\xff\xff\xff\xff\xff"),
        spoil(zip_of(zipfile.ZIP_STORED), b"PK\1\2", 8, b"\1"),  # encrypted
        spoil(zip_of(zipfile.ZIP_STORED), b"PK\5\6", 16, b"\xff\xff"),  # a member that begins before the file
    ],
)
def test_every_kind_of_damage_is_an_error_that_names_the_archive(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(content)
    with pytest.raises(ArchiveError, match=r"archive .*a\.zip is damaged"):
        check_zip(tmp_path / "a.zip")


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_damaged_compressed_tar_archive_is_named(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    with TarWriter(tmp_path / "a.tar") as archive:
        archive.write("a.bin", random.Random(1).randbytes(1 << 20))
    content = pack((tmp_path / "a.tar").read_bytes())
    (tmp_path / "a.tar").write_bytes(content[:9999] + bytes(9999) + content[19998:])
    with pytest.raises(DataError, match=r"archive .*a\.tar is damaged"), open_tar(tmp_path / "a.tar") as opened:
        for _, _, file in tar_members(opened):
            file.read()


@pytest.mark.parametrize(
    "error", [ValueError("not a number"), OSError(28, "full"), FileNotFoundError(2, "none", "b.csv"), KeyError("x")]
)
def test_errors_of_code_that_reads_an_archive_are_not_damage(error: Exception, archive: Path) -> None:
    with pytest.raises(type(error)) as caught, open_zip(archive):
        raise error
    assert caught.value is error


@pytest.mark.parametrize("name", ["../evil", "a/../../evil", "/evil", "..", "a\\..\\evil", "C:\\evil", ""])
def test_names_that_leave_the_folder_are_rejected(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="would be written outside"):
        safe_join(tmp_path, name)


def test_nothing_is_written_outside_the_target_folder(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "evil.zip", "w") as archive:
        archive.writestr("../evil", b"")
    with pytest.raises(DataError, match="would be written outside"):
        unpack_zip(tmp_path / "evil.zip", tmp_path / "out")
    assert not (tmp_path / "evil").exists()


def test_two_members_with_the_same_name_do_not_overwrite_each_other(archive: Path, tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match=r"more than one member for .*same"):
        unpack_zip(archive, tmp_path / "out", lambda name: "same")


def test_an_archive_depends_only_on_its_members(tmp_path: Path) -> None:
    (tmp_path / "1.txt").write_bytes(b"one")
    for folder in ("a", "b"):
        write_zip(tmp_path / folder / "x.zip", [("1.txt", tmp_path / "1.txt"), ("2.txt", "two"), ("3.txt", b"three")])
        (tmp_path / "1.txt").touch()
    assert (tmp_path / "a" / "x.zip").read_bytes() == (tmp_path / "b" / "x.zip").read_bytes()


def test_bytes_text_paths_and_open_files_are_written_alike(tmp_path: Path) -> None:
    (tmp_path / "é.txt").write_text("é", encoding="utf-8")
    with ZipWriter(tmp_path / "x.zip") as archive, (tmp_path / "é.txt").open("rb") as file:
        contents: list[Any] = ["é", "é".encode(), tmp_path / "é.txt", file]
        for name, content in zip("1234", contents, strict=True):
            archive.write(name, content)
    with zipfile.ZipFile(tmp_path / "x.zip") as archive:
        assert [archive.read(name) for name in "1234"] == ["é".encode()] * 4


def test_media_files_are_stored_and_text_is_deflated(tmp_path: Path) -> None:
    write_zip(tmp_path / "x.zip", {"1.JPG": bytes(1000), "1.csv": bytes(1000)})
    with zipfile.ZipFile(tmp_path / "x.zip") as archive:
        kinds = {info.filename: info.compress_type for info in archive.infolist()}
    assert kinds == {"1.JPG": zipfile.ZIP_STORED, "1.csv": zipfile.ZIP_DEFLATED}


def test_an_existing_archive_is_not_overwritten(archive: Path) -> None:
    with pytest.raises(FileExistsError):
        write_zip(archive, {})


def test_a_missing_or_damaged_7z_archive_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a\.7z is missing in the raw data"):
        unpack_7z(tmp_path / "a.7z", tmp_path / "out")
    (tmp_path / "b.7z").write_bytes(b"7z\xbc\xaf\x27\x1c nothing")
    with pytest.raises(DataError, match=r"b\.7z is damaged"):
        unpack_7z(tmp_path / "b.7z", tmp_path / "out")
    with pytest.raises(DataError, match=r"b\.7z is damaged"):
        read_7z(tmp_path / "b.7z", "a.csv")


def test_a_missing_or_large_member_of_a_7z_archive_is_named(tmp_path: Path) -> None:
    write_7z(tmp_path / "a.7z", {"a.csv": b"id\n1\n"})
    assert read_7z(tmp_path / "a.7z", "a.csv").read() == b"id\n1\n"
    with pytest.raises(DataError, match=r"a\.7z has no member b\.csv"):
        read_7z(tmp_path / "a.7z", "b.csv")
    with pytest.raises(DataError, match=r"a\.7z: member a\.csv has 5 bytes; at most 4 can be read"):
        read_7z(tmp_path / "a.7z", "a.csv", max_bytes=4)
