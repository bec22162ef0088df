"""A Slurm with accounting: how jobs that its controller has forgotten ended, and limits of an account."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from pytest_mlebench.errors import ClusterError
from pytest_mlebench.extras.engines.contract import Cause, Job, JobState, QueueFull, Resources, Status
from pytest_mlebench.extras.engines.plan import new_name
from pytest_mlebench.extras.engines.slurm import SlurmEngine
from tests.cluster.conftest import require_slurm
from tests.cluster.slurm_accounting import PROGRAMS, AccountedSlurm, running_accounted_slurm
from tests.cluster.slurm_cluster import is_installed
from tests.cluster.test_sessions import wait_until

pytestmark = [pytest.mark.full, pytest.mark.serial]  # its daemons have time limits of their own

EAT = "import time; x = bytearray(400 * 10**6); time.sleep(600)"


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> Iterator[AccountedSlurm]:
    require_slurm()
    if not is_installed(*PROGRAMS):
        missing = "no accounts: apt-get install slurmdbd mariadb-server"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(missing)
    with running_accounted_slurm() as cluster:
        for name, value in cluster.environment.items():
            monkeypatch.setenv(name, value)
        yield cluster


def submit(folder: Path, command: list[str], *options: str, seconds: float = 600) -> Job:
    job = Job(name=new_name(), folder=folder / new_name())
    job.folder.mkdir()
    id = SlurmEngine(" ".join(options)).submit(job, command, Resources(seconds=seconds))
    return Job(name=job.name, folder=job.folder, id=id)


def test_accounting_shows_how_a_job_ended_and_enforces_limits(slurm: AccountedSlurm, tmp_path: Path) -> None:
    """A single test, because this Slurm starts slowly."""
    sleep = ["/bin/sleep", "600"]
    waits = submit(tmp_path, sleep, "--begin=now+1hour")
    cancelled = submit(tmp_path, sleep)
    hungry = submit(tmp_path, [sys.executable, "-c", EAT], "--mem=50M")
    well = submit(tmp_path, ["/bin/true"])
    stranded = submit(tmp_path, sleep, "--no-requeue")
    jobs, engine = [waits, cancelled, hungry, well, stranded], SlurmEngine()

    def are(state: JobState, *wanted: Job) -> bool:
        known = engine.poll(jobs)
        return all(known[job.name].state is state for job in wanted)

    wait_until(lambda: are(JobState.RUNNING, cancelled, stranded) and are(JobState.ENDED, hungry, well))
    slurm.call("scancel", waits.id, cancelled.id)
    wait_until(lambda: are(JobState.ENDED, cancelled, waits))
    slurm.kill("n1")
    wait_until(lambda: are(JobState.ENDED, stranded))
    slurm.start_node("n1")
    seen = engine.poll(jobs)
    ask = ("sacct", "--noheader", "--allocations", "--format=State", f"--jobs={stranded.id}")
    wait_until(lambda: "NODE_FAIL" in slurm.call(*ask))  # the controller sends its data only at intervals
    slurm.forget()
    assert slurm.call("squeue", "--noheader", "--states=all") == ""
    told = engine.poll(jobs)
    assert {job.name: told[job.name].reason for job in jobs} == {
        waits.name: "Slurm: cancelled",
        cancelled.name: "Slurm: cancelled",
        hungry.name: "Slurm: out of memory",
        well.name: "Slurm: completed",
        stranded.name: "Slurm: node fail",
    }
    assert causes(told) == causes(seen) == dict.fromkeys(seen, Cause.LOST) | {hungry.name: Cause.OUT_OF_MEMORY}

    slurm.manage("modify", "user", "root", "set", "maxsubmitjobs=2")
    accepted = [submit(tmp_path, sleep) for _ in range(2)]
    with pytest.raises(QueueFull, match="AssocMaxSubmitJobLimit"):
        submit(tmp_path, sleep)
    engine.cancel(accepted)
    wait_until(lambda: not slurm.call("squeue", "--noheader"))
    slurm.manage("modify", "qos", "normal", "set", "maxwall=10", "flags=DenyOnLimit")
    with pytest.raises(ClusterError, match="QOSMaxWall") as refused:
        submit(tmp_path, sleep, seconds=3000)
    assert not isinstance(refused.value, QueueFull), "the job would be retried forever"


def causes(statuses: Mapping[str, Status]) -> dict[str, Cause]:
    return {name: status.cause for name, status in statuses.items()}
