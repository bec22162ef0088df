"""Sessions on a real Slurm, with failures of nodes and the controller, and interventions of administrators."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from pytest_mlebench.extras.engines.contract import Cause, Job, JobState, QueueFull, Resources
from pytest_mlebench.extras.engines.plan import new_name
from pytest_mlebench.extras.engines.slurm import SlurmEngine
from pytest_mlebench.records.record import RUNNING
from pytest_mlebench.results import read_group
from tests.cluster.slurm_cluster import SlurmCluster, running_cluster
from tests.cluster.test_data import check_nodes_pull_data, url
from tests.cluster.test_sessions import Sessions, wait_until
from tests.processes import processes_of

__all__ = ["url"]

pytestmark = [pytest.mark.full, pytest.mark.serial]  # its daemons have time limits of their own

SLURM = ("--cluster=slurm", "--time-limit=20s", "--cpus=1")
KILLS = int(os.environ.get("MLEBENCH_TEST_KILLS", "3"))
SEED = int(os.environ.get("MLEBENCH_TEST_SEED", "7"))


@pytest.fixture
def sessions(project: pytest.Pytester, slurm: SlurmCluster) -> Iterator[Sessions]:
    own = Sessions(project.path)
    yield own
    slurm.clear()
    for process in processes_of(own.group):  # without control groups, a killed job's agent leaves child processes
        with suppress(psutil.NoSuchProcess):
            process.kill()


def next_run(sessions: Sessions, agent: str, *earlier: Path) -> Path:
    """The run directory of the next attempt."""

    def look() -> Path | None:
        found = {path.parent for path in sessions.group.glob(f"*{agent}-0-*/{RUNNING}")} - set(earlier)
        return found.pop() if found else None

    run: Path = wait_until(look)
    return run


def in_queue(slurm: SlurmCluster) -> list[str]:
    return slurm.call("squeue", "--noheader", "--format=%i").split()


def test_nodes_pull_data_and_the_session_does_not(sessions: Sessions, slurm: SlurmCluster, url: str) -> None:
    check_nodes_pull_data(sessions, url, SLURM)


def test_runs_execute_on_nodes_and_leave_nothing_in_the_queue(sessions: Sessions, slurm: SlurmCluster) -> None:
    setup = sessions.folder / "setup.sh"
    setup.write_text("export FROM_SETUP=1; echo set up on $SLURMD_NODENAME\n")
    os.environ["OPENAI_API_KEY"] = "s3cr3t-t0k3n"
    try:
        output = sessions.run(
            *SLURM,
            "--seeds=2",
            f"--cluster-setup={setup}",
            "--cluster-options=--comment='two words'",
            agents=("gold", "slow", "crashes"),
        )
    finally:
        del os.environ["OPENAI_API_KEY"]
    assert "4 gold" in output and "2 crashed" in output, output
    records = [json.loads(path.read_text()) for path in sessions.group.glob("*/run.json")]
    assert len(records) == 6 and {record["job"]["engine"] for record in records} == {"slurm"}
    assert "set up on n" in (sessions.jobs_folder("gold") / "output.log").read_text()
    assert in_queue(slurm) == []
    (about,) = [
        session["cluster"] for session in json.loads((sessions.group / "manifest.json").read_text())["sessions"]
    ]
    assert about["engine"] == "slurm" and about["version"].startswith("slurm")
    shown = slurm.call("scontrol", "show", "job", records[0]["job"]["id"])
    assert "TimeLimit=00:41:00" in shown and "Comment=two words" in shown


def test_a_dead_node_or_a_cancelled_job_starts_a_new_attempt(sessions: Sessions, slurm: SlurmCluster) -> None:
    with sessions.start(*SLURM, agents=("sleeps-late",)) as session:
        first = sessions.wait_for_run("sleeps-late")
        (job,) = in_queue(slurm)
        node = slurm.call("squeue", "--noheader", "--format=%N", f"--jobs={job}").strip()
        slurm.kill(node)
        second = next_run(sessions, "sleeps-late", first)
        slurm.start_node(node)
        slurm.call("scancel", *in_queue(slurm))
        third = next_run(sessions, "sleeps-late", first, second)
        output, _ = session.communicate(timeout=200)
    assert "1 gold" in output, output
    record = sessions.records()["sleeps-late"]
    assert record.run_id == third.name and record.job["attempt"] == 2, output
    assert set(record.job["interrupted"]) == {first.name, second.name}
    assert in_queue(slurm) == []


def test_a_requeued_job_restarts_its_run(sessions: Sessions, slurm: SlurmCluster) -> None:
    with sessions.start(*SLURM, "--max-requeues=1", agents=("sleeps-late", "slow")) as session:
        first = sessions.wait_for_run("sleeps-late")
        job = json.loads((sessions.jobs_folder("sleeps-late") / "id").read_text())
        slurm.call("scontrol", "requeue", str(job))
        second = next_run(sessions, "sleeps-late", first)
        slurm.call("scontrol", "requeue", str(job))
        output, _ = session.communicate(timeout=200)
    wait_until(lambda: not in_queue(slurm))
    assert "1 gold" in output and "1 error" in output, output
    record = sessions.records()["sleeps-late"]
    assert "lost or preempted 2 times" in str(record.error)
    assert set(record.job["interrupted"]) >= {first.name} and record.run_id in (second.name, *record.job["interrupted"])


def test_runs_continue_without_session_and_controller(sessions: Sessions, slurm: SlurmCluster) -> None:
    with sessions.start(*SLURM, agents=("sleeps-late", "slow")) as session:
        running = sessions.wait_for_run("sleeps-late")
        slurm.save()
        slurm.kill("slurmctld")
        session.kill_all()
    refused = sessions.run()
    assert "--cluster=slurm" in refused and "INTERNALERROR" not in refused and "Traceback" not in refused, refused
    slurm.start_controller()
    with sessions.start() as session:
        slurm.kill("slurmctld")
        slurm.start_controller()
        output, _ = session.communicate(timeout=200)
    assert "2 gold" in output, output
    records = sessions.records()
    assert records["sleeps-late"].run_id == running.name, "the run was restarted"
    assert {record.job["attempt"] for record in records.values()} == {0}


def test_waiting_runs_show_slurms_reason_and_ctrl_c_empties_the_queue(sessions: Sessions, slurm: SlurmCluster) -> None:
    with sessions.start(*SLURM, "--cluster-options=--begin=now+1hour", agents=("gold",)) as session:
        (job,) = wait_until(lambda: in_queue(slurm))
        wait_until(lambda: (sessions.jobs_folder("gold") / "id").exists())
        watch = [sys.executable, "-m", "pytest_mlebench.cli", "watch", "toys", "--once"]
        shown = subprocess.run(watch, cwd=sessions.folder, capture_output=True, text=True, check=True).stdout
        slurm.call("scancel", job)
        wait_until(lambda: set(in_queue(slurm)) - {job})  # resubmitted
        session.send_signal(signal.SIGINT)
        output, _ = session.communicate(timeout=200)
    assert "1 waiting:" in shown and f"toy-parity, toy/gold, seed 0: slurm {job}, BeginTime" in shown, shown
    assert "ending 1 job of slurm" in output and in_queue(slurm) == [], output


def test_a_temporary_refusal_or_controller_failure_loses_no_run(sessions: Sessions, slurm: SlurmCluster) -> None:
    def set_state(state: str) -> None:
        slurm.call("scontrol", "update", "PartitionName=main", f"State={state}")

    def refused() -> set[str]:
        """Jobs that ended without a record or an error. Each retry removes the earlier one."""
        found = set()
        for path in (sessions.group / ".jobs/ended").glob("*.json"):
            with suppress(FileNotFoundError):
                found |= set() if any(json.loads(path.read_text()).values()) else {path.name}
        return found

    try:
        with sessions.start(*SLURM, "--max-parallel=1", "--seeds=2", agents=("slow",)) as session:
            sessions.wait_for_run("slow")
            set_state("DRAIN")
            first = wait_until(refused)
            slurm.save()
            slurm.kill("slurmctld")
            wait_until(lambda: refused() - first)
            slurm.start_controller()
            set_state("UP")
            output, _ = session.communicate(timeout=200)
    finally:
        slurm.clear()
        set_state("UP")
    assert "2 gold" in output and "slurm accepts no more jobs for now" in output, output
    assert {record.job["attempt"] for record in read_group(sessions.group).records} == {0}


def test_a_job_that_slurm_kills_for_memory_is_out_of_memory(tmp_path: Path, slurm: SlurmCluster) -> None:
    engine, job = SlurmEngine("--mem=50M"), Job(name=new_name(), folder=tmp_path)
    eat = "import time; x = bytearray(400 * 10**6); time.sleep(600)"
    job = Job(
        name=job.name, folder=tmp_path, id=engine.submit(job, [sys.executable, "-c", eat], Resources(seconds=600))
    )
    status = wait_until(
        lambda: (found := engine.poll([job]).get(job.name)) is not None and found.state is JobState.ENDED and found
    )
    assert status.cause is Cause.OUT_OF_MEMORY, slurm.call("scontrol", "show", "job", job.id)


def test_a_job_held_after_a_launch_failure_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Uses a fake ``squeue``, because a real launch failure cannot be provoked."""
    jobs = [
        Job(name=name, folder=tmp_path, id=str(number)) for number, name in enumerate(("fails", "waits", "held"), 1)
    ]
    reasons = ("launch failed requeued held", "Resources", "JobHeldUser")
    lines = [f"{job.name}|PENDING||{job.id}|{reason}" for job, reason in zip(jobs, reasons, strict=True)]
    (tmp_path / "queue").write_text("\n".join(lines) + "\n")
    for name, body in (("squeue", f"cat {tmp_path}/queue"), ("scancel", f'echo "$@" >>{tmp_path}/cancelled')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    found = SlurmEngine().poll(jobs)
    assert [found[job.name].state for job in jobs] == [JobState.ENDED, JobState.PENDING, JobState.PENDING]
    assert found["fails"].cause is Cause.LOST and (tmp_path / "cancelled").read_text() == "--quiet 1\n"


def test_a_full_queue_is_reported_and_a_refusal_is_a_one_line_error(
    sessions: Sessions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = sessions.run(*SLURM, "--cluster-options=--partition=other", agents=("gold",))
    assert "invalid partition" in refused and "Traceback" not in refused, refused
    assert "INTERNALERROR" not in refused and not list(sessions.group.glob("*/run.json"))
    with (
        tempfile.TemporaryDirectory(prefix="slurm-") as folder,
        running_cluster(Path(folder), nodes=1, max_jobs=3) as cluster,
    ):
        for name, value in cluster.environment.items():
            monkeypatch.setenv(name, value)
        engine, resources = SlurmEngine(), Resources(seconds=600)
        accepted: list[Job] = []
        with pytest.raises(QueueFull):
            while len(accepted) < 4:
                job = Job(name=new_name(), folder=tmp_path)
                engine.submit(job, ["/bin/sleep", "600"], resources)
                accepted.append(job)
        assert accepted
        engine.cancel(accepted)
        wait_until(lambda: {status.state for status in engine.poll(accepted).values()} <= {JobState.ENDED})


def test_random_kills_lose_or_repeat_no_run(sessions: Sessions, slurm: SlurmCluster) -> None:
    """``MLEBENCH_TEST_KILLS`` sets the number of kills."""
    rng, runs = random.Random(SEED), 6
    kills: list[str] = []
    options = (*SLURM, f"--seeds={runs}", "--max-requeues=1000")
    session = sessions.start(*options, agents=("slow",))
    deadline = time.monotonic() + 60 + 60 * KILLS
    try:
        while len(kills) < KILLS and time.monotonic() < deadline:
            time.sleep(rng.uniform(0.5, 4))
            kind = rng.choice(("session", "job", "job", "node", "controller"))
            if kind == "session":
                session.kill_all()
                session.communicate()
            elif kind == "job":
                found = [job for node in slurm.nodes for job in slurm.jobs_on(node)]
                if not found:
                    kind = ""
                else:
                    with suppress(psutil.NoSuchProcess):
                        rng.choice(found).kill()
            elif kind == "node":
                node = rng.choice(slurm.nodes)
                slurm.kill(node)
                slurm.start_node(node)
            else:
                slurm.save()
                slurm.kill("slurmctld")
                slurm.start_controller()
            slurm.resume()
            if kind:
                kills.append(kind)
            if session.poll() is not None:
                output = session.communicate()[0] if session.stdout and not session.stdout.closed else ""
                assert "Traceback" not in output, output
                if kind != "session":  # all runs are finished: add more
                    runs += 6
                options = (*SLURM, f"--seeds={runs}", "--max-requeues=1000")
                session = sessions.start(*options, agents=("slow",))
        output, _ = session.communicate(timeout=300)
    finally:
        session.kill_all()
        session.communicate()
    output = sessions.run(*SLURM, f"--seeds={runs}", agents=("slow",))
    group = read_group(sessions.group)
    assert len(kills) == KILLS and f"{runs} gold" in output, (kills, output)
    assert len(group.records) == runs == len(list(sessions.group.glob("*/run.json"))), kills
    wait_until(lambda: not in_queue(slurm))  # a requeued job whose run has ended exits as soon as Slurm starts it
