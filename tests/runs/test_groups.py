"""The run groups that other tests are given are like those that pytest leaves."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.errors import UsageError
from pytest_mlebench.records.group import find_group, read_group
from pytest_mlebench.records.outcome import Outcome
from pytest_mlebench.records.record import RunKey
from pytest_mlebench.runs.writer import make_runs_dir
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


def test_a_group_is_found_by_its_folder_its_name_a_part_of_it_and_as_the_last(tmp_path: Path) -> None:
    for age, name in enumerate(["2026-01-02-aa", "2026-01-03-bb", "2026-01-04-stopped", "2026-01-01-cc"]):
        (tmp_path / name / "a run").mkdir(parents=True)
        if "stopped" not in name:
            (tmp_path / name / "a run/run.log").touch()
        (tmp_path / name / "manifest.json").touch()
        os.utime(tmp_path / name / "manifest.json", (2000 - age, 2000 - age))
    (tmp_path / "notes-bb").mkdir()
    for name in (str(tmp_path / "2026-01-03-bb"), "2026-01-03-bb", "03-bb"):
        assert find_group(name, tmp_path) == tmp_path / "2026-01-03-bb"
    assert find_group("last", tmp_path) == tmp_path / "2026-01-02-aa"
    with pytest.raises(UsageError, match=r"may be 2026-01-01-cc, .*2026-01-02-aa \(below .*\): name one"):
        find_group("2026", tmp_path)
    with pytest.raises(UsageError, match=r"unknown run group .*'dd'"):
        find_group("dd", tmp_path)
    with pytest.raises(UsageError, match=r"unknown run group .*'last'; there is none"):
        find_group("last", tmp_path / "nowhere")
    with pytest.raises(UsageError, match=r"is a folder of run groups: name one of them, as in .*2026-01-02-aa"):
        find_group(str(tmp_path), tmp_path)


def test_git_ignores_the_groups_in_a_folder_that_was_made_for_them_and_in_no_other(tmp_path: Path) -> None:
    made = tmp_path / "project/reports"
    make_runs_dir(made)
    make_runs_dir(tmp_path)
    assert "\n*\n" in (made / ".gitignore").read_text() and [path.name for path in tmp_path.iterdir()] == ["project"]
    (made / "first").mkdir()
    subprocess.run(["git", "init", "-q", str(made.parent)], check=True)
    (made / "first/run.json").touch()
    status = subprocess.run(["git", "-C", str(made), "status", "--short"], check=True, capture_output=True, text=True)
    assert status.stdout == ""
