"""A run's submission over time: snapshots taken while the agent ran and graded afterwards."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_mlebench.catalog import Competition
from pytest_mlebench.data.store import DataStore
from pytest_mlebench.io.files import digest_of
from pytest_mlebench.records.outcome import Report, TimelinePoint, last_change
from pytest_mlebench.records.record import RunRecord, bounded
from pytest_mlebench.results import read_group
from pytest_mlebench.runs.files import read_validation_score, timeline
from pytest_mlebench.runs.run import RunOptions, run_agent
from pytest_mlebench.sandbox import Limits, Sandbox
from pytest_mlebench.sandbox.collection import Snapshot, SnapshotPolicy, Snapshots
from tests.groups import record_with, report_of
from tests.sandbox.conftest import require_docker
from tests.sandbox.scripted import docker_sandbox, local_sandbox, script_agent

TOYS = Path(__file__).parents[1] / "toys"
QUICK = SnapshotPolicy(check_interval=0.05, spacing=0.0)
SUBMIT = """
submit() { { echo id,odd; for k in $(seq 0 19); do echo $((80 + k)),$(( (k + (k < $1 ? 0 : 1)) % 2 )); done; } \
  > "$SUBMISSION_DIR/submission.csv"; }
"""
"""For agents: ``submit N`` writes a submission with N of 20 right answers."""
SLOW_IF_PERFECT = """

quick = grade


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    import time

    score = quick(submission, answers)
    time.sleep(300 * (score == 1))
    return score
"""
"""Appended to a grader."""


@pytest.fixture
def competition() -> Competition:
    return Competition.load(TOYS / "competitions/toy-parity/competition.yaml")


def run_script(script: str, sandbox: Sandbox, folder: Path, competition: Competition, **changes: Any) -> RunRecord:
    dataset = DataStore(folder / "data").prepare(competition)
    agent = script_agent(kwargs={"script": SUBMIT + script}, trusted=True)
    options = RunOptions(folder=folder / "runs/group", limits=Limits(time_limit=60), snapshots=QUICK)
    return run_agent(agent, competition, dataset, sandbox, replace(options, **changes))


@pytest.mark.parametrize("kind", ["local", pytest.param("docker", marks=[pytest.mark.docker, pytest.mark.serial])])
def test_better_best_and_worse_submissions_give_three_points_and_a_lost_medal(
    kind: str, tmp_path: Path, competition: Competition
) -> None:
    if kind == "docker":
        require_docker()
        sandbox, wait = docker_sandbox(), "sleep 4"
    else:  # snapshots are stored next to the agent's home
        sandbox, wait = local_sandbox(), "until ls $SUBMISSION_DIR/../../snapshots/*$1.csv; do sleep 0.05; done"
    script = f"taken() {{ {wait}; }}; submit 15; taken 1; submit 20; taken 2; submit 13; taken 3"
    record = run_script(script, sandbox, tmp_path, competition)
    assert [(point.score, point.medal, point.final) for point in record.timeline] == [
        (0.75, "bronze", False),
        (1.0, "gold", False),
        (0.65, None, True),
    ]
    times = [point.seconds for point in record.timeline]
    assert 0 < times[0] <= times[1] <= times[2] <= record.seconds
    assert record.outcome == "above_median"
    change = record.last_change
    assert change is not None and change.medal_lost
    assert (change.best_score, change.best_medal, change.score, change.medal) == (1.0, "gold", 0.65, None)
    (path,) = tmp_path.glob("runs/group/*/run.json")
    assert json.loads(path.read_text())["last_change"]["medal_lost"] is True
    assert read_group(tmp_path / "runs/group").records == (record,)
    for point in record.timeline:
        assert (path.parent / point.file).is_file()


@pytest.mark.full
def test_without_snapshots_there_is_no_timeline(tmp_path: Path, competition: Competition) -> None:
    record = run_script("submit 20", local_sandbox(), tmp_path, competition, snapshots=None)
    assert record.timeline == () and record.last_change is None and record.outcome == "gold"


@pytest.mark.full
def test_a_submission_too_late_for_a_snapshot_is_the_last_point(tmp_path: Path, competition: Competition) -> None:
    slow = replace(QUICK, check_interval=30.0)
    record = run_script("submit 20", local_sandbox(), tmp_path, competition, snapshots=slow)
    (point,) = record.timeline
    assert (point.score, point.medal, point.final, point.file) == (1.0, "gold", True, "submission/submission.csv")
    assert point.seconds == record.seconds


@pytest.mark.full
def test_the_agents_own_estimate_is_recorded_with_its_gap(tmp_path: Path, competition: Competition) -> None:
    estimate = """echo '{"validation_score": 0.91}' > $SUBMISSION_DIR/validation.json"""
    record = run_script(f"submit 13; {estimate}", local_sandbox(), tmp_path, competition)
    assert record.validation_score == 0.91
    assert record.validation_gap == pytest.approx(0.26)
    lower = replace(record, report=replace(record.report, is_lower_better=True))
    assert lower.validation_gap == pytest.approx(-0.26)


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ('{"validation_score": 1}', 1.0),
        ('{"validation_score": -2.5e-3, "folds": [1, 2]}', -0.0025),
        ('{"validation_score": "0.9"}', None),
        ('{"validation_score": true}', None),
        ('{"validation_score": NaN}', None),
        ('{"validation_score": -Infinity}', None),
        ('{"validation_score": 1e999}', None),
        ('{"validation_score": 1' + "0" * 5000 + "}", None),
        ('{"validation_score": null}', None),
        ("[0.9]", None),
        ("[" * 60_000, None),
        ('{"validation_score": 0.9}' + " " * 70_000, None),
        ("\xff\x00", None),
        ("", None),
    ],
)
def test_an_estimate_is_a_finite_number_or_none(tmp_path: Path, text: str, score: float | None) -> None:
    (tmp_path / "submission").mkdir()
    (tmp_path / "submission/validation.json").write_text(text, encoding="latin-1")
    assert read_validation_score(tmp_path) == score


# Tests without a run: fake snapshots, and a grader that records its calls.


def made_up(folder: Path, texts: list[str], final: str | None) -> Snapshots:
    snapshots = Snapshots(folder / "snapshots")
    (folder / "snapshots").mkdir()
    for number, text in enumerate(texts, 1):
        path = folder / f"snapshots/{number:04}.csv"
        path.write_text(text)
        taken = Snapshot(
            seconds=float(number), path=path, digest=digest_of(path), size=len(text), calls=number, cost=number / 10
        )
        snapshots.taken.append(taken)
    if final is not None:
        (folder / "submission").mkdir()
        (folder / "submission/submission.csv").write_text(final)
    return snapshots


def points_of(
    folder: Path, competition: Competition, texts: list[str], final: str | None, **options: Any
) -> tuple[tuple[TimelinePoint, ...], list[str], Report]:
    """Submissions whose content is their score."""
    asked: list[str] = []

    def grade(path: Path) -> Report:
        asked.append(path.read_text())
        return report_of(competition, float(asked[-1]))

    report = report_of(competition, None if final is None else float(final), exists=final is not None)
    snapshots = made_up(folder, texts, final)
    llm = {"calls": 9, "cost": 0.9}
    record = replace(record_with(competition, "gold"), report=report, seconds=10.0, llm=llm)
    return timeline(snapshots, record, folder, grade=grade, **options), asked, report


def test_each_content_is_graded_once_and_the_last_one_is_not_regraded(tmp_path: Path, competition: Competition) -> None:
    points, asked, _ = points_of(tmp_path, competition, ["0.5", "0.7", "0.5", "0.9"], "0.9")
    assert [point.score for point in points] == [0.5, 0.7, 0.5, 0.9]
    assert sorted(asked) == ["0.5", "0.7"]
    assert [point.final for point in points] == [False, False, False, True]
    assert [(point.calls, point.cost) for point in points] == [(1, 0.1), (2, 0.2), (3, 0.3), (4, 0.4)]


def test_returning_to_an_earlier_submission_is_a_separate_point(tmp_path: Path, competition: Competition) -> None:
    points, _, report = points_of(tmp_path, competition, ["0.9", "0.5"], "0.9")
    assert [(point.score, point.final) for point in points] == [(0.9, False), (0.5, False), (0.9, True)]
    assert (points[-1].calls, points[-1].cost, points[-1].seconds) == (9, 0.9, 10.0)
    assert last_change(points, report) is None


def test_a_removed_submission_loses_its_medal(tmp_path: Path, competition: Competition) -> None:
    points, _, report = points_of(tmp_path, competition, ["0.9"], None)
    assert [point.final for point in points] == [False]
    change = last_change(points, report)
    assert change is not None and change.medal_lost and (change.score, change.best_medal) == (None, "gold")


def test_if_time_is_short_the_graded_snapshots_cover_the_whole_run(tmp_path: Path, competition: Competition) -> None:
    points, asked, _ = points_of(tmp_path, competition, ["0.1", "0.2", "0.3", "0.4", "0.5"], "0.6", limit=-1.0)
    assert asked == [] and {point.score for point in points[:-1]} == {None}
    assert all(point.error == "not graded: grading the run's snapshots took too long" for point in points[:-1])
    (tmp_path / "all").mkdir()
    _, asked, _ = points_of(tmp_path / "all", competition, ["0.1", "0.2", "0.3", "0.4", "0.5"], "0.6")
    assert asked == ["0.5", "0.1", "0.3", "0.2", "0.4"]


def test_a_run_whose_grader_is_defective_is_not_blamed(tmp_path: Path, competition: Competition) -> None:
    points, _, report = points_of(tmp_path, competition, ["0.9"], "0.5")
    assert last_change(points, report) is not None
    assert last_change(points, replace(report, score=None, grader_defect=True)) is None


def test_a_better_lower_score_is_not_a_loss(tmp_path: Path, competition: Competition) -> None:
    points, _, report = points_of(tmp_path, competition, ["0.9"], "0.5")
    assert last_change(points, replace(report, is_lower_better=True)) is None


@pytest.mark.full
def test_a_record_with_200_hostile_errors_stays_small(tmp_path: Path, competition: Competition) -> None:
    record = run_script("submit 20", local_sandbox(), tmp_path, competition)
    hostile = tuple(TimelinePoint(seconds=k, error="\U0001f600" * 4000, file="x.csv") for k in range(201))
    kept = bounded(replace(record, timeline=hostile))
    kept.write(tmp_path)
    assert (tmp_path / "run.json").stat().st_size < 200_000 and len(kept.timeline) == 201


@pytest.mark.full
def test_an_interruption_while_snapshots_are_graded_keeps_the_result(tmp_path: Path, competition: Competition) -> None:
    slow = tmp_path / "slow" / competition.id
    shutil.copytree(competition.folder, slow)
    with (slow / "grade.py").open("a") as file:
        file.write(SLOW_IF_PERFECT)

    def interrupt() -> None:  # after the result is written, while the perfect snapshot is graded
        while not list(tmp_path.glob("runs/group/*/run.json")):
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    script = "submit 20; until ls $SUBMISSION_DIR/../../snapshots/*1.csv; do sleep 0.05; done; submit 15"
    with pytest.raises(KeyboardInterrupt):
        run_script(script, local_sandbox(), tmp_path, Competition.load(slow / "competition.yaml"))
    thread.join()
    (record,) = read_group(tmp_path / "runs/group").records
    assert record.outcome == "bronze" and record.timeline[-1].final
    assert record.timeline[0].error == "not graded: the session was interrupted"
