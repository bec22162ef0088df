import os
from pathlib import Path

import pytest

from pytest_mlebench.authoring.files import link, link_files, link_tree
from pytest_mlebench.errors import DataError


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    folder = tmp_path / "raw"
    for name in ("a.txt", "sub/b.txt", "sub/deep/c.txt"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (folder / "empty").mkdir()
    return folder


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def test_a_linked_file_shares_its_bytes_with_the_source(raw: Path, tmp_path: Path) -> None:
    link(raw / "a.txt", tmp_path / "new" / "folder" / "b.txt")
    assert (raw / "a.txt").samefile(tmp_path / "new" / "folder" / "b.txt")


def test_a_symbolic_link_is_followed(raw: Path, tmp_path: Path) -> None:
    (raw / "points").symlink_to("a.txt")
    link(raw / "points", tmp_path / "b.txt")
    assert not (tmp_path / "b.txt").is_symlink()
    assert (raw / "a.txt").samefile(tmp_path / "b.txt")


def test_a_file_is_copied_if_it_cannot_be_linked(raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    link(raw / "a.txt", tmp_path / "b.txt")
    assert (tmp_path / "b.txt").read_text() == "a.txt"
    assert not (raw / "a.txt").samefile(tmp_path / "b.txt")


@pytest.mark.parametrize("name", ["missing.txt", "sub", "dangling"])
def test_a_path_that_is_not_a_file_is_named(name: str, raw: Path, tmp_path: Path) -> None:
    (raw / "dangling").symlink_to("nowhere")
    with pytest.raises(DataError, match=rf"{name} is missing in the raw data"):
        link(raw / name, tmp_path / "b.txt")


def test_two_files_cannot_have_the_same_destination(raw: Path, tmp_path: Path) -> None:
    link(raw / "a.txt", tmp_path / "b.txt")
    with pytest.raises(DataError, match=r"two files of the raw data go to .*b\.txt"):
        link(raw / "sub" / "b.txt", tmp_path / "b.txt")


def test_many_files_keep_their_subfolders(raw: Path, tmp_path: Path) -> None:
    link_files(["a.txt", "sub/deep/c.txt"], raw, tmp_path / "out")
    assert names(tmp_path / "out") == ["a.txt", "sub", "sub/deep", "sub/deep/c.txt"]


def test_many_files_are_renamed_by_a_mapping(raw: Path, tmp_path: Path) -> None:
    link_files({"a.txt": "train/1.txt", "sub/b.txt": "2.txt"}, raw, tmp_path / "out")
    assert (tmp_path / "out" / "train" / "1.txt").read_text() == "a.txt"
    assert (tmp_path / "out" / "2.txt").read_text() == "sub/b.txt"


def test_no_files_give_an_empty_folder(raw: Path, tmp_path: Path) -> None:
    link_files([], raw, tmp_path / "out")
    assert names(tmp_path / "out") == []


def test_the_first_missing_file_of_many_is_named(raw: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"x\.txt is missing"):
        link_files(["a.txt", "x.txt", "y.txt"], raw, tmp_path / "out")


def test_a_tree_is_copied_with_its_empty_folders(raw: Path, tmp_path: Path) -> None:
    link_tree(raw, tmp_path / "out")
    assert names(tmp_path / "out") == names(raw)
    assert (raw / "sub" / "deep" / "c.txt").samefile(tmp_path / "out" / "sub" / "deep" / "c.txt")


def test_a_missing_tree_is_named(raw: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"folder .*nothing is missing in the raw data"):
        link_tree(raw / "nothing", tmp_path / "out")
