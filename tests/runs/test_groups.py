"""The generated run groups of other tests are like those that pytest writes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.errors import UsageError
from pytest_mlebench.records.group import find_group, mark_running, read_group
from pytest_mlebench.records.outcome import Outcome
from pytest_mlebench.records.record import ModelUsage, RunKey, Usage
from pytest_mlebench.runs.writer import delete_group, make_runs_dir, rename_group
from tests.groups import make_group, record_with
from tests.left import dig


def test_a_group_is_read_back_unchanged(tmp_path: Path) -> None:
    competitions = default_catalogue().split("dev")[:3]
    missing = {RunKey("aide", competitions[0].id, 1)}
    made = make_group(tmp_path / "g", competitions=competitions, seeds=2, missing=missing)
    group = read_group(tmp_path / "g")
    assert sorted(group.records, key=lambda r: r.run_id) == sorted(made, key=lambda r: r.run_id)
    assert len(group.planned) == 6 and group.planned - {r.key for r in made} == missing


def test_the_same_arguments_give_the_same_runs(tmp_path: Path) -> None:
    one, other = (make_group(tmp_path / name, competitions=default_catalogue().split("dev")) for name in "ab")
    assert [replace(record, run_group="") for record in one] == [replace(record, run_group="") for record in other]


@pytest.mark.parametrize("outcome", Outcome)
def test_a_run_can_be_created_with_every_outcome(outcome: str) -> None:
    assert record_with(default_catalogue()["spaceship-titanic"], outcome).outcome == outcome


def test_model_usage_in_a_record_is_parsed() -> None:
    spaceship = default_catalogue()["spaceship-titanic"]
    llm = {
        "gateway": "on",
        "calls": 2,
        "cost": 0.5,
        "tokens": {"input": 7, "odd": "many"},
        "models": {"m": {"provider": "openai", "calls": 2, "cost": 0.5, "input_tokens": "7"}},
        "errors": ["500"],
        "refusals": {"no key": 1},
        "budget_ended": "--max-calls=2",
    }
    record = replace(record_with(spaceship, Outcome.bronze), llm=llm)
    usage = record.usage
    assert (usage.gateway, usage.calls, usage.cost, usage.budget_ended) == ("on", 2, 0.5, "--max-calls=2")
    assert (usage.tokens, usage.errors, usage.refusals) == ({"input": 7}, {}, {"no key": 1})  # odd values are left out
    assert usage.models == {"m": ModelUsage(provider="openai", calls=2, cost=0.5)}
    assert (record.cost, record.models_called, record.to_json()["llm"]) == (0.5, {"m": 2}, llm)
    assert replace(record, llm={**llm, "calls": 0}).cost is None  # it made no calls
    assert replace(record, llm={"cost": 0.5}).cost == 0.5  # imported: its calls were not counted
    for wrong in ({"calls": "2"}, {"cost": "much"}, {"models": ["m"]}, {"models": {"m": {"calls": "2"}}}):
        with pytest.raises(ValueError, match=r"llm\.\w+ must be"):
            replace(record, llm=wrong)


def test_a_run_without_any_response_reports_the_reason() -> None:
    refused = {"calls": 0, "refusals": {"no key": 1, "too many requests": 3}}
    assert Usage.of(refused).unanswered == "no model call was answered (4 failed): too many requests"
    for answered in ({}, {**refused, "calls": 1}, {**refused, "budget_ended": "--max-cost=1"}, {"calls": 0}):
        assert Usage.of(answered).unanswered == ""


def test_a_group_is_found_by_folder_name_partial_name_and_as_the_last(tmp_path: Path) -> None:
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
    with pytest.raises(UsageError, match=r"is ambiguous: 2026-01-01-cc, .*2026-01-02-aa \(below .*\); name one"):
        find_group("2026", tmp_path)
    with pytest.raises(UsageError, match=r"unknown run group .*'dd'"):
        find_group("dd", tmp_path)
    with pytest.raises(UsageError, match=r"unknown run group .*'last'; there are none"):
        find_group("last", tmp_path / "nowhere")
    with pytest.raises(UsageError, match=r"is a folder of run groups: name one of them, as in .*2026-01-02-aa"):
        find_group(str(tmp_path), tmp_path)


@pytest.mark.parametrize("change", [lambda group: rename_group(group, "new"), delete_group], ids=["rename", "delete"])
def test_a_group_with_runs_in_progress_is_neither_renamed_nor_deleted(
    tmp_path: Path, change: Callable[[Path], object]
) -> None:
    group = tmp_path / "old"
    (record, *_) = make_group(group, competitions=default_catalogue().split("dev")[:1], seeds=1)
    (group / "running").mkdir()
    with (
        mark_running(group / "running", record.key, worker="slurm 7", time_limit=60.0),
        pytest.raises(UsageError, match=r"has 1 run in progress, such as running; wait for the end, or end .*/old`"),
    ):
        change(group)
    assert (group / record.run_id / "run.json").exists()
    with suppress(KeyboardInterrupt), mark_running(group / "running", record.key, worker="", time_limit=60.0):
        raise KeyboardInterrupt
    os.utime(group / "running/running.json", (0, 0))
    change(group)
    assert not group.exists()


def test_a_group_is_deleted_with_the_folder_of_an_agent_that_was_killed(tmp_path: Path) -> None:
    dig(tmp_path / "group/run/.home-1", 1100, "d")
    delete_group(tmp_path / "group")
    assert not list(tmp_path.iterdir())


def test_git_ignores_groups_only_in_a_folder_created_for_them(tmp_path: Path) -> None:
    made = tmp_path / "project/reports"
    make_runs_dir(made)
    make_runs_dir(tmp_path)
    assert "\n*\n" in (made / ".gitignore").read_text() and [path.name for path in tmp_path.iterdir()] == ["project"]
    (made / "first").mkdir()
    subprocess.run(["git", "init", "-q", str(made.parent)], check=True)
    (made / "first/run.json").touch()
    status = subprocess.run(["git", "-C", str(made), "status", "--short"], check=True, capture_output=True, text=True)
    assert status.stdout == ""
