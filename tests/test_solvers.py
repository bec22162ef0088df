"""Solvers of twins, as ``tools.twins`` runs them: better than the simple prediction, and lost without labels."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.errors import MLEBenchError
from pytest_mlebench.grading.scorer import Scorer
from tools.shortcuts import permuted
from tools.solvers import SOLVERS
from tools.twins import main, run_solver

QUICK = "spaceship-titanic"


def test_each_solver_belongs_to_a_competition_with_a_twin() -> None:
    catalogue = default_catalogue()
    assert len(SOLVERS) >= 12
    assert all(catalogue[id].file("twin.py").is_file() for id in SOLVERS)


def test_a_solver_learns_from_labels_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = tmp_path / "twins.jsonl"
    options = ["--seeds=1", "--size=micro", "--solvers", f"--keep={tmp_path}", f"--jsonl={lines}"]
    monkeypatch.setattr("sys.argv", ["tools.twins", QUICK, *options])
    main()
    row = json.loads(lines.read_text(encoding="utf-8"))
    assert row["skills"]["solver"] > row["skills"]["simple"]
    assert set(row["agent_seconds"]) == {"solver"}

    folder = tmp_path / QUICK / "v1-0"
    dataset = Dataset(default_catalogue()[QUICK], folder)
    assert permuted(dataset, folder / "permuted", np.random.default_rng(0))
    tables = [pd.read_csv(path / "train.csv") for path in (dataset.public, folder / "permuted")]
    assert (tables[0]["PassengerId"] == tables[1]["PassengerId"]).all()
    assert (tables[0]["Transported"] != tables[1]["Transported"]).any()
    assert sorted(tables[0]["Transported"]) == sorted(tables[1]["Transported"])
    path, _ = run_solver(QUICK, folder / "permuted", folder / "control")
    assert float(Scorer(dataset.competition, dataset.answers).score(path)) < row["thresholds"]["median"]


def test_a_solver_that_fails_is_named(tmp_path: Path) -> None:
    with pytest.raises(MLEBenchError, match=f"left no submission .* {QUICK}"):
        run_solver(QUICK, tmp_path / "nowhere", tmp_path / "solver")
