"""Files left by agents are read in place, even from untrusted senders, and written only on request."""

from __future__ import annotations

import io
import os
import stat
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_mlebench.errors import UsageError
from pytest_mlebench.io import files as io_files
from pytest_mlebench.io.files import entries_below, make_readable, remove_tree, scratch, used_bytes, write_text
from pytest_mlebench.records.record import FILES
from pytest_mlebench.runs.files import (
    FilesError,
    RunFile,
    _write,
    check_files,
    copy_files,
    is_safe,
    open_files,
    read_validation_score,
    regular_files,
    unpack,
)
from pytest_mlebench.sandbox.collection import MAX_DEPTH, FilesWriter, member_name
from tests.left import dig, leave, left


def packed(*members: tuple[str, bytes], change: Callable[[zipfile.ZipInfo], None] | None = None) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members:
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            if change is not None:
                change(info)
            archive.writestr(info, content)
    return buffer.getvalue()


def linked(info: zipfile.ZipInfo) -> None:
    info.external_attr = (stat.S_IFLNK | 0o777) << 16


def bzipped(info: zipfile.ZipInfo) -> None:
    info.compress_type = zipfile.ZIP_BZIP2


def patched(data: bytes, signature: bytes, offset: int, value: bytes) -> bytes:
    at = data.rindex(signature) + offset
    return data[:at] + value + data[at + len(value) :]


def twice() -> bytes:
    with pytest.warns(UserWarning, match="Duplicate"):
        return packed(("code/a", b"1"), ("code/a", b"2"))


GOOD = packed(("code/a", b"a" * 1000))
TWO = packed(("code/a", b"a"), ("code/b", b"b"))
HOSTILE: dict[str, Callable[[], bytes]] = {
    "climbs out": lambda: packed(("code/../../../x", b"")),
    "climbs out at once": lambda: packed(("../x", b"")),
    "is absolute": lambda: packed(("/etc/x", b"")),
    "is another system's absolute path": lambda: packed(("code/C:\\x", b"")),
    "has a name of the harness": lambda: packed(("run.json", b"{}")),
    "is outside the collected folders": lambda: packed(("conftest.py", b"")),
    "claims to be the submission": lambda: packed(("submission/submission.csv", b"")),
    "is a folder": lambda: packed(("code/x/", b"")),
    "has the name of a collected folder": lambda: packed(("code", b"")),
    "has an empty part": lambda: packed(("code//x", b"")),
    "has a dot for a part": lambda: packed(("code/./x", b"")),
    "has a terminal command in its name": lambda: packed(("code/\x1b[2Jx", b"")),
    "hides its name behind a NUL character": lambda: packed(("code/aQb", b"")).replace(b"aQb", b"a\0b"),
    "is a link": lambda: packed(("code/x", b"/etc/passwd"), change=linked),
    "is compressed by another method": lambda: packed(("code/x", b"x"), change=bzipped),
    "is a duplicate": twice,
    "is both file and folder": lambda: packed(("code/a", b""), ("code/a/b", b"")),
    "is both, with another's name between": lambda: packed(("code/a", b""), ("code/a!", b""), ("code/a/b", b"")),
    "is encrypted": lambda: patched(GOOD, b"PK\x01\x02", 8, b"\x01\x00"),
    "claims a size of 4 GiB": lambda: patched(GOOD, b"PK\x01\x02", 24, struct.pack("<L", 0xFFFFFFF0)),
    "overlaps another": lambda: patched(TWO, b"PK\x01\x02", 42, struct.pack("<L", 0)),
    "is outside the archive": lambda: patched(GOOD, b"PK\x01\x02", 42, struct.pack("<L", 1 << 30)),
    "has an endless list": lambda: patched(GOOD, b"PK\x05\x06", 12, struct.pack("<L", 0xFFFFFFF0)),
    "has its list elsewhere": lambda: patched(GOOD, b"PK\x05\x06", 16, struct.pack("<L", 0xFFFFFFF0)),
    "is followed by other bytes": lambda: GOOD + b"x",
    "has a comment that looks like the end of an empty list": lambda: (
        patched(GOOD, b"PK\x05\x06", 20, struct.pack("<H", 22)) + bytes(22)
    ),
    "is cut off": lambda: GOOD[:-10],
    "is not an archive": lambda: b"nothing of the kind",
    "is empty": lambda: b"",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_an_archive_is_rejected_if_a_member(what: str, tmp_path: Path) -> None:
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    (run_dir / "files.zip").write_bytes(HOSTILE[what]())
    with pytest.raises(FilesError, match="cannot be read"), open_files(run_dir):
        pass
    with pytest.raises(FilesError):
        unpack(run_dir, tmp_path / "new")
    assert not (tmp_path / "new").exists() and read_validation_score(run_dir) is None


def test_an_archive_that_lies_about_its_content_gives_an_error_and_no_more_bytes(tmp_path: Path) -> None:
    lying = patched(GOOD, b"PK\x01\x02", 24, struct.pack("<L", 10))
    (tmp_path / "files.zip").write_bytes(lying)
    with open_files(tmp_path) as files, pytest.raises(FilesError, match="CRC"):
        files.read("code/a", 1 << 20)
    wrong = patched(GOOD, b"PK\x01\x02", 16, b"\0\0\0\0")
    (tmp_path / "files.zip").write_bytes(wrong)
    with open_files(tmp_path) as files, pytest.raises(FilesError, match="code/a of"):
        files.read("code/a", 2000)


def test_too_many_members_are_rejected_before_they_are_read(tmp_path: Path) -> None:
    (tmp_path / "files.zip").write_bytes(packed(*((f"code/{k}", b"") for k in range(6))))
    with pytest.raises(FilesError, match="more than 5 members"), open_files(tmp_path, max_files=5):
        pass
    (tmp_path / "files.zip").write_bytes(packed(*((f"code/{k}", b"") for k in range(5))))
    with open_files(tmp_path, max_files=5) as files:
        assert len(files.below()) == 5


def large(monkeypatch: pytest.MonkeyPatch) -> bytes:
    """An archive with the ZIP64 records that only archives with 65,536 members or 4 GiB need."""
    with monkeypatch.context() as patch:
        patch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 1)
        return packed(("code/a", b"a"), ("code/b", b"b"))


def test_a_large_archive_is_read_and_its_list_is_also_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = large(monkeypatch)
    assert b"PK\x06\x06" in data
    (tmp_path / "files.zip").write_bytes(data)
    with open_files(tmp_path) as files:
        assert [file.path for file in files.below()] == ["code/a", "code/b"]
    without = patched(data, b"PK\x05\x06", 12, b"\xff" * 4)
    (tmp_path / "files.zip").write_bytes(without)
    with open_files(tmp_path) as files:
        assert len(files.below()) == 2
    (tmp_path / "files.zip").write_bytes(patched(without, b"PK\x06\x06", 40, struct.pack("<Q", (64 << 20) + 1)))
    with pytest.raises(FilesError, match="its list of members is too large"), open_files(tmp_path):
        pass


def test_an_archive_without_members_is_read(tmp_path: Path) -> None:
    (tmp_path / "files.zip").write_bytes(packed())
    with open_files(tmp_path) as files:
        assert files.below() == []


def test_a_list_of_members_may_have_64_mib(tmp_path: Path) -> None:
    for size, said in (((64 << 20) + 1, "its list of members is too large"), (64 << 20, r"Bad offset|not a zip")):
        (tmp_path / "files.zip").write_bytes(patched(GOOD, b"PK\x05\x06", 12, struct.pack("<L", size)))
        with pytest.raises(FilesError, match=said), open_files(tmp_path):
            pass


def test_a_members_size_is_limited_by_the_maximum_compression_ratio(tmp_path: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(GOOD)) as archive:
        most = (archive.infolist()[0].compress_size + 1) * 1032
    (tmp_path / "files.zip").write_bytes(patched(GOOD, b"PK\x01\x02", 24, struct.pack("<L", most)))
    with open_files(tmp_path) as files:
        assert [file.size for file in files.below()] == [most]
    (tmp_path / "files.zip").write_bytes(patched(GOOD, b"PK\x01\x02", 24, struct.pack("<L", most + 1)))
    with pytest.raises(FilesError, match="declares an impossible size"), open_files(tmp_path):
        pass


def test_a_path_may_have_65000_characters() -> None:
    longest = "code/".ljust(65_000, "x")
    assert is_safe(longest) and not is_safe(f"{longest}x")


def test_a_path_may_have_as_many_folders_as_are_collected() -> None:
    deepest = f"code/{'d/' * MAX_DEPTH}file"
    assert is_safe(deepest) and not is_safe(f"{deepest}/file")


def test_members_may_be_listed_in_another_order_than_they_are_stored(tmp_path: Path) -> None:
    start = TWO.index(b"PK\x01\x02")
    end, middle = TWO.index(b"PK\x05\x06"), TWO.rindex(b"PK\x01\x02")
    (tmp_path / "files.zip").write_bytes(TWO[:start] + TWO[middle:end] + TWO[start:middle] + TWO[end:])
    with open_files(tmp_path) as files:
        assert [(file.path, files.read(file.path, 9)) for file in files.below()] == [("code/a", b"a"), ("code/b", b"b")]


@pytest.mark.parametrize("bytes_shared", [1, 8])
def test_overlapping_members_are_rejected(bytes_shared: int, tmp_path: Path) -> None:
    second = TWO.rindex(b"PK\x03\x04") - bytes_shared
    (tmp_path / "files.zip").write_bytes(patched(TWO, b"PK\x01\x02", 42, struct.pack("<L", second)))
    with pytest.raises(FilesError, match="its members overlap"), open_files(tmp_path):
        pass


def test_an_archive_behind_a_link_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "real.zip").write_bytes(GOOD)
    (tmp_path / "files.zip").symlink_to(tmp_path / "real.zip")
    with pytest.raises(FilesError), open_files(tmp_path):
        pass


def test_written_archives_depend_only_on_names_and_contents(tmp_path: Path) -> None:
    for name in ("one", "two"):
        leave(tmp_path / name, {"code/a.py": "x = 1\n", "logs/b/c.log": b"\0\xff"})
    assert (tmp_path / "one/files.zip").read_bytes() == (tmp_path / "two/files.zip").read_bytes()
    with zipfile.ZipFile(tmp_path / "one/files.zip") as archive:
        assert {(info.date_time, info.external_attr >> 16) for info in archive.infolist()} == {
            ((1980, 1, 1, 0, 0, 0), stat.S_IFREG | 0o644)
        }


def test_colliding_names_get_a_number(tmp_path: Path) -> None:
    with FilesWriter(tmp_path) as writer:
        for parts in (["code", "***"], ["code", "***"], ["code", "***", "x"], ["code", "a\n"], ["code", "a%0A"]):
            try:
                writer.write(parts, io.BytesIO(b"x"), 1)
            except FileExistsError:
                assert parts == ["code", "***", "x"]
    assert list(left(tmp_path)) == ["code/***", "code/***~2", "code/a%0A", "code/a%0A~2"]


NAMES = ("..", ".", "", " ", "...", "a/b", "a\\b", "\0", "\x1b[2J", "\u202egpj", "\udcff", "n" * 5000, "ü" * 300,
    "\ud800", "\u2028", "\x85", "::add-mask::", "\n" * 300)  # fmt: skip


@pytest.mark.parametrize("part", NAMES)
def test_any_name_can_be_read_back(part: str, tmp_path: Path) -> None:
    with FilesWriter(tmp_path / "run") as writer:
        writer.write(["code", part, f"{part}.py"], io.BytesIO(b"x"), 1)
    (name,) = left(tmp_path / "run")
    assert name.isprintable() and name.endswith(".py") and member_name(part) == name.split("/")[1]
    assert unpack(tmp_path / "run", tmp_path / "new") == []
    assert [path.read_text() for path in (tmp_path / "new").rglob("*.py")] == ["x"]


def test_names_beyond_the_size_limit_are_rejected(tmp_path: Path) -> None:
    with FilesWriter(tmp_path, max_name_bytes=25) as writer:
        writer.write(["code", "a" * 15], io.BytesIO(b"x"), 1)
        with pytest.raises(OSError, match="too many names"):
            writer.write(["code", "b" * 15], io.BytesIO(b"x"), 1)
    assert len(left(tmp_path)) == 1


def test_an_interrupted_collection_leaves_an_archive_of_complete_files(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), FilesWriter(tmp_path) as writer:
        writer.write(["code", "test_x.py"], io.BytesIO(b"x"), 1)
        raise KeyboardInterrupt
    assert [path.name for path in tmp_path.iterdir()] == ["files.zip"] and left(tmp_path) == {"code/test_x.py": b"x"}


def test_unpacking_needs_a_new_folder_and_makes_nothing_executable(tmp_path: Path) -> None:
    leave(tmp_path / "run", {"code/a.sh": "echo\n", "logs/b": "b"})
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").mkdir()
    with pytest.raises(UsageError, match="is a link"):
        unpack(tmp_path / "run", tmp_path / "link")
    (tmp_path / "full").mkdir()
    (tmp_path / "full/x").touch()
    with pytest.raises(UsageError, match="is not empty"):
        unpack(tmp_path / "run", tmp_path / "full")
    with pytest.raises(UsageError, match="at most 3 can be unpacked"):
        unpack(tmp_path / "run", tmp_path / "new", max_bytes=3)
    assert not (tmp_path / "new").exists()
    opened = len(list(Path("/proc/self/fd").iterdir()))
    assert unpack(tmp_path / "run", tmp_path / "new") == []
    assert len(list(Path("/proc/self/fd").iterdir())) == opened
    os.umask(umask := os.umask(0))
    assert stat.S_IMODE((tmp_path / "new/code/a.sh").stat().st_mode) == 0o644 & ~umask
    assert stat.S_IMODE((tmp_path / "new/code").stat().st_mode) == 0o755 & ~umask


def test_conflicting_names_are_reported_and_the_rest_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(tmp_path / "run", {"code/a": "1", "code/A": "2", "code/b": "3"})
    create = os.open

    def folding(path: Any, *rest: Any, **more: Any) -> int:
        """Simulates a case-insensitive file system."""
        return create(path.lower() if path == "A" else path, *rest, **more)

    monkeypatch.setattr("pytest_mlebench.runs.files.os.open", folding)
    assert unpack(tmp_path / "run", tmp_path / "new") == ["code/a"]
    assert {path.name: path.read_text() for path in (tmp_path / "new/code").iterdir()} == {"a": "2", "b": "3"}


def test_folders_of_earlier_versions_are_read_the_same_way(tmp_path: Path) -> None:
    (tmp_path / "code/deep").mkdir(parents=True)
    (tmp_path / "submission").mkdir()
    (tmp_path / "code/deep/a.py").write_text("a")
    (tmp_path / "code/link").symlink_to("/etc/passwd")
    (tmp_path / "submission/submission.csv").write_text("id\n")
    (tmp_path / "submission/validation.json").write_text('{"validation_score": 0.5}')
    assert left(tmp_path) == {"code/deep/a.py": b"a", "submission/validation.json": b'{"validation_score": 0.5}'}
    assert read_validation_score(tmp_path) == 0.5


def test_folders_of_earlier_versions_are_also_bounded(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    for k in range(5):
        (tmp_path / f"code/{k}").write_text("x")
    with open_files(tmp_path, max_files=3) as files:
        assert len(files.below()) == 3


def test_a_folder_that_becomes_a_link_while_files_are_written_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(tmp_path / "run", {"code/a.py": "x = 1\n"})
    (tmp_path / "outside").mkdir()
    (tmp_path / "new").mkdir()
    monkeypatch.setattr(Path, "mkdir", lambda *_, **__: None)
    monkeypatch.setattr(os, "mkdir", lambda name, mode, dir_fd: os.symlink(tmp_path / "outside", name, dir_fd=dir_fd))
    with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
        unpack(tmp_path / "run", tmp_path / "new")
    assert not list((tmp_path / "outside").iterdir())


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_folders_and_special_files_are_not_read_as_an_archive(make: Callable[[Path], None], tmp_path: Path) -> None:
    make(tmp_path / "files.zip")
    with pytest.raises(FilesError, match=r"it is not a regular file|Is a directory"), open_files(tmp_path):
        pass


def test_the_content_of_a_third_party_archive_is_checked_up_to_a_size(tmp_path: Path) -> None:
    (tmp_path / "files.zip").write_bytes(patched(GOOD, b"PK\x01\x02", 16, b"\0\0\0\0"))
    with pytest.raises(FilesError, match="CRC"):
        check_files(tmp_path)
    check_files(tmp_path, max_checked=999)
    with pytest.raises(FilesError, match="CRC"):
        check_files(tmp_path, max_checked=1000)


def test_a_third_party_archive_may_not_unpack_to_more_than_a_run_may_leave(tmp_path: Path) -> None:
    leave(tmp_path, {"code/a": b"a" * 20, "logs/b": b"b" * 10})
    check_files(tmp_path, max_bytes=10)
    with pytest.raises(FilesError, match="unpacks to 30 bytes; at most 27 bytes are kept"):
        check_files(tmp_path, max_bytes=9)


def test_files_left_by_an_agent_are_compared_by_value(tmp_path: Path) -> None:
    leave(tmp_path, {"code/A.PY": "x"})
    with open_files(tmp_path) as files:
        (file,) = {*files.below()}
    assert file == RunFile("code/A.PY", 1, file.crc) and file.suffix == ".py" and file.crc is not None
    assert RunFile("code/a", 1).crc is None


def test_names_and_paths_that_are_too_long_are_not_unpacked(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    long = [f"code/{'n' * 256}", f"code/{'m' * 256}/a", f"code/{'/'.join(['d' * 200] * 25)}/a"]
    with zipfile.ZipFile(tmp_path / "run" / FILES, "w") as archive:
        for name in ("code/a", f"code/{'n' * 255}", *long):
            archive.writestr(name, "x")
    assert sorted(unpack(tmp_path / "run", tmp_path / "new")) == sorted(long)
    assert sorted(len(path.name) for path in (tmp_path / "new").rglob("*") if path.is_file()) == [1, 255]


def test_a_file_whose_path_is_too_long_is_not_read(tmp_path: Path) -> None:
    run = tmp_path / ("r" * (268 - len(str(tmp_path))))
    dig(run / "code", 19, "d" * 200)  # the path of the deepest folder has 4,093 bytes
    (run / "code/a").touch()
    with open_files(run) as files:
        assert [file.path for file in files.below()] == ["code/a"]
    remove_tree(run)


def test_unpacking_a_run_creates_parent_folders(tmp_path: Path) -> None:
    leave(tmp_path / "run", {"code/a": "a", "logs/b": "b"})
    assert unpack(tmp_path / "run", tmp_path / "x/y/new", folders=("logs",), max_bytes=1) == []
    assert [path.name for path in (tmp_path / "x/y/new").rglob("*")] == ["logs", "b"]


def test_selected_folders_of_a_run_are_copied_and_the_rest_is_listed(tmp_path: Path) -> None:
    leave(tmp_path / "run", {"code/a": "a", "code/deep/c": "c", "logs/b": "b"})
    assert [file.path for file in copy_files(tmp_path / "run", tmp_path / "copy", ["code"])] == ["logs/b"]
    assert left(tmp_path / "copy") == {"code/a": b"a", "code/deep/c": b"c"}


def test_a_file_that_cannot_be_opened_is_an_error_with_path_and_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "files.zip").write_bytes(GOOD.replace(b"PK\x03\x04", b"PK\x09\x09"))
    with open_files(tmp_path) as files:
        with pytest.raises(FilesError, match="has no file code/b"):
            files.read("code/b", 1)
        with pytest.raises(FilesError, match=r"code/a of .* cannot be read"):
            files.read("code/a", 1)

    def fail(*_: object) -> None:
        raise EOFError

    monkeypatch.setattr("pytest_mlebench.runs.files.zipfile.ZipFile", fail)
    with pytest.raises(FilesError, match="cannot be read: EOFError"), open_files(tmp_path):
        pass


def test_a_copy_needs_a_new_folder(tmp_path: Path) -> None:
    leave(tmp_path / "run", {"code/a": "a"})
    (tmp_path / "copy").mkdir()
    with pytest.raises(FileExistsError):
        copy_files(tmp_path / "run", tmp_path / "copy", ["code"])


def test_a_growing_file_is_written_only_up_to_its_listed_size(tmp_path: Path) -> None:
    root = os.open(tmp_path, os.O_RDONLY)
    _write(root, RunFile("code/a", 4, 0), io.BytesIO(b"seen and more"))
    os.close(root)
    assert (tmp_path / "code/a").read_bytes() == b"seen"


@pytest.mark.parametrize(("name", "mode"), [("d", 0o500), ("x" * 200, 0)], ids=["deep", "deep with long names"])
def test_a_folder_is_removed_whatever_its_depth_and_permissions(tmp_path: Path, name: str, mode: int) -> None:
    dig(tmp_path / "agent", 1100, name, mode)
    remove_tree(tmp_path / "agent")
    assert not list(tmp_path.iterdir())


def test_a_temporary_folder_is_removed_whatever_its_depth(tmp_path: Path) -> None:
    with scratch(tmp_path) as name:
        dig(Path(name, "d"), 1100, "d")
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_removed_is_an_error_unless_errors_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    remove_tree(tmp_path / "link")
    with pytest.raises(OSError, match="symbolic link"):
        remove_tree(tmp_path / "link", ignore_errors=False)
    remove_tree(tmp_path / "absent", ignore_errors=False)


def test_removing_a_folder_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir(mode=0o750)
    (tmp_path / "outside/file").write_text("x")
    (tmp_path / "agent/logs").mkdir(parents=True)
    (tmp_path / "agent/logs/link").symlink_to(tmp_path / "outside")
    os.mkfifo(tmp_path / "agent/pipe")
    (tmp_path / "link").symlink_to(tmp_path / "agent")
    remove_tree(tmp_path / "link")
    assert (tmp_path / "agent/pipe").exists()
    remove_tree(tmp_path / "agent")
    remove_tree(tmp_path / "absent")
    assert {path.name for path in tmp_path.iterdir()} == {"outside", "link"}
    assert (tmp_path / "outside/file").exists() and (tmp_path / "outside").stat().st_mode & 0o777 == 0o750


def test_a_folder_of_any_depth_is_read(tmp_path: Path) -> None:
    dig(tmp_path / "code", 1100, "d", mode=0o300)
    make_readable(tmp_path / "code")
    (found,) = regular_files(tmp_path / "code")
    assert used_bytes([tmp_path / "code"]) == found.stat().st_blocks * 512 > 0
    with open_files(tmp_path) as files:
        assert [file.path for file in files.below("code")] == [f"code/{'d/' * 1100}file"]
    remove_tree(tmp_path / "code")


def test_a_file_that_vanishes_takes_no_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("x")
    entries = list(entries_below(tmp_path))
    (tmp_path / "file").unlink()
    monkeypatch.setattr(io_files, "entries_below", lambda _: entries)
    assert used_bytes([tmp_path]) == 0


def test_a_file_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError):
        write_text(tmp_path / "folder", "x")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
