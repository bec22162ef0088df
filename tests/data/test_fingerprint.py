"""The fingerprint of prepared data is computed once, during preparation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.data.dataset import Dataset, fingerprint
from pytest_mlebench.data.store import DataStore


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return DataStore(tmp_path).prepare(default_catalogue()["smoke-digits"])


def state(dataset: Dataset) -> dict[str, object]:
    values: dict[str, object] = json.loads((dataset.folder / "state.json").read_text())
    return values


def test_it_is_computed_when_data_is_prepared(dataset: Dataset) -> None:
    assert state(dataset)["fingerprint"] == fingerprint(dataset)
    kept = {"public_names_and_sizes": "1", "answers": "2"}
    dataset.note(fingerprint=kept)
    assert fingerprint(dataset) == kept  # it is read, not recomputed


def test_it_is_computed_later_for_data_from_another_program(dataset: Dataset) -> None:
    made = fingerprint(dataset)
    (dataset.folder / "state.json").unlink()
    assert fingerprint(dataset) == made
    assert state(dataset) == {"fingerprint": made}


def test_other_answers_have_another_fingerprint(dataset: Dataset, tmp_path: Path) -> None:
    other = DataStore(tmp_path / "other").prepare(default_catalogue()["smoke-diabetes"])
    assert fingerprint(other)["answers"] != fingerprint(dataset)["answers"]
