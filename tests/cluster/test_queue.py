"""How a session handles an engine's responses, with a scripted engine."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_mlebench.bench import Bench
from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.errors import ClusterError, UsageError
from pytest_mlebench.extras.engines.contract import Cause, Job, JobState, QueueFull, Resources, Status
from pytest_mlebench.extras.engines.local import LocalEngine
from pytest_mlebench.extras.engines.plan import (
    ALIVE,
    Alive,
    JobEnd,
    JobPlan,
    ended_names,
    job_folder,
    load_keys,
    open_plans,
    read_end,
    report_end,
    write_plan,
)
from pytest_mlebench.extras.engines.queue import RunQueue, stop
from pytest_mlebench.extras.engines.session import _secret_names, check_none_runs
from pytest_mlebench.extras.engines.slurm import SlurmEngine
from pytest_mlebench.io.processes import LABEL, owner_labels, start_time
from pytest_mlebench.io.progress import Event, event_text
from pytest_mlebench.io.values import write_json
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
    """An engine that raises ``refusals``, then accepts jobs. Their status is ``says``; it calls ``on_cancel``."""

    name = "scripted"
    max_parallel: int | None = None
    poll_seconds = settle_seconds = 0.0

    def __init__(self, *refusals: ClusterError) -> None:
        self.refusals = list(refusals)
        self.jobs: list[Job] = []
        self.cancelled: list[str] = []
        self.says: Status | ClusterError | None = Status(state=JobState.RUNNING)
        self.on_submit: Callable[[Job], object] = lambda job: None
        self.on_cancel: Callable[[], object] = lambda: None

    def check(self) -> None:
        pass

    def check_resources(self, resources: Resources) -> None:
        pass

    def submit(self, job: Job, command: Sequence[str], resources: Resources) -> str:
        if self.refusals:
            raise self.refusals.pop(0)
        self.jobs.append(job)
        self.on_submit(job)
        return str(len(self.jobs))

    def poll(self, jobs: Sequence[Job]) -> Mapping[str, Status]:
        if isinstance(self.says, ClusterError):
            raise self.says
        return {} if self.says is None else {job.name: self.says for job in jobs}

    def cancel(self, jobs: Sequence[Job]) -> None:
        self.cancelled += [job.name for job in jobs]
        self.on_cancel()

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


@pytest.mark.parametrize("use", ["stop", "queue"])
def test_a_job_that_ends_while_it_is_cancelled_keeps_its_result(use: str, tmp_path: Path) -> None:
    engine = Scripted()
    queue = queue_of(tmp_path, engine, [], [])
    for seed in range(2):
        queue.add(replace(PLAN, seed=seed))
    queue.step()
    done, other = (job.name for job in engine.jobs)
    engine.on_cancel = lambda: report_end(tmp_path, done, JobEnd(run_id="finished"))
    assert (queue.cancel() if use == "queue" else stop(tmp_path, {"scripted": lambda: engine})) == 1
    assert read_end(tmp_path, done).run_id == "finished" and read_end(tmp_path, other) == JobEnd()


@pytest.mark.parametrize("obstacle", ["host", "pid-namespace", "user"])
def test_a_local_job_that_cannot_be_ended_from_here_is_not_reported_as_ended(
    obstacle: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No process here that has the job's process id is signalled."""

    def refuse(pid: int, number: int) -> None:
        raise PermissionError("another user's process")

    plan = replace(PLAN, name="job", engine="local")
    job = write_plan(job_folder(tmp_path, plan.key), plan)
    with subprocess.Popen(["sleep", "600"]) as process:
        own = {f"{LABEL}pid": str(process.pid), f"{LABEL}pid-start": start_time(process.pid)}
        owner = owner_labels() | own | ({} if obstacle == "user" else {LABEL + obstacle: "elsewhere"})
        write_json(job.folder / ALIVE, asdict(Alive(name=job.name, owner=owner)))
        try:
            with monkeypatch.context() as patched, pytest.raises(ClusterError) as raised:
                if obstacle == "user":
                    patched.setattr(os, "kill", refuse)
                stop(tmp_path, {"local": LocalEngine})
            ended = process.poll()
        finally:
            process.kill()
    assert f"process {process.pid} on {owner[f'{LABEL}host']}: run `mlebench stop` there" in str(raised.value)
    assert ended is None and ended_names(tmp_path) == frozenset()


def test_an_adopted_job_that_is_lost_is_resubmitted_with_the_options_of_this_session(tmp_path: Path) -> None:
    engine = Scripted()
    first = queue_of(tmp_path, engine, [], [])
    first.add(PLAN)
    first.step()
    second = queue_of(tmp_path, engine, [], [])
    current = replace(PLAN, keys_file="new", version="2", options={"--cpus": 1}, max_requeues=3)
    second.add(current)
    engine.says = Status(state=JobState.ENDED, reason="node failed")
    second.step()
    engine.says = Status(state=JobState.RUNNING)
    second.step()
    ((plan, job),) = open_plans(tmp_path)
    assert len(engine.jobs) == 2 and plan.attempt == 1 and plan.earlier == (engine.jobs[0].name,)
    assert current == replace(plan, name="", engine="", attempt=0, earlier=(), submitted=0.0) and job.id == "2"


def test_a_session_continues_only_jobs_of_its_own_engine(tmp_path: Path) -> None:
    write_plan(job_folder(tmp_path, PLAN.key), replace(PLAN, name="theirs", engine="elsewhere"))
    for cluster in (None, "scripted", "elsewhere"):
        session: Any = SimpleNamespace(group=tmp_path, settings=SimpleNamespace(cluster=cluster))
        with nullcontext() if cluster == "elsewhere" else pytest.raises(UsageError, match="--cluster=elsewhere by an"):
            check_none_runs(session)
    engine = Scripted()
    queue = queue_of(tmp_path, engine, [], [])
    queue.add(PLAN)  # their job has ended
    queue.step()
    assert len(engine.jobs) == 1 and [plan.engine for plan, _ in open_plans(tmp_path)] == ["scripted"]


def test_a_job_whose_submission_was_interrupted_is_cancelled(tmp_path: Path) -> None:
    def interrupt(job: Job) -> None:
        if len(engine.jobs) == 2:
            raise KeyboardInterrupt

    engine = Scripted()
    engine.on_submit = interrupt
    queue = queue_of(tmp_path, engine, [], [])
    for seed in range(3):
        queue.add(replace(PLAN, seed=seed))
    with pytest.raises(KeyboardInterrupt):
        queue.step()
    assert queue.cancel() == 2 and engine.cancelled == [job.name for job in engine.jobs]
    assert open_plans(tmp_path) == [] and queue.is_empty


@pytest.mark.parametrize("id", ["1234", "1234 5", "x y z a b"])
def test_an_incomplete_id_of_a_local_job_is_unknown(id: str, tmp_path: Path) -> None:
    engine, job = LocalEngine(), Job(name="job", folder=tmp_path, id=id)
    engine.cancel([job])
    assert engine.poll([job]) == {}


@pytest.mark.parametrize("gateway", ["on", "off"])
def test_no_variable_with_a_secret_name_is_left_to_the_engine(gateway: str, monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = {"KAGGLE_KEY", "HF_TOKEN", "OPENAI_API_KEY"}
    needed = {"AWS_ACCESS_KEY_ID", "SLURM_AUTH", "RAY_AUTH_TOKEN", "_ModuleTable001_", "KRB5CCNAME"}
    for name in secrets | needed:
        monkeypatch.setenv(name, "1a2b3c4d5e6f7a8b9c0d")
    found = set(_secret_names(Bench(llm_gateway=gateway)))
    assert secrets <= found and not needed & found


@pytest.mark.parametrize(("status", "error"), [(0, None), (1, ClusterError)])
def test_a_slurm_job_keeps_its_name_and_its_submission_leaves_no_script(
    status: int, error: type[Exception] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user's options follow ours, so that they can replace the requested resources."""
    (tmp_path / "sbatch").write_text(f'#!/bin/sh\necho "$@" >{tmp_path}/given\necho 77\nexit {status}\n')
    (tmp_path / "sbatch").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    engine, job = SlurmEngine("--job-name=mine --time=5"), Job(name="ours", folder=tmp_path)
    with pytest.raises(error) if error else nullcontext():
        assert engine.submit(job, ["true"], Resources(seconds=60)) == "77"
    words = (tmp_path / "given").read_text().split()
    assert [word for word in words if word.startswith(("--job-name", "--time"))] == [
        *("--time=1", "--job-name=mine", "--time=5", "--job-name=ours")
    ]
    assert not list(tmp_path.glob("*.sh"))


@pytest.mark.parametrize(
    "options",
    [
        *("--array=1-3", "--arr 1-3", "-a 1-3", "--time=5 -a1", "-Ha1"),
        *("--output=x", "--out x", "-o x", "-ox", "--error=x", "-e x", "--chdir=x", "-D x", "--open-mode=truncate"),
        *("--wrap=true", "--wait", "-W", "--quiet", "-Q", "--test-only", "--help", "-V", "--"),
    ],
)
def test_slurm_options_that_hide_a_job_or_its_output_are_refused(options: str, tmp_path: Path) -> None:
    setup = tmp_path / "setup.sh"
    setup.write_text(f"#SBATCH {options} # ours\nmodule load cuda\n")
    with pytest.raises(ClusterError, match="--cluster-options: leave out -"):
        SlurmEngine(options)
    overridden = options.startswith(("--out", "-o", "--open", "--chdir", "-D"))  # by the session's own
    with nullcontext() if overridden else pytest.raises(ClusterError, match=f"--cluster-setup: {setup}: leave out -"):
        SlurmEngine(setup=setup)


def test_other_slurm_options_are_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setup = tmp_path / "setup.sh"
    setup.write_text("#SBATCH -A lab # it's ours\n\n# --error=x\n#SBATCHING isn't\nmodule load x\n#SBATCH --wait\n")
    options = "-A account --account=account --wait-all-nodes=1 -p gpu -C v100 --exclusive --exclude=n1 -kof --hold"
    monkeypatch.setenv("SBATCH_ERROR", "/dev/null")
    engine = SlurmEngine(options, setup)
    assert "SBATCH_ERROR" not in engine._environment
    with pytest.raises(ClusterError, match=f"--cluster-setup: {tmp_path}/missing cannot be read: No such file"):
        SlurmEngine(setup=tmp_path / "missing")


@pytest.mark.parametrize("refusal", [QueueFull("full"), ClusterError("busy")])
def test_retries_of_a_submission_leave_no_files(refusal: ClusterError, tmp_path: Path) -> None:
    engine = Scripted(refusal, refusal)
    queue = queue_of(tmp_path, engine, [], [])
    queue.add(PLAN)
    for _ in range(2):
        assert queue.step() == [] and open_plans(tmp_path) == [] and len(ended_names(tmp_path)) == 1
    queue.step()
    assert len(open_plans(tmp_path)) == 1 and ended_names(tmp_path) == frozenset()


@pytest.mark.parametrize("blocked", [JOBS, f"{JOBS}/ended"])
def test_job_files_that_cannot_be_written_do_not_end_the_session(blocked: str, tmp_path: Path) -> None:
    """Without a plan, the run has an error. Without the report of a lost or cancelled job, nothing is lost."""
    (tmp_path / blocked).parent.mkdir(exist_ok=True)
    (tmp_path / blocked).touch()
    engine = Scripted(QueueFull("full"))
    engine.on_submit = lambda job: (job.folder / "id").mkdir()
    queue = queue_of(tmp_path, engine, [], [])
    for seed in range(2):
        queue.add(replace(PLAN, seed=seed, max_requeues=0))
    results = [result for _ in range(4) for result in queue.step()]
    if blocked == JOBS:
        assert [result.key.seed for result in results] == [0, 1] and queue.is_empty
        assert all(result.error.startswith(f"{tmp_path / JOBS}") for result in results)
        return
    assert results == [] and queue.live == 2
    assert queue.cancel() == 2
    queue.add(replace(PLAN, seed=2, max_requeues=0))
    engine.says = Status(state=JobState.ENDED, reason="node failed")
    assert [result.record is not None for _ in range(2) for result in queue.step()] == [True]


def test_invalid_lines_of_a_keys_file_are_rejected_without_quoting_them(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.touch(mode=0o600)
    for line in ("s3cr3t", "1A=s3cr3t", "A=s3cr3t\0"):
        keys.write_text(f"# mine\n{line}\n")
        with pytest.raises(UsageError, match="line 2: must be NAME=value") as raised:
            load_keys(keys)
        assert "s3cr3t" not in str(raised.value)


def test_a_bench_does_not_submit_runs(tmp_path: Path) -> None:
    bench = Bench(data_dir=tmp_path, cluster="local", max_parallel=2)
    with pytest.raises(UsageError, match="--cluster and --max-parallel need a pytest session"):
        bench.run("dummy", "smoke-digits")
