"""The generated run groups of other tests are like those that pytest writes."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.errors import UsageError
from pytest_mlebench.io.progress import Event, Note
from pytest_mlebench.records.group import (
    GroupReader,
    RunGroup,
    latest_events,
    log_event,
    mark_running,
    runs_in_progress,
)
from pytest_mlebench.records.manifest import PlannedRun
from pytest_mlebench.records.outcome import Connection, Limits, Outcome, SandboxAccount, Validation
from pytest_mlebench.records.record import (
    EVENTS,
    GRADING_REPORT,
    MANIFEST,
    METADATA,
    RECORD,
    RUN_LOG,
    RUNNING,
    ModelUsage,
    RunKey,
    Usage,
)
from pytest_mlebench.results import find_group, read_group
from pytest_mlebench.results.findings import FINDINGS, Findings, read_findings
from pytest_mlebench.runs.writer import OpenGroup, delete_group, existing_group, make_runs_dir, rename_group
from pytest_mlebench.sandbox.redaction import tail
from tests.groups import make_group, record_with, save_group, with_timeline
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


FOREIGN: dict[str, tuple[tuple[str | int, ...], Any, str]] = {
    "another folder": (("run_id",), "../../outside", "run_id must be the name of its folder, not '../../outside'"),
    "a huge seed": (("seed",), 1 << 70, "seed must be from 0 to 2^63 - 1, not 1180591620717411303424"),
    "a negative seed": (("seed",), -1, "seed must be from 0"),
    "a start in words": (("started_at",), "yesterday", "started_at must be an ISO 8601 time, not 'yesterday'"),
    "no end": (("ended_at",), "", "ended_at must be an ISO 8601 time, not ''"),
    "the last year": (("ended_at",), "9999-12-31T23:59:59+00:00", "ended_at must be an ISO 8601 time"),
    "endless": (("seconds",), math.inf, "seconds must be at most a hundred years, in seconds, not inf"),
    "longer than time": (("seconds",), 1e308, "seconds must be at most"),
    "no duration": (("seconds",), math.nan, "seconds must be at most"),
    "an endless snapshot": (("timeline", 0, "seconds"), math.inf, "timeline.seconds must be"),
    "a priceless snapshot": (("timeline", 0, "cost"), math.inf, "timeline has an impossible number of calls"),
    "a late connection": (("sandbox", "connections", 0, "at"), math.inf, "sandbox.connections.at must be"),
    "a long connection": (("sandbox", "connections", 0, "seconds"), math.nan, "sandbox.connections.seconds must be"),
    "a late validation": (("sandbox", "validations", 0, 0), math.inf, "sandbox.validations must be"),
    "no time limit": (("limits", "time_limit"), math.inf, "limits.time_limit must be a number of seconds, not inf"),
    "no time limit in the sandbox": (("sandbox", "limits", "time_limit"), math.nan, "sandbox.limits.time_limit must"),
    "endless calls": (("llm", "calls"), math.inf, "llm has a number that is too large"),
    "too many calls": (("llm", "calls"), 1e300, "llm has an impossible number of calls"),
    "a price of nothing": (("llm", "cost"), math.nan, "llm has an impossible number of calls"),
    "negative calls": (("llm", "models", "m", "calls"), -1, "llm.models must be"),
    "a twin's seed in words": (("twin", "run_seed"), "x", "twin.run_seed must be from 0 to 2^63 - 1, not 'x'"),
}


@pytest.mark.parametrize("sign", [1, -1])
def test_a_seed_of_thousands_of_digits_is_a_short_error(sign: int) -> None:
    with pytest.raises(ValueError, match=r"^seed must be from 0 to 2\^63 - 1, not a number of thousands of digits$"):
        PlannedRun("a", "b", sign * 10**5000)


@pytest.mark.parametrize("what", FOREIGN)
def test_an_impossible_record_is_listed_as_broken(tmp_path: Path, what: str) -> None:
    where, value, reason = FOREIGN[what]
    with pytest.raises(UsageError, match=re.escape(reason)):
        read_group(foreign(tmp_path / "group", (where, value)))


def foreign(group: Path, *changes: tuple[tuple[str | int, ...], Any]) -> Path:
    """A run group whose record has been changed by others."""
    spaceship = default_catalogue()["spaceship-titanic"]
    account = SandboxAccount(
        limits={"time_limit": 60.0},
        connections=(Connection(host="h"),),
        validations=(Validation(at=1.0, verdict="ok"),),
    )
    record = replace(record_with(spaceship, "bronze"), sandbox=account, twin={"key": "k", "run_seed": 1})
    record = replace(record, llm={"calls": 1, "cost": 0.5, "models": {"m": {"calls": 1}}})
    save_group(group, [with_timeline(record, spaceship, (0.5, 0.1))])
    path = group / record.run_id / "run.json"
    values = json.loads(path.read_text())
    for where, value in changes:
        place = values
        for key in where[:-1]:
            place = place[key]
        place[where[-1]] = value
    path.write_text(json.dumps(values))
    (group / "grading_report.json").unlink()
    return group


def test_texts_of_a_record_can_be_encoded(tmp_path: Path) -> None:
    group = foreign(
        tmp_path / "group",
        *((where, "\ud800x") for where in (("agent",), ("split",), ("error",), ("sandbox", "connections", 0, "host"))),
        (("llm", "models"), {"\ud800": {"calls": 1, "provider": "\udfff"}}),
        (("versions",), {"\ud800": "1"}),
    )
    (record,) = read_group(group).records
    assert (record.agent, record.split, record.error) == ("?x", "?x", "?x")
    assert record.sandbox.connections[0].host == "?x" and record.versions == {"?": "1"}
    assert record.usage.models == {"?": ModelUsage(provider="?", calls=1)}


def test_a_record_is_read_again_if_it_changed_and_forgotten_if_it_was_removed(tmp_path: Path) -> None:
    (first, second) = make_group(tmp_path / "g", competitions=default_catalogue().split("dev")[:1], seeds=2)
    reader = GroupReader(tmp_path / "g")
    assert {record.run_id for record in reader.records()} == {first.run_id, second.run_id}
    assert reader.record(first.run_id) is reader.record(first.run_id)
    replace(first, detail="changed").write(tmp_path / "g" / first.run_id)
    assert reader.record(first.run_id).detail == "changed"
    shutil.rmtree(tmp_path / "g" / second.run_id)
    assert [record.detail for record in reader.records()] == ["changed"]
    reader.add(second)
    assert second in reader.records(), "this process created it"


def test_a_grading_report_names_no_other_folder(tmp_path: Path) -> None:
    group = tmp_path / "group"
    (record,) = make_group(group, competitions=default_catalogue().split("dev")[:1], seeds=1)
    shutil.rmtree(group / record.run_id)
    (group / "manifest.json").unlink()
    path = group / "grading_report.json"
    values = json.loads(path.read_text())
    values["competition_reports"][0]["competition_id"] = "../../outside"
    path.write_text(json.dumps(values))
    assert [found.run_id for found in read_group(group).records] == ["..%2F..%2Foutside_0"]
    values["competition_reports"][0]["created_at"] = "yesterday"
    path.write_text(json.dumps(values))
    with pytest.raises(UsageError, match="created_at must be an ISO 8601 time, not 'yesterday'"):
        read_group(group)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"settings": {"competitions": {"c": {"split": 5}}}}, "the split of c must be text"),
        ({"settings": {"competitions": {"c": {"category": "\ud800"}}}}, "the category of c must be text"),
        ({"settings": {"bench_version": 2}}, "settings.bench_version must be text"),
        ({"runs": [{"agent": "a", "competition_id": "c", "seed": 1 << 70}]}, "seed must be from 0"),
    ],
)
def test_an_impossible_manifest_cannot_be_read(tmp_path: Path, changed: dict[str, Any], reason: str) -> None:
    (tmp_path / "manifest.json").write_text(json.dumps(changed))
    with pytest.raises(UsageError, match=rf"manifest.json cannot be read: .*{reason}"):
        read_group(tmp_path)


@pytest.mark.parametrize(
    "changed",
    [{"time_limit": math.inf}, {"started": -math.inf}, {"started": 1e300}, {"seed": 1 << 70}],
)
def test_an_impossible_run_in_progress_is_not_listed(tmp_path: Path, changed: dict[str, Any]) -> None:
    path = tmp_path / "run/running.json"
    path.parent.mkdir()
    with mark_running(path.parent, RunKey("a", "c", 0), worker="", time_limit=60.0):
        assert len(runs_in_progress(tmp_path)) == 1
        values = json.loads(path.read_text())
        path.write_text(json.dumps({**values, **changed}))
        assert runs_in_progress(tmp_path) == []
        path.write_text(json.dumps({**values, "owner": {**values["owner"], "mlebench.pid": "9" * 5000}}))
        assert len(runs_in_progress(tmp_path)) == 1


def test_links_and_pipes_in_a_group_are_not_read(tmp_path: Path) -> None:
    group, other = tmp_path / "group", tmp_path / "other"
    made = make_group(other, competitions=default_catalogue().split("dev")[:4], seeds=1)
    kept, as_link, as_pipe, in_linked_folder = (record.run_id for record in made)
    log_event(other, Note("a secret"))
    Findings(runs=()).write(other)
    (other / "secret.log").write_text("a secret")
    with mark_running(other / in_linked_folder, RunKey("a", "c", 0), worker="", time_limit=60.0):
        (other / in_linked_folder / RECORD).unlink()
        for id in (kept, as_link, as_pipe):
            (group / id).mkdir(parents=True)
        (group / in_linked_folder).symlink_to(other / in_linked_folder)
        (group / kept / RUNNING).symlink_to(other / in_linked_folder / RUNNING)
        assert len(runs_in_progress(other)) == 1 and runs_in_progress(group) == []
    made[-1].write(other / in_linked_folder)
    shutil.copy(other / kept / RECORD, group / kept)
    (group / as_link / RECORD).symlink_to(other / as_link / RECORD)
    os.mkfifo(group / as_pipe / RECORD)
    found = read_group(group)
    assert [record.run_id for record in found.records] == [kept]
    assert sorted(found.broken) == sorted(
        [
            f"{group / as_link / RECORD} is not a run record: it is a link, which is not followed here: copy the file",
            f"{group / as_pipe / RECORD} is not a run record: it is not a regular file",
            f"{group / in_linked_folder} is a link, which is not followed here: move the folder back",
        ]
    )
    for name in (EVENTS, MANIFEST, FINDINGS):
        (group / name).symlink_to(other / name)
    (group / kept / RUN_LOG).symlink_to(other / "secret.log")
    assert latest_events(other, 1) and latest_events(group, 1) == []
    assert tail(other / "secret.log") == "a secret" and tail(group / kept / RUN_LOG) == ""
    with pytest.raises(UsageError, match=r"manifest\.json cannot be read: it is a link"):
        read_group(group)
    with pytest.raises(ValueError, match="it is a link"):
        read_findings(group)
    graded = tmp_path / "graded"
    graded.mkdir()
    (graded / GRADING_REPORT).symlink_to(other / GRADING_REPORT)
    with pytest.raises(UsageError, match="is not a grading report: it is a link"):
        read_group(graded)


def test_a_run_without_any_response_reports_the_reason() -> None:
    refused = {"calls": 0, "refusals": {"no key": 1, "too many requests": 3}}
    assert Usage.of(refused).unanswered == "no model call was answered (4 failed): too many requests"
    for answered in ({}, {**refused, "calls": 1}, {**refused, "budget_ended": "--max-cost=1"}, {"calls": 0}):
        assert Usage.of(answered).unanswered == ""


def test_a_group_is_found_by_folder_name_partial_name_and_as_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    monkeypatch.chdir(tmp_path)
    Path("packed.tar.zst").touch()
    for name in ("packed.tar.zst", "./packed.tar.zst"):
        with pytest.raises(UsageError, match=r"packed.tar.zst is a file \(`mlebench unbundle` unpacks"):
            find_group(name, tmp_path)


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


@pytest.mark.parametrize("name", [".home-1", "logs"], ids=["killed", "collected by an earlier version"])
def test_a_group_is_deleted_with_the_folders_of_an_agent(tmp_path: Path, name: str) -> None:
    dig(tmp_path / "group/run" / name, 1100, "d")
    delete_group(tmp_path / "group")
    assert not list(tmp_path.iterdir())


def test_a_group_is_released_even_if_its_reports_cannot_be_written(tmp_path: Path) -> None:
    def fail(group: RunGroup) -> str:
        raise RuntimeError("no page")

    def opened(page: Callable[[RunGroup], str]) -> OpenGroup:
        return OpenGroup(
            tmp_path / "group",
            agents=[],
            sandboxes={},
            limits=Limits(),
            workers=1,
            settings={},
            options={},
            competition_file=lambda nodeid: competition.folder / "competition.yaml",
            page=page,
            allow_changes=True,
            reporter=notes.append,
        )

    notes: list[Event] = []
    (competition,) = default_catalogue().split("dev")[:1]
    make_group(tmp_path / "group", competitions=[competition], seeds=1)
    failing = opened(fail)
    with pytest.raises(RuntimeError, match="no page"):
        failing.close()
    group = opened(str)
    (tmp_path / "group" / METADATA).unlink()
    (tmp_path / "group" / METADATA / "x").mkdir(parents=True)
    assert group.close() is None
    assert "reports cannot be written" in str(notes)
    delete_group(tmp_path / "group")


def test_a_folder_with_a_manifest_of_another_program_is_not_a_group(tmp_path: Path) -> None:
    (tmp_path / "webapp").mkdir()
    (tmp_path / "webapp/manifest.json").write_text('{"name": "My app", "icons": []}')
    with pytest.raises(UsageError, match="there is no run group 'webapp'"):
        existing_group("webapp", tmp_path)


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
