"""Attacks on the harness through collected files. Each test fails if the attack succeeds."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_mlebench.runs.files import unpack
from pytest_mlebench.sandbox.collection import Collector, FilesWriter, collect_archive
from tests.left import left
from tests.sandbox.scripted import MB, SAMPLE, SUBMIT, Runner

pytestmark = pytest.mark.docker


def _archive(*members: tuple[str, bytes, dict[str, object]]) -> Iterator[bytes]:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, content, attributes in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            for key, value in attributes.items():
                setattr(info, key, value)
            tar.addfile(info, io.BytesIO(content))
    content = buffer.getvalue()
    return (content[at : at + 1000] for at in range(0, len(content), 1000))


TRICKS: dict[str, list[tuple[str, bytes, dict[str, Any]]]] = {
    "dots": [("logs/../../evil", b"x", {})],
    "leading dots": [("../evil", b"x", {})],
    "absolute": [("/tmp/evil", b"x", {})],
    "absolute below": [("logs//tmp/evil", b"x", {})],
    "through a link": [
        ("logs/door", b"", {"type": tarfile.SYMTYPE, "linkname": "/tmp"}),
        ("logs/door/evil", b"x", {}),
    ],
    "hard link": [("logs/hard", b"", {"type": tarfile.LNKTYPE, "linkname": "/etc/passwd"})],
    "device": [("logs/disk", b"", {"type": tarfile.BLKTYPE, "devmajor": 8, "devminor": 0})],
    "character device": [("logs/zero", b"", {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 5})],
    "pipe": [("logs/pipe", b"", {"type": tarfile.FIFOTYPE})],
    "not a folder": [("logs", b"content", {})],
    "set-user-id": [("logs/root", b"x", {"mode": 0o6777})],
    "file over a file": [("logs/one", b"1", {}), ("logs/one", b"2", {})],
    "file under a file": [("logs/one", b"1", {}), ("logs/one/two", b"2", {})],
    "deep": [("logs/" + "d/" * 2000 + "x", b"x", {})],
    "zero byte": [("logs/a\0b", b"x", {})],
}


@pytest.mark.parametrize("trick", TRICKS)
def test_an_archive_is_converted_to_plain_files_in_a_new_archive(trick: str, tmp_path: Path) -> None:
    with FilesWriter(tmp_path / "run") as files:
        collector = Collector(files, MB, 100)
        collect_archive(_archive(("logs", b"", {"type": tarfile.DIRTYPE}), *TRICKS[trick]), ["logs"], collector)
    assert {path.name for path in tmp_path.rglob("*")} <= {"run", "files.zip"}
    unpack(tmp_path / "run", tmp_path / "unpacked")
    for path in (tmp_path / "unpacked").rglob("*"):
        assert path.is_relative_to(tmp_path / "unpacked/logs") and not path.is_symlink()
        assert path.is_dir() or (path.is_file() and path.stat().st_nlink == 1 and path.stat().st_mode & 0o7111 == 0)
    assert collector.left_out or trick in ("set-user-id", "zero byte", "file over a file")
    assert not Path("/tmp/evil").exists()


def test_a_damaged_archive_is_reported(tmp_path: Path) -> None:
    collector = Collector(FilesWriter(tmp_path), MB, 100)
    collect_archive(iter([b"\x00garbage" * 1000]), ["logs"], collector)
    assert "damaged" in collector.left_out[0]


def test_ten_thousand_files_do_not_delay_the_harness(attack: Runner) -> None:
    result = attack(
        f'{SUBMIT}; python3 -c \'import os\nos.chdir(os.environ["LOGS_DIR"])\n'
        'for i in range(10000): os.symlink("x", str(i)) if i % 2 else open(str(i), "w").close()\'',
        collect_files=1000,
    )
    assert result.submission == SAMPLE
    assert len(left(result.run_dir)) <= 1000
    assert len(result.execution.sandbox.left_out) < 1000


def test_folders_of_any_depth_do_not_break_the_collection(attack: Runner) -> None:
    result = attack(
        f'{SUBMIT}; cd $CODE_DIR; python3 -c \'import os\nfor i in range(2100): os.mkdir("d"); os.chdir("d")\'; '
        "echo kept > $LOGS_DIR/note"
    )
    assert result.submission == SAMPLE
    assert "logs/note" in left(result.run_dir)
