"""Cells that ``prepare.py`` changes unintentionally are found; computed values are not reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_mlebench.authoring.tables import read_csv, read_text_csv, write_csv
from pytest_mlebench.catalog import Competition
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.data.store import DataStore
from pytest_mlebench.data.tables import changed_cells
from pytest_mlebench.io.progress import Event, WarningNote

YAML = """\
id: own
title: Own
split: own
category: Tabular
metric: accuracy
direction: higher
source: bundled
leaderboard: {teams: 100, gold: 0.9, silver: 0.8, bronze: 0.7, median: 0.6}
"""
PREPARE = """\
from pytest_mlebench.authoring.tables import read_csv, write_csv
def prepare(raw, public, private):
    table = read_csv(raw / "raw.csv")
    for path in (public / "sample_submission.csv", public / "train.csv", private / "test.csv"):
        write_csv(table, path)
"""


@pytest.fixture
def competition(tmp_path: Path) -> Competition:
    folder = tmp_path / "own"
    folder.mkdir()
    for name, text in (("competition.yaml", YAML), ("description.md", "Guess."), ("prepare.py", PREPARE)):
        (folder / name).write_text(text)
    return Competition.load(folder)


def problems(competition: Competition, tmp_path: Path, raw: bytes, prepared: str | None = None) -> list[str]:
    """Problems reported for a public table, by default the raw table as pandas reads and writes it."""
    file, dataset = tmp_path / "raw/raw.csv", Dataset(competition, tmp_path / "data")
    file.parent.mkdir()
    file.write_bytes(raw)
    if prepared is None:
        write_csv(read_csv(file), dataset.public / "train.csv")
    else:
        dataset.public.mkdir(parents=True)
        (dataset.public / "train.csv").write_text(prepared)
    return changed_cells(competition, file.parent, dataset)


@pytest.mark.parametrize(
    ("raw", "prepared", "message"),
    [
        ("x\n000123\n000124\n", None, "'000123' in the raw data became '123': leading zeros are lost (2 cells)"),
        ("x,y\n000123,a\n,b\n7,c\n", None, "'000123' in the raw data became '123.0': leading zeros are lost (1 cell)"),
        ("x,y\nNA,1\nnorth,2\n", None, "'NA' in the raw data became empty (1 cell)"),
        ("x,y\n1234567890123456789,a\n,b\n5,c\n", None, "became '1.2345678901234568e+18': numbers are less precise"),
        ("x\n0.123456\n0.2345\n", "x\n0.12\n0.23\n", "'0.123456' in the raw data became '0.12': numbers are less"),
        ("x\n2020-01-31\n", "x\n2020-01-31 00:00:00\n", "dates have a different format (1 cell)"),
        ("x\n05/01/2020\n", "x\n2020-05-01\n", "'05/01/2020' in the raw data became '2020-05-01': dates have"),
        ("x\ncafé\n", "x\ncafÃ©\n", "'café' in the raw data became 'cafÃ©': the text was read in the wrong encoding"),
        ("x\ncafé\n", "x\ncaf\ufffd\n", "letters are lost (1 cell)"),
        ("x\n Yes\ntrue\n", "x\nYes\nTrue\n", "spaces or capitals differ (2 cells)"),
    ],
)
def test_a_changed_cell_is_shown_before_and_after(
    competition: Competition, tmp_path: Path, raw: str, prepared: str | None, message: str
) -> None:
    (problem,) = problems(competition, tmp_path, raw.encode(), prepared)
    assert problem.startswith("public/train.csv, column 'x': ") and message in problem


@pytest.mark.parametrize(
    ("raw", "prepared"),
    [
        (b"x\n1.50\n2e3\n0.10000000000000000555\n", None),  # the same numbers
        (b"x,y\n1,a\n,b\n3,c\n", None),  # a missing number, because of which pandas writes 1.0
        (b"x\nNA\n1.5\nNaN\n", None),  # numbers, some of them missing
        (b"x\n10\n20\n30\n", "x\n0.35\n0.71\n"),  # computed
        (b"x\ncaf\xe9\n", "x\ncaf\xc3\xa9\n"),  # Latin-1, read as Latin-1
        (b"y\n007\n", "x\n7\n"),
        (b"x\n1\n2\n", "x\n0e462097\n5ab3e01f\n"),  # hexadecimal ids; the first can be read as a number
    ],
)
def test_equal_numbers_and_computed_values_are_not_reported(
    competition: Competition, tmp_path: Path, raw: bytes, prepared: str | None
) -> None:
    if prepared is not None:
        prepared = prepared.encode("latin-1").decode("utf-8")
    assert problems(competition, tmp_path, raw, prepared) == []


def test_read_text_csv_preserves_cells_that_read_csv_changes(competition: Competition, tmp_path: Path) -> None:
    raw = tmp_path / "raw.csv"
    raw.write_text("id,size,price\n007,NA,12.50\n008,,\n")
    write_csv(read_text_csv(raw), tmp_path / "text.csv")
    assert (tmp_path / "text.csv").read_text() == raw.read_text()
    with pytest.raises(ValueError, match="NA"):
        read_text_csv(raw, numbers=["size"])


def test_preparing_real_data_warns_about_changed_cells(competition: Competition, tmp_path: Path) -> None:
    raw, events = tmp_path / "raw", list[Event]()
    raw.mkdir()
    (raw / "raw.csv").write_text("x\n007\n")
    DataStore(tmp_path / "store").prepare(competition, raw_dir=raw, reporter=events.append)
    (warning,) = [event.text for event in events if isinstance(event, WarningNote)]
    assert warning == (
        "own: prepare.py changed cells: private/test.csv and public/train.csv, column 'x': '007' in the raw data "
        "became '7': leading zeros are lost (2 cells)"
    )
