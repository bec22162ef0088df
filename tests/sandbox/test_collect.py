"""Collecting untrusted files."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from pytest_mlebench.sandbox.collection import Collector, FilesWriter
from pytest_mlebench.sandbox.redaction import Redactor
from tests.left import left


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    (folder / "deep/er").mkdir(parents=True)
    (folder / "a.txt").write_text("a")
    (folder / "deep/er/b.txt").write_text("b")
    return folder


def collected(
    source: Path, size: int, number: int, redactor: Redactor | None = None
) -> tuple[dict[str, bytes], Collector]:
    """Collect a folder; return the files and the collector."""
    run_dir = Path(tempfile.mkdtemp(dir=source.parent))
    with FilesWriter(run_dir) as files:
        collector = Collector(files, size, number, redactor or Redactor())
        collector.collect(source)
    assert {path.name for path in run_dir.iterdir()} <= {"files.zip", "submission"}
    return left(run_dir), collector


def test_files_and_folders_are_copied(source: Path, tmp_path: Path) -> None:
    found, collector = collected(source, 1000, 100)
    assert found == {"logs/a.txt": b"a", "logs/deep/er/b.txt": b"b"}
    assert collector.left_out == []


def test_links_pipes_and_sockets_are_left_out_and_noted(source: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("answers")
    (source / "link").symlink_to(secret)
    (source / "folder-link").symlink_to(tmp_path)
    os.mkfifo(source / "pipe")
    found, collector = collected(source, 1000, 100)
    assert found == {"logs/a.txt": b"a", "logs/deep/er/b.txt": b"b"}
    assert len(collector.left_out) == 3


def test_a_link_instead_of_the_folder_is_left_out(source: Path, tmp_path: Path) -> None:
    (tmp_path / "submission").symlink_to(source)
    found, collector = collected(tmp_path / "submission", 1000, 100)
    assert found == {} and collector.left_out == ["submission (no folder)"]


def test_size_and_number_are_limited(source: Path, tmp_path: Path) -> None:
    with (source / "large").open("wb") as file:
        file.truncate(10**9)
    found, _ = collected(source, 1000, 2)
    assert found == {"logs/a.txt": b"a", "logs/deep/er/b.txt": b"b"}
    for number in range(5):
        (source / f"{number}").touch()
    found, few = collected(source, 1000, 2)
    assert len(found) == 2 and len(few.left_out) == 6


def test_endless_folders_do_not_break_the_collection(source: Path, tmp_path: Path) -> None:
    folder = source / "deep"
    for _ in range(100):
        folder = folder / "d"
        folder.mkdir()
    found, collector = collected(source, 1000, 100)
    assert "logs/a.txt" in found and "too deep" in collector.left_out[0]


def test_secrets_are_masked_in_collected_files(source: Path, tmp_path: Path) -> None:
    (source / "config.py").write_text("key = 'hunter2-key'")
    found, _ = collected(source, 1000, 100, redactor=Redactor(["hunter2-key"]))
    assert found["logs/config.py"] == b"key = '***********'"
