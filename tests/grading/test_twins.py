"""Twins in the data store: their files, rejected worlds and medal thresholds."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pytest_mlebench.catalog import Competition, default_catalogue
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.data.preparing import parse_choice, prepare_here, resolve_choice, twins_of
from pytest_mlebench.errors import CompetitionError, DataError
from pytest_mlebench.grading.grader import Grader
from pytest_mlebench.grading.twins import NoMedals, TwinStore, twin_medals
from tests.plugin.conftest import TOYS


@pytest.fixture
def toy(tmp_path: Path) -> Dataset:
    """20 test rows, for which guessing is right half of the time."""
    competition = Competition.load(TOYS / "competitions/toy-parity")
    dataset = Dataset(competition, tmp_path)
    prepare_here(competition, "", str(tmp_path), "")
    return dataset


def right(count: int) -> pd.DataFrame:
    """Predictions with ``count`` right values."""
    ids = np.arange(80, 100)
    return pd.DataFrame({"odd": (ids + (np.arange(20) >= count)) % 2}, pd.Index(ids, name="id"))


@pytest.mark.parametrize(
    ("simple", "ceiling", "why"),
    [
        (10, 10, "the ceiling scores 0.50000"),
        (14, 15, "is too little for a standard error"),
        (11, 20, "guessing scores"),
    ],
)
def test_a_world_without_signal_or_that_rewards_luck_is_rejected(
    toy: Dataset, simple: int, ceiling: int, why: str
) -> None:
    with pytest.raises(NoMedals, match=why):
        twin_medals(toy, {"simple": right(simple), "ceiling": right(ceiling)}, np.random.default_rng(0))


def test_predictions_of_a_wrong_column_are_reported(toy: Dataset) -> None:
    odds = right(20).rename(columns={"odd": "odds"})
    with pytest.raises(CompetitionError, match=r"the predictions have the columns \['odds'\]; .* has \['odd'\]"):
        twin_medals(toy, {"simple": odds, "ceiling": odds}, np.random.default_rng(0))


def test_the_twins_own_floor_prediction_sets_the_floor(toy: Dataset) -> None:
    predictions = {"floor": right(13), "simple": right(17), "ceiling": right(20)}
    medals = twin_medals(toy, predictions, np.random.default_rng(0), indicative=True)
    assert medals.floor == "its own" and medals.skill(0.65) == 0.0
    assert medals.leaderboard.median > 0.65


def test_medals_of_few_rows_can_be_requested_as_indicative(toy: Dataset) -> None:
    predictions = {"simple": right(11), "ceiling": right(20)}
    board = twin_medals(toy, predictions, np.random.default_rng(0), indicative=True).leaderboard
    assert board.median <= board.bronze < board.silver < board.gold < 1


def test_a_twin_has_its_own_thresholds_and_its_seed_stays_with_the_harness(tmp_path: Path) -> None:
    real = default_catalogue()["spaceship-titanic"]
    choice = resolve_choice("twin:random:micro", tmp_path)
    assert resolve_choice("twin:random:micro", tmp_path, known=choice) == resolve_choice(choice, tmp_path) == choice
    assert resolve_choice("twin:random:micro", tmp_path) != choice
    store = TwinStore(tmp_path, twins_of(choice))
    dataset = store.prepare(real)
    assert dataset.is_level and not dataset.has_raw and dataset.is_verified is False
    record = json.loads(dataset.twin_record.read_text())
    assert dataset.twin_record.stat().st_mode & 0o77 == 0
    assert record["attempts"] == 1 + len(record["refused"]) and record["medals"]["curve"]
    seed = str(record["seed"])
    shown = [path for path in tmp_path.rglob("*") if path.is_file() and path not in (dataset.twin_record,)]
    assert not [path for path in shown if seed.encode() in path.read_bytes() and path.suffix != ".seed"]
    assert not [path for path in tmp_path.rglob("*") if seed in str(path)]

    board = dataset.competition.leaderboard
    assert board != real.leaderboard and not dataset.competition.checksums
    report = Grader(real, dataset).report(dataset.answers)
    assert (report.generated, report.medal, report.firm) == ("twin", "gold", True)
    assert report.gold_threshold == board.gold
    again = store.prepare(real)
    assert again.competition.leaderboard == board


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("twins", "is not one of real, twin, twin:SEED, twin:SEED:SIZE"),
        ("twin:-1", "neither an integer from 0 to"),
        ("twin:18446744073709551616", "neither an integer from 0 to"),
        ("twin:1:huge", "size 'huge' is not one of small, medium, micro"),
        ("real:1", "is not one of real"),
    ],
)
def test_an_invalid_choice_of_data_is_rejected(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_choice(text)


def test_a_key_of_another_data_folder_reports_the_missing_seed(tmp_path: Path) -> None:
    choice = resolve_choice("twin:7:small", tmp_path / "one")
    store = TwinStore(tmp_path / "other", twins_of(choice))
    with pytest.raises(DataError, match=r"the seed of the twins k\w+ is not in .*other/twins"):
        store.prepare(default_catalogue()["spaceship-titanic"])


def test_a_competition_without_a_twin_is_reported(tmp_path: Path) -> None:
    store = TwinStore(tmp_path, twins_of(resolve_choice("twin:7:small", tmp_path)))
    with pytest.raises(DataError, match=r"smoke-digits has no twin: .*twin.py is missing; choose --data=real"):
        store.prepare(default_catalogue()["smoke-digits"])
