"""Collecting what nobody can be trusted to have left."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_mlebench.sandbox.collection import Collector
from pytest_mlebench.sandbox.redaction import Redactor


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    (folder / "deep/er").mkdir(parents=True)
    (folder / "a.txt").write_text("a")
    (folder / "deep/er/b.txt").write_text("b")
    return folder


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())


def test_files_and_folders_are_copied(source: Path, tmp_path: Path) -> None:
    collector = Collector(1000, 100)
    collector.collect(source, tmp_path / "target")
    assert names(tmp_path / "target") == ["a.txt", "deep/er/b.txt"]
    assert collector.left_out == []


def test_links_pipes_and_sockets_are_left_out_and_noted(source: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("answers")
    (source / "link").symlink_to(secret)
    (source / "folder-link").symlink_to(tmp_path)
    os.mkfifo(source / "pipe")
    collector = Collector(1000, 100)
    collector.collect(source, tmp_path / "target")
    assert names(tmp_path / "target") == ["a.txt", "deep/er/b.txt"]
    assert len(collector.left_out) == 3


def test_a_link_in_place_of_the_folder_is_left_out(source: Path, tmp_path: Path) -> None:
    (tmp_path / "submission").symlink_to(source)
    collector = Collector(1000, 100)
    collector.collect(tmp_path / "submission", tmp_path / "target")
    assert names(tmp_path / "target") == [] and collector.left_out == ["submission (no folder)"]


def test_size_and_number_are_limited(source: Path, tmp_path: Path) -> None:
    with (source / "large").open("wb") as file:
        file.truncate(10**9)
    collector = Collector(1000, 2)
    collector.collect(source, tmp_path / "target")
    assert names(tmp_path / "target") == ["a.txt", "deep/er/b.txt"]
    for number in range(5):
        (source / f"{number}").touch()
    few = Collector(1000, 2)
    few.collect(source, tmp_path / "few")
    assert len(names(tmp_path / "few")) == 2 and len(few.left_out) == 6


def test_folders_without_end_do_not_end_the_collection(source: Path, tmp_path: Path) -> None:
    folder = source / "deep"
    for _ in range(100):
        folder = folder / "d"
        folder.mkdir()
    collector = Collector(1000, 100)
    collector.collect(source, tmp_path / "target")
    assert "a.txt" in names(tmp_path / "target") and "too deep" in collector.left_out[0]


def test_secrets_are_masked_in_collected_files(source: Path, tmp_path: Path) -> None:
    (source / "config.py").write_text("key = 'hunter2-key'")
    Collector(1000, 100, Redactor(["hunter2-key"])).collect(source, tmp_path / "target")
    assert (tmp_path / "target/config.py").read_text() == "key = '***********'"
