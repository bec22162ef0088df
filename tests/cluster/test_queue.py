"""How a session handles an engine's responses, with a scripted engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.errors import ClusterError
from pytest_mlebench.extras.engines.contract import Cause, Job, JobState, QueueFull, Resources, Status
from pytest_mlebench.extras.engines.plan import JobEnd, JobPlan, ended_names, open_plans, report_end, write_plan
from pytest_mlebench.extras.engines.queue import RunQueue, stop
from pytest_mlebench.io.progress import Event, event_text
from pytest_mlebench.records.group import GroupReader
from pytest_mlebench.records.record import JOBS, RunRecord
from tests.groups import record_with

PLAN = JobPlan(
    name="",
    engine="",
    agent="baseline",
    competition_id="smoke-digits",
    seed=0,
    competition_file="",
    options={},
    version="",
    agent_digest="",
    max_requeues=1,
)


class Scripted:
    """An engine that raises ``refusals``, then accepts jobs. Their status is ``says``."""

    name = "scripted"
    max_parallel: int | None = None
    poll_seconds = settle_seconds = 0.0

    def __init__(self, *refusals: ClusterError) -> None:
        self.refusals = list(refusals)
        self.jobs: list[Job] = []
        self.cancelled: list[str] = []
        self.says: Status | ClusterError | None = Status(state=JobState.RUNNING)

    def check(self) -> None:
        pass

    def check_resources(self, resources: Resources) -> None:
        pass

    def submit(self, job: Job, command: Sequence[str], resources: Resources) -> str:
        if self.refusals:
            raise self.refusals.pop(0)
        self.jobs.append(job)
        return str(len(self.jobs))

    def poll(self, jobs: Sequence[Job]) -> Mapping[str, Status]:
        if isinstance(self.says, ClusterError):
            raise self.says
        return {} if self.says is None else {job.name: self.says for job in jobs}

    def cancel(self, jobs: Sequence[Job]) -> None:
        self.cancelled += [job.name for job in jobs]

    def describe(self) -> Mapping[str, str]:
        return {"engine": self.name}


def queue_of(group: Path, engine: Scripted, lost: list[tuple[Cause, str]], events: list[Event]) -> RunQueue:
    def record_lost(plan: JobPlan, cause: Cause, reason: str) -> RunRecord:
        lost.append((cause, reason))
        return record_with(default_catalogue()[plan.competition_id], "error", agent=plan.agent, seed=plan.seed)

    return RunQueue(
        group,
        engine,
        reader=GroupReader(group),
        resources=lambda plan: Resources(seconds=1),
        command=lambda plan, name: ["true"],
        record_lost=record_lost,
        reporter=events.append,
        full_seconds=0.0,
    )


def test_a_full_queue_is_retried_and_a_refusal_becomes_an_error(tmp_path: Path) -> None:
    engine, events = Scripted(QueueFull("full"), ClusterError("no such account")), list[Event]()
    queue = queue_of(tmp_path, engine, [], events)
    queue.add(PLAN)
    assert queue.step() == [] and not engine.jobs and "full" in event_text(events[0])
    assert queue.step() == [] and not engine.jobs
    assert queue.step() == [] and len(engine.jobs) == 1, "one refusal is not final"
    assert len(open_plans(tmp_path)) == 1, "the refused plan is closed"
    engine.refusals += [ClusterError("no such account")] * 3
    queue.add(replace(PLAN, seed=1))
    results = [result for _ in range(4) for result in queue.step()]
    assert [(result.key.seed, result.error) for result in results] == [(1, "no such account")]
    engine.refusals += [ClusterError("no such account")]
    queue.add(replace(PLAN, seed=2))
    (result,) = [*queue.step(), *queue.step()]
    assert result.key.seed == 2, "after a permanent refusal, further jobs fail immediately"


def test_a_lost_job_is_resubmitted_and_finally_recorded_as_lost(tmp_path: Path) -> None:
    engine, lost, events = Scripted(), list[tuple[Cause, str]](), list[Event]()
    queue = queue_of(tmp_path, engine, lost, events)
    queue.add(PLAN)
    queue.step()
    engine.says = ClusterError("controller is down")
    assert queue.step() == queue.step() == [] and len(engine.jobs) == 1
    engine.says = None
    assert queue.step() == []
    (result,) = queue.step()
    assert len({job.name for job in engine.jobs}) == 2
    assert result.record is not None and queue.is_empty and [cause for cause, _ in lost] == [Cause.LOST]
    assert [event_text(event) for event in events] == [
        "warning: scripted does not answer; its jobs continue: controller is down",
        "warning: baseline on smoke-digits, seed 0: its job was lost (scripted does not know it any more); "
        "it is submitted again",
    ]


def test_a_job_that_ended_because_of_the_agent_is_not_resubmitted(tmp_path: Path) -> None:
    engine, lost = Scripted(), list[tuple[Cause, str]]()
    queue = queue_of(tmp_path, engine, lost, [])
    queue.add(PLAN)
    engine.says = Status(state=JobState.ENDED, reason="out of memory", cause=Cause.OUT_OF_MEMORY)
    results = [*queue.step(), *queue.step()]
    assert len(results) == len(engine.jobs) == 1 and lost == [(Cause.OUT_OF_MEMORY, "out of memory")]


def test_another_session_takes_over_only_jobs_that_have_not_ended(tmp_path: Path) -> None:
    engine = Scripted()
    first = queue_of(tmp_path, engine, [], [])
    for seed in (0, 1):
        first.add(replace(PLAN, seed=seed))
    first.step()
    report_end(tmp_path, engine.jobs[1].name, JobEnd(error="it could not"))
    second = queue_of(tmp_path, engine, [], [])
    for seed in (0, 1):
        second.add(replace(PLAN, seed=seed))
    second.step()
    assert len(engine.jobs) == 3 and second.live == 2
    second.cancel()
    assert set(engine.cancelled) == {engine.jobs[0].name, engine.jobs[2].name}
    assert open_plans(tmp_path) == [] and second.is_empty
    assert ended_names(tmp_path) == {job.name for job in engine.jobs}


def test_a_record_of_a_job_presumed_lost_counts(tmp_path: Path) -> None:
    engine, lost = Scripted(), list[tuple[Cause, str]]()
    queue = queue_of(tmp_path, engine, lost, [])
    queue.add(PLAN)
    queue.step()
    engine.says = Status(state=JobState.ENDED, reason="node failed")
    queue.step()
    engine.says = Status(state=JobState.RUNNING)
    queue.step()
    first, second = (job.name for job in engine.jobs)
    record = record_with(default_catalogue()["smoke-digits"], "gold", agent=PLAN.agent, seed=PLAN.seed)
    late = replace(record, run_id=f"{PLAN.key.run_prefix}0", job={"name": first})
    (tmp_path / late.run_id).mkdir()
    late.write(tmp_path / late.run_id)
    engine.says = Status(state=JobState.ENDED, reason="node failed")
    (result,) = queue.step()
    assert first != second and result.record == late and not lost and queue.is_empty


def test_jobs_of_a_group_are_named_after_their_runs_and_cancelled(tmp_path: Path) -> None:
    engine = Scripted()
    queue = queue_of(tmp_path, engine, [], [])
    for seed in range(2):
        queue.add(replace(PLAN, seed=seed))
    queue.step()
    assert stop(tmp_path, {"scripted": lambda: engine}) == 2
    assert sorted(engine.cancelled) == sorted(job.name for job in engine.jobs)
    assert all(job.name.startswith(f"{PLAN.competition_id}-{PLAN.agent}-") for job in engine.jobs)
    assert max(len(job.name) for job in engine.jobs) <= 64, "sacct truncates longer names"
    assert stop(tmp_path, {"scripted": lambda: engine}) == 0 and queue.step() != []
    with pytest.raises(ClusterError, match="the engine gone, which is not installed"):
        write_plan(tmp_path / JOBS / "run", replace(PLAN, name="other", engine="gone"))
        stop(tmp_path, {})
