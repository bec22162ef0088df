"""Resuming a run group after any kind of interruption."""

from __future__ import annotations

import json
import os
import random
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_mlebench.records.group import GroupReader
from pytest_mlebench.records.manifest import UNKNOWN, canonical_differences, changes
from pytest_mlebench.records.outcome import Hardware
from pytest_mlebench.results import read_group
from pytest_mlebench.sandbox import Limits
from tests.plugin.workers import in_one_process_and_with_xdist

pytestmark = pytest.mark.full  # dozens of sessions in separate processes

Run = Callable[..., pytest.RunResult]


def group_json(project: pytest.Pytester, name: str) -> Any:
    return json.loads((project.path / "reports/toys" / name).read_text())


def run_ids(project: pytest.Pytester) -> dict[str, list[str]]:
    """The runs of the group ``toys`` in its grading report's metadata, by agent."""
    found: dict[str, list[str]] = {}
    for record in read_group(project.path / "reports/toys").records:
        found.setdefault(record.agent.removeprefix("toy/"), []).append(record.run_id)
    return found


@in_one_process_and_with_xdist
def test_finished_runs_are_shown_unchanged_and_not_rerun(
    project: pytest.Pytester, run_toys: Run, workers: tuple[str, ...]
) -> None:
    run_toys("gold", "crashes", options=("--seeds=2", *workers))
    before = run_ids(project)
    (project.path / "competitions/toy-parity/prepare.py").rename("prepare.py")  # no longer needed
    (project.path / "competitions/toy-parity/prepare.py").write_text((project.path / "prepare.py").read_text())
    result = project.runpytest_subprocess("--resume=toys", "-p", "no:cacheprovider", *workers)
    assert result.ret == 1
    assert "2 gold" in result.outlines[-1] and "2 crashed" in result.outlines[-1]
    result.stdout.fnmatch_lines(["*4 runs of this group are finished*", "*about to crash*"])
    assert run_ids(project) == before
    assert len(group_json(project, "grading_report.json")["competition_reports"]) == 4


def test_a_group_used_again_gets_the_missing_runs(project: pytest.Pytester, run_toys: Run) -> None:
    run_toys("gold")
    before = run_ids(project)["gold"]
    result = run_toys("gold", "silver", options=("--seeds=2",))
    assert "2 gold" in result.outlines[-1] and "2 silver" in result.outlines[-1]
    after = run_ids(project)
    assert after["gold"][0] == before[0] and len(after["gold"]) == len(after["silver"]) == 2
    assert len(read_group(project.path / "reports/toys").planned) == 4


def test_resuming_continues_the_plans_of_all_sessions(project: pytest.Pytester, run_toys: Run) -> None:
    run_toys("gold", options=("--seeds=2",))
    run_toys("silver")
    before = run_ids(project)
    result = project.runpytest_subprocess("--resume=toys", "-p", "no:cacheprovider")
    assert "2 gold, 1 silver" in result.outlines[-1] and run_ids(project) == before
    more = project.runpytest_subprocess("--resume=toys", "--agent=toy/bronze", "--seeds=2", "-p", "no:cacheprovider")
    assert "2 bronze" in more.outlines[-1] and "gold" not in more.outlines[-1]
    assert {agent: len(ids) for agent, ids in run_ids(project).items()} == {"gold": 2, "silver": 1, "bronze": 2}


def test_only_the_named_failures_are_rerun(project: pytest.Pytester, run_toys: Run) -> None:
    run_toys("crashes", "nothing", "gold")
    before = run_ids(project)
    result = project.runpytest_subprocess("--resume=toys", "--retry-failed=crashed,timed out", "-p", "no:cacheprovider")
    result.stdout.fnmatch_lines(["*2 runs of this group are finished*"])
    after = run_ids(project)
    assert after["nothing"] == before["nothing"] and after["gold"] == before["gold"]
    assert after["crashes"] != before["crashes"] and len(after["crashes"]) == 1
    assert len(group_json(project, "metadata.json")["runs"]) == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("agent", "*agents toy/gold kwargs right was 20, is 19*"),
        ("competition", "*competitions toy-parity digest was *"),
        ("limit", "*limits time_limit was 60.0, is 5.0*"),
        ("description", "*description was None, is 'bundled'*"),
    ],
)
def test_a_change_is_detected_and_rejected_unless_allowed(
    project: pytest.Pytester, run_toys: Run, change: str, message: str
) -> None:
    run_toys("gold")
    options = ["--resume=toys", "-p", "no:cacheprovider"]
    if change == "agent":
        config = project.path / "agents/toy/config.yaml"
        config.write_text(
            config.read_text().replace(
                "toy/gold: {<<: *defaults, kwargs: {right: 20", "toy/gold: {<<: *defaults, kwargs: {right: 19"
            )
        )
    elif change == "competition":
        grade = project.path / "competitions/toy-parity/grade.py"
        grade.write_text(grade.read_text() + "\n# another\n")
    elif change == "description":
        options.append("--description=bundled")
    else:
        options.append("--time-limit=5s")
    refused = project.runpytest_subprocess(*options)
    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    refused.stderr.fnmatch_lines([message, "*--allow-changes*"])
    allowed = project.runpytest_subprocess(*options, "--allow-changes")
    assert allowed.ret == 0
    assert group_json(project, "manifest.json")["sessions"][-1]["changes"]
    assert project.runpytest_subprocess(*options).ret == 0  # from now on these are the group's settings


def test_zero_on_the_command_line_overrides_an_ini_key(project: pytest.Pytester, run_toys: Run) -> None:
    with (project.path / "tox.ini").open("a") as file:
        file.write("\nmlebench_gpus = 64\n")
    assert run_toys("gold").ret == pytest.ExitCode.USAGE_ERROR  # no machine has so many
    assert run_toys("gold", options=("--gpus=0",)).ret == 0


def test_a_group_has_one_session_at_a_time(project: pytest.Pytester, run_toys: Run) -> None:
    first = start(project, "--agent=toy/sleeps")
    try:
        await_file(project, "reports/toys/*/running.json")
        second = run_toys("gold")
        assert second.ret == pytest.ExitCode.USAGE_ERROR
        second.stderr.fnmatch_lines(["*run group * is in use by another session*"])
    finally:
        first.send_signal(signal.SIGINT)
        first.wait(60)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--resume=tosy"], "*unknown run group * 'tosy'*did you mean toys?*"),
        (["--resume=toys", "--retry-failed=slow"], "*'slow' is not one of*crashed*all*"),
        (["--resume=toys", "--run-group=toy"], "*--resume=toys and --run-group=toy are two groups*"),
        (["--resume=../toys"], "*run group ../toys does not exist*"),
    ],
)
def test_an_invalid_resume_is_reported(
    project: pytest.Pytester, run_toys: Run, options: list[str], message: str
) -> None:
    run_toys("gold")
    result = project.runpytest_subprocess(*options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])


def start(project: pytest.Pytester, *options: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "pytest", "competitions/toy-parity", "--run-group=toys", "-p", "no:cacheprovider"]
    with (project.path / "session.log").open("ab") as log:
        return subprocess.Popen([*command, *options], cwd=project.path, stdout=log, stderr=log)


def await_file(project: pytest.Pytester, pattern: str, known: Iterable[Path] = ()) -> None:
    """Wait for a file in a folder other than the known ones."""
    deadline = time.monotonic() + 60
    while not any(path.parent not in known for path in project.path.glob(pattern)):
        assert time.monotonic() < deadline, (project.path / "session.log").read_text()
        time.sleep(0.05)


@pytest.mark.full
@pytest.mark.parametrize("workers", [[], ["-n", "2"]])
def test_sigterm_shows_how_to_resume_like_ctrl_c(project: pytest.Pytester, workers: list[str]) -> None:
    with start(project, "--agent=toy/sleeps", *workers) as session:
        try:
            await_file(project, "reports/toys/*/running.json")
            session.send_signal(signal.SIGTERM)
            assert session.wait(60) == pytest.ExitCode.INTERRUPTED
        finally:
            session.kill()
    log = (project.path / "session.log").read_text()
    assert f"resume: {shlex.join(['pytest', '--resume=reports/toys', *workers])}" in log and "Traceback" not in log


@pytest.mark.full
def test_a_session_killed_at_random_and_resumed_has_every_run_exactly_once(project: pytest.Pytester) -> None:
    options = ["--agent=toy/slow", "--seeds=12", "-n", "2"]
    rng = random.Random(7)
    folder = project.path / "reports/toys"
    kept: dict[Any, str] = {}
    finished_at = []
    for attempt in range(10):
        known = set(folder.glob("*"))
        session = start(project, *options)
        if attempt % 3 == 0:  # during its start
            time.sleep(rng.uniform(0.0, 2.0))
        else:
            await_file(project, "reports/toys/*/running.json", known)
            time.sleep(rng.uniform(0.0, 3.0))
        assert session.poll() is None, "the session ended before it could be killed"
        os.kill(session.pid, signal.SIGKILL)
        session.wait()
        records = {record.key: record.run_id for record in GroupReader(folder).records()}
        assert records.items() >= kept.items(), "a finished run was lost or rerun"
        kept = records
        finished_at.append(len(kept))
    assert len(set(finished_at)) > 2, f"finished runs at the kills: {finished_at}"
    result = project.runpytest_subprocess("--resume=toys", "-p", "no:cacheprovider")
    assert "12 gold" in result.outlines[-1]
    group = read_group(folder)
    assert len(group.records) == 12 and {record.key for record in group.records} == group.planned
    assert len(list(folder.glob("*/run.json"))) == 12, "a run was done twice"
    assert {record.key: record.run_id for record in group.records}.items() >= kept.items()
    assert len(group_json(project, "grading_report.json")["competition_reports"]) == 12
    assert len(group_json(project, "metadata.json")["runs"]) == 12


def test_the_manifest_is_complete_and_contains_no_secret(
    project: pytest.Pytester, run_toys: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOY_TOKEN", "s3cr3t-t0k3n")
    run_toys("secret", options=("--cpus=1", "--time-limit=30s"))
    text = (project.path / "reports/toys/manifest.json").read_text()
    assert "s3cr3t-t0k3n" not in text
    manifest = json.loads(text)
    (session,) = manifest["sessions"]
    assert session["started_at"] < session["ended_at"] and session["hardware"]["cpus"] >= 1
    assert {"numpy", "pandas", "scikit-learn"} <= session["libraries"].keys()
    agent = manifest["settings"]["agents"]["toy/secret"]
    assert agent["env_vars"] == {"TOKEN": "${{ secrets.TOY_TOKEN }}"} and agent["sandbox"] == "local"
    assert manifest["settings"]["limits"]["cpus"] == 1
    assert manifest["data"]["toy-parity"].keys() == {"answers", "public_names_and_sizes"}
    assert not manifest["canonical"]["is_canonical"]
    assert "time limit 30 s instead of 24 h" in manifest["canonical"]["differences"]
    assert [run["seed"] for run in manifest["runs"]] == [0]
    before_any_run = replace(read_group(project.path / "reports/toys"), records=())
    assert before_any_run.splits_and_categories["toy-parity"] == ("smoke", "Tabular")


def test_a_sandbox_that_was_unavailable_at_first_is_not_a_change() -> None:
    before, after = ({"agents": {"aide": {"sandbox": kind}}} for kind in (UNKNOWN, "docker"))
    assert changes(before, after) == ()
    assert changes(after, {"agents": {"aide": {"sandbox": "local"}, "other": {}}}) == (
        "agents aide sandbox was 'docker', is 'local'",
    )


MACHINE = Hardware(host="h", cpu="c", cpus=36, memory=440 << 30, gpus={"NVIDIA A10": 1})


@pytest.mark.parametrize(
    ("limits", "machine", "workers", "differences"),
    [
        (Limits(gpus=1), MACHINE, 1, []),
        (Limits(gpus=1, cpus=36, memory=440 * 10**9), MACHINE, 4, []),
        (Limits(gpus=1), MACHINE, 2, ["18 processors", "220 GiB of memory"]),
        (Limits(gpus=0), MACHINE, 1, ["no GPU"]),
        (Limits(gpus=1, time_limit=3600), MACHINE, 1, ["time limit 1 h"]),
        (Limits(gpus=1), Hardware(host="h", cpu="c", cpus=36, memory=440 << 30, gpus={"NVIDIA A100": 1}), 1, ["A100"]),
    ],
)
def test_each_difference_from_the_canonical_setting_is_listed(
    limits: Limits, machine: Hardware, workers: int, differences: list[str]
) -> None:
    found = canonical_differences(limits, machine, workers=workers, sandboxes={"docker"})
    assert len(found) == len(differences)
    assert all(part in text for part, text in zip(differences, found, strict=True))


@pytest.mark.full
def test_a_group_may_be_given_by_folder_partial_name_or_as_the_last(project: pytest.Pytester, run_toys: Run) -> None:
    run_toys("gold")
    before = run_ids(project)
    options = ("competitions/toy-parity", "--agent=toy/gold", "-p", "no:cacheprovider")
    for name in ("--run-group=reports/toys", "--run-group=last", "--resume=reports/toys", "--resume=oy"):
        result = project.runpytest_subprocess(*(options if "run-group" in name else options[2:]), name)
        assert result.ret == 0 and "1 gold" in result.outlines[-1], result.outlines
        assert run_ids(project) == before
    elsewhere = project.runpytest_subprocess(*options, "--run-group=./other/place")
    assert elsewhere.ret == 0 and (project.path / "other/place/manifest.json").is_file()
