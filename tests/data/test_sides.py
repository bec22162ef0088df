"""Preparing real data records the number of rows on both sides, in total and by class."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pandas as pd
import pytest

from pytest_mlebench.catalog import Competition
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.data.store import DataStore
from pytest_mlebench.data.tables import count_sides

YAML = """\
id: toy-sides
title: Toy
split: own
category: Tabular
metric: accuracy
direction: higher
leaderboard: {teams: 100, gold: 0.9, silver: 0.8, bronze: 0.7, median: 0.6}
"""
PREPARE = """\
import pandas as pd
def prepare(raw, public, private):
    rows = pd.read_csv(raw / "rows.csv", dtype=str)
    test, train = rows[:30], rows[30:]
    train.to_csv(public / "train.csv", index=False)
    test.drop(columns="label").to_csv(public / "test.csv", index=False)
    test.to_csv(private / "test.csv", index=False)
    test[["id"]].assign(label="a").to_csv(public / "sample_submission.csv", index=False)
"""


@pytest.fixture
def competition(tmp_path: Path) -> Competition:
    folder = tmp_path / "toy-sides"
    folder.mkdir()
    files = {"competition.yaml": YAML, "prepare.py": PREPARE, "description.md": "Which?\n", "grade.py": ""}
    for name, text in files.items():
        (folder / name).write_text(text)
    return Competition.load(folder)


def test_the_state_has_rows_and_classes_of_both_sides(competition: Competition, tmp_path: Path) -> None:
    folder = tmp_path / "data" / competition.id
    folder.mkdir(parents=True)
    rows = pd.DataFrame({"id": range(100), "text": [f"text, {k}" for k in range(100)], "label": list("abbb") * 25})
    with zipfile.ZipFile(folder / f"{competition.id}.zip", "w") as archive:
        archive.writestr("rows.csv", rows.to_csv(index=False))
    dataset = DataStore(tmp_path / "data").prepare(competition)
    assert dataset.state["sides"] == {
        "test": {"rows": 30, "classes": {"label": {"a": 8, "b": 22}}},
        "train": {"file": "train.csv", "rows": 70, "classes": {"label": {"a": 17, "b": 53}}},
    }


def test_other_files_and_columns_with_many_values_are_omitted(competition: Competition, tmp_path: Path) -> None:
    dataset = Dataset(competition, tmp_path / "data")
    dataset.public.mkdir(parents=True)
    dataset.private.mkdir()
    (dataset.public / "train").mkdir()
    (dataset.public / "train.csv").write_bytes(b"")
    answers = pd.DataFrame({"id": range(150), "label": range(150)})
    for path in (dataset.answers, dataset.sample_submission):
        answers.to_csv(path, index=False)
    assert count_sides(dataset) == {"test": {"rows": 150, "classes": {}}}
    (dataset.public / "train.csv").write_text(f"id,{'x' * 140_000}\n1,2\n")
    assert count_sides(dataset) == {"test": {"rows": 150, "classes": {}}}, "a column name longer than csv's limit"
