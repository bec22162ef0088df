"""The run groups that other tests are given are like those that pytest leaves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.runs.group import read_group
from pytest_mlebench.runs.outcome import Outcome
from pytest_mlebench.runs.record import RunKey
from tests.groups import make_group, record_with


def test_a_group_is_read_back_as_it_was_made(tmp_path: Path) -> None:
    competitions = default_catalogue().split("dev")[:3]
    missing = {RunKey("aide", competitions[0].id, 1)}
    made = make_group(tmp_path / "g", competitions=competitions, seeds=2, missing=missing)
    group = read_group(tmp_path / "g")
    assert sorted(group.records, key=lambda r: r.run_id) == sorted(made, key=lambda r: r.run_id)
    assert len(group.planned) == 6 and group.planned - {r.key for r in made} == missing


def test_the_same_arguments_make_the_same_runs(tmp_path: Path) -> None:
    one, other = (make_group(tmp_path / name, competitions=default_catalogue().split("dev")) for name in "ab")
    assert [replace(record, run_group="") for record in one] == [replace(record, run_group="") for record in other]


@pytest.mark.parametrize("outcome", Outcome)
def test_a_run_can_be_had_with_every_outcome(outcome: str) -> None:
    assert record_with(default_catalogue()["spaceship-titanic"], outcome).outcome == outcome
