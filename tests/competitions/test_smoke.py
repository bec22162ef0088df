from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest

from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.data.store import DataStore
from pytest_mlebench.grading import grade

IDS = ("smoke-breast-cancer", "smoke-diabetes", "smoke-digits")


@pytest.fixture(scope="module")
def script() -> ModuleType:
    path = Path(__file__).parents[2] / "tools" / "smoke_leaderboards.py"
    spec = importlib.util.spec_from_file_location("smoke_leaderboards", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_smoke_split_needs_no_download(tmp_path: Path) -> None:
    competitions = default_catalogue().split("smoke")
    assert tuple(competition.id for competition in competitions) == IDS
    for competition in competitions:
        dataset = DataStore(tmp_path).prepare(competition)
        assert dataset.is_verified, "the installed data differs from the data of the leaderboard"
        assert grade(dataset.perfect_submission, competition, dataset).gold_medal
        sample = grade(dataset.sample_submission, competition, dataset)
        assert sample.score == competition.sample_submission_score and not sample.above_median


@pytest.mark.parametrize("competition_id", IDS)
def test_ids_are_unique_and_unordered(tmp_path: Path, competition_id: str) -> None:
    dataset = DataStore(tmp_path).prepare(default_catalogue()[competition_id])
    train, test = (pd.read_csv(dataset.public / name) for name in ("train.csv", "test.csv"))
    ids = pd.concat([train["id"], test["id"]])
    assert ids.is_unique and not ids.is_monotonic_increasing
    assert set(test.columns) == set(train.columns) - set(pd.read_csv(dataset.answers).columns) | {"id"}


@pytest.mark.parametrize("competition_id", IDS)
def test_the_leaderboard_includes_all_teams(script: ModuleType, competition_id: str) -> None:
    teams = default_catalogue()[competition_id].leaderboard.teams
    assert teams == len(script.population(competition_id)) >= 100


def test_a_leaderboard_that_is_not_reproduced_is_reported(script: ModuleType) -> None:
    from pytest_mlebench.catalog import Leaderboard

    scores = [k / 200 for k in range(200, 50, -1)]
    board = Leaderboard.from_scores(scores, lower_is_better=False)
    assert script.differences(board, board, scores) == []
    worse = Leaderboard.from_scores([score - 0.1 for score in scores[1:]], lower_is_better=False)
    assert [line.split(":")[0] for line in script.differences(board, worse, scores)] == [
        "teams",
        "gold",
        "silver",
        "bronze",
        "median",
    ]
