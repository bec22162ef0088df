"""Competitions from several folders, and their splits."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from pytest_mlebench.catalog import Catalogue, Competition, default_catalogue, schema
from pytest_mlebench.errors import UsageError

YAML = """\
id: {id}
title: Mine
split: {split}
category: Tabular
metric: accuracy
direction: higher
leaderboard: {{teams: 1000, gold: 0.9, silver: 0.8, bronze: 0.7, median: 0.6}}
"""


def make(folder: Path, split: str = "house") -> Path:
    folder.mkdir(parents=True)
    (folder / "description.md").write_text("# Mine\n")
    (folder / "competition.yaml").write_text(YAML.format(id=folder.name, split=split))
    return folder


@pytest.fixture
def own(tmp_path: Path) -> Path:
    make(tmp_path / "own/house-prices")
    make(tmp_path / "own/cat-faces", split="dev")
    (tmp_path / "own/other-tool").mkdir()
    (tmp_path / "own/other-tool/competition.yaml").write_text("name: not ours\n")
    return tmp_path / "own"


def test_competitions_in_other_folders_are_added_to_the_bundled_ones(own: Path) -> None:
    catalogue = default_catalogue(own)
    assert catalogue["house-prices"].folder == own / "house-prices" and "spaceship-titanic" in catalogue
    assert len(catalogue) == len(default_catalogue()) + 2 and "house-prices" not in default_catalogue()


def test_a_folder_can_be_a_single_competition(own: Path) -> None:
    assert Catalogue(own / "cat-faces").ids == ("cat-faces",)


def test_a_custom_split_is_found_by_name(own: Path) -> None:
    catalogue = default_catalogue(own)
    assert [competition.id for competition in catalogue.split("house")] == ["house-prices"]
    assert "house" in catalogue.split_names and "lite" in catalogue.split_names
    with pytest.raises(UsageError, match="unknown split 'hous'; did you mean house"):
        catalogue.split("hous")
    with pytest.raises(UsageError) as none:
        catalogue.split("nope")
    assert str(none.value).startswith(
        "unknown split 'nope'; choose from all, dev, high, house, "
    ) and "core" not in str(none.value)
    assert "A file with one competition id per line is also a split." in str(none.value)


def test_a_bundled_split_includes_custom_competitions_that_name_it(own: Path) -> None:
    assert "cat-faces" in [competition.id for competition in default_catalogue(own).split("dev")]
    assert len(default_catalogue(own).split("all")) == 75


@pytest.mark.parametrize("name", ["b" * 5000, "a/" + "b" * 5000])
def test_an_unknown_name_may_be_longer_than_names_of_files(name: str, own: Path) -> None:
    with pytest.raises(UsageError, match="unknown competition '"):
        _ = Catalogue(own)[name]


def test_the_error_for_an_unregistered_local_folder_names_the_option(
    own: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(own / "house-prices", "competitions/house-prices")
    with pytest.raises(UsageError, match=r"to use competitions/house-prices, add --competitions-dir=competitions$"):
        default_catalogue()["house-prices"]
    with pytest.raises(UsageError, match=r"use its name, house-prices, and add --competitions-dir=competitions$"):
        default_catalogue()["competitions/house-prices"]
    with pytest.raises(UsageError, match="choose from 3d-object"):
        default_catalogue()["../competitions/house-prices"]


def test_close_matches_for_an_unknown_id_come_from_all_folders(own: Path) -> None:
    with pytest.raises(UsageError, match="unknown competition 'house-price'; did you mean house-prices"):
        default_catalogue(own)["house-price"]


def test_the_same_id_in_two_folders_is_rejected(own: Path, tmp_path: Path) -> None:
    again = make(tmp_path / "again/house-prices")
    with pytest.raises(UsageError, match=f"'house-prices' is in two folders: {own}/house-prices and {again}"):
        Catalogue(own, tmp_path / "again")
    assert Catalogue(own, own / "house-prices").ids == ("cat-faces", "house-prices")


def test_a_folder_without_competitions_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no competition"):
        Catalogue(tmp_path)
    with pytest.raises(UsageError, match="is not a folder"):
        Catalogue(tmp_path / "nowhere")


def test_a_split_file_has_one_id_per_line(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("# two\nsmoke-digits\n\n spaceship-titanic \nsmoke-digits\n")
    found = default_catalogue().split(str(tmp_path / "mine.txt"))
    assert [competition.id for competition in found] == ["smoke-digits", "spaceship-titanic"]


def test_an_unknown_id_in_a_split_file_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("# two\nsmoke-digits\nsmoke-digit\n")
    with pytest.raises(UsageError, match=r"mine.txt, line 3: unknown competition 'smoke-digit'; did you mean smoke-d"):
        default_catalogue().split(str(tmp_path / "mine.txt"))


def test_a_file_is_read_once_for_both_versions_until_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(
        shutil.copytree(default_catalogue()["random-acts-of-pizza"].folder, tmp_path / "random-acts-of-pizza")
    )
    read: list[Path] = []
    original = schema.read_yaml

    def read_yaml(path: Path) -> Any:
        read.append(path)
        return original(path)

    monkeypatch.setattr(schema, "read_yaml", read_yaml)
    for version in ("v1", "v2"):
        Competition.load(folder, version=version)
    file = folder / "competition.yaml"
    assert read == [file, folder / "v2/competition.yaml"]
    file.write_text(re.sub("^title: .*", "title: Another one", file.read_text(), flags=re.MULTILINE))
    assert Competition.load(folder).title == "Another one"
