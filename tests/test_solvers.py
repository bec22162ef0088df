"""Solvers, as ``tools.twins`` runs them, beat the simple prediction, but not if the labels are permuted."""

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
from pytest_mlebench.grading.twins import make_twin
from tools.shortcuts import permuted, spread
from tools.solvers import SOLVERS
from tools.twins import main, run_solver

QUICK = "spaceship-titanic"


def test_each_solver_belongs_to_a_competition_with_a_twin() -> None:
    catalogue = default_catalogue()
    assert len(SOLVERS) >= 12
    assert all(catalogue[id].file("twin.py").is_file() for id in SOLVERS)


def test_a_solver_learns_only_from_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.mark.parametrize(
    ("id", "changed", "unchanged"),
    [
        ("osic-pulmonary-fibrosis-progression", "train.csv", "test.csv"),  # the test has early values of the targets
        ("facebook-recruiting-iii-keyword-extraction", "train.csv", "test.csv"),
        ("statoil-iceberg-classifier-challenge", "train.json.7z", "description.md"),  # a table in an archive
        ("cdiscount-image-classification-challenge", "train.bson", "test.bson"),
        ("plant-seedlings-classification", "train/*/*.png", "test/*.png"),  # folders as labels
        ("inaturalist-2019-fgvc6", "train2019.json", "test2019.json"),
        ("mlsp-2013-birds", "essential_data/rec_labels_test_hidden.txt", "essential_data/species_list.txt"),
        ("ml2021spring-hw2", "timit_11/*/train_label_11.npy", "timit_11/*/test_11.npy"),
        ("google-research-identify-contrails-reduce-global-warming", "train/*/human_pixel_masks.npy", "test/*/*.npy"),
    ],
)
def test_training_labels_are_permuted_in_each_form(id: str, changed: str, unchanged: str, tmp_path: Path) -> None:
    competition = default_catalogue()[id]
    dataset = make_twin(competition, tmp_path / "twin", 0, "micro", medals=False).dataset
    assert permuted(dataset, tmp_path / "permuted", np.random.default_rng(0))
    for pattern, differs in ((changed, True), (unchanged, False)):
        paths = sorted(dataset.public.glob(pattern))
        pairs = [(path, tmp_path / "permuted" / path.relative_to(dataset.public)) for path in paths]
        assert pairs and any(own.read_bytes() != other.read_bytes() for own, other in pairs) == differs


def test_pictures_are_permuted_among_folders_that_are_classes(tmp_path: Path) -> None:
    competition = default_catalogue()["alaska2-image-steganalysis"]
    dataset = make_twin(competition, tmp_path / "twin", 0, "micro", medals=False).dataset
    assert permuted(dataset, tmp_path / "permuted", np.random.default_rng(0))
    covers = [
        {path.read_bytes() for path in folder.glob("Cover/*")} for folder in (dataset.public, tmp_path / "permuted")
    ]
    assert len(covers[0] & covers[1]) < len(covers[0]) / 2


def test_a_solver_that_fails_is_named(tmp_path: Path) -> None:
    with pytest.raises(MLEBenchError, match=f"left no submission .* {QUICK}"):
        run_solver(QUICK, tmp_path / "nowhere", tmp_path / "solver")


def test_permuted_files_are_spread_evenly_over_classes() -> None:
    folders = ["cat"] * 60 + ["dog"] * 20
    orders = [spread(folders, np.random.default_rng(seed)) for seed in range(20)]
    for order in orders:
        assert sorted(order) == list(range(80)) and order != sorted(order)
        assert 14 <= sum(k < 60 for k in order[60:]) <= 16  # three quarters of the dogs' contents are now cats
    assert len({tuple(order) for order in orders}) == 20
