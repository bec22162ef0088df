"""The common behaviour of all engines."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from pytest_mlebench.errors import ClusterError
from pytest_mlebench.extras.engines.contract import Cause, Engine, Job, JobState, Resources, Status
from pytest_mlebench.extras.engines.local import LocalEngine
from pytest_mlebench.extras.engines.plan import OUTPUT, new_name
from pytest_mlebench.extras.engines.ray import RayEngine
from pytest_mlebench.extras.engines.slurm import SlurmEngine

RESOURCES = Resources(seconds=600, cpus=1)


@pytest.fixture(
    params=[
        "local",
        pytest.param("slurm", marks=pytest.mark.full),
        pytest.param("ray", marks=[pytest.mark.full, pytest.mark.serial]),
    ]
)
def engine(request: pytest.FixtureRequest) -> Engine:
    if request.param == "local":
        return LocalEngine()
    if request.param == "ray":
        request.getfixturevalue("ray_cluster_of_three")
        return RayEngine()
    request.getfixturevalue("slurm")
    return SlurmEngine()


@pytest.fixture
def submit(engine: Engine, tmp_path: Path) -> Iterator[Callable[[str], Job]]:
    """Submit a Python program. Jobs that still run at the end are cancelled."""
    jobs: list[Job] = []

    def submitted(program: str) -> Job:
        folder = tmp_path / str(len(jobs))
        folder.mkdir()
        job = Job(name=new_name(), folder=folder)
        named = program.replace("NAME", job.name).replace("FOLDER", str(folder))
        jobs.append(Job(name=job.name, folder=folder, id=engine.submit(job, [sys.executable, "-c", named], RESOURCES)))
        return jobs[-1]

    yield submitted
    with suppress(ClusterError):
        engine.cancel(jobs)


def wait_for(engine: Engine, job: Job, *states: JobState) -> Status:
    """Wait until the job has one of these states. A job that is no longer known has ended."""
    deadline = time.monotonic() + 120
    while True:
        status = engine.poll([job]).get(job.name, Status(state=JobState.ENDED))
        if status.state in states:
            return status
        assert time.monotonic() < deadline, (status, output(job))
        time.sleep(0.1)


def output(job: Job) -> str:
    path = job.folder / OUTPUT
    return path.read_text() if path.exists() else ""


def test_an_available_engine_describes_itself(engine: Engine) -> None:
    engine.check()
    assert engine.describe()["engine"] == engine.name


def test_a_job_runs_in_its_own_session_and_its_output_is_kept(engine: Engine, submit: Callable[[str], Job]) -> None:
    job = submit("import os, sys; print('out', os.getsid(0)); print('err', file=sys.stderr)")
    wait_for(engine, job, JobState.ENDED)
    first, second = sorted(output(job).splitlines(), reverse=True)
    assert second == "err" and first.startswith("out ") and first != f"out {os.getsid(0)}"


def test_a_cancelled_job_can_clean_up_and_ends(engine: Engine, submit: Callable[[str], Job]) -> None:
    job = submit(
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: (print('cleaned up', flush=True), sys.exit(0)))\n"
        "print('ready', flush=True)\n"
        "time.sleep(600)"
    )
    wait_for(engine, job, JobState.RUNNING)
    while "ready" not in output(job):
        time.sleep(0.05)
    engine.cancel([job])
    wait_for(engine, job, JobState.ENDED)
    assert "cleaned up" in output(job)
    engine.cancel([job])


def test_a_job_is_found_without_its_id_once_it_reports_that_it_is_alive(
    engine: Engine, submit: Callable[[str], Job]
) -> None:
    job = submit(
        "import time; from pathlib import Path; from pytest_mlebench.extras.engines import plan\n"
        "with plan.signal_alive(Path('FOLDER'), 'NAME'):\n"
        "    print('ready', flush=True); time.sleep(600)"
    )
    while "ready" not in output(job):
        time.sleep(0.05)
    forgotten = Job(name=job.name, folder=job.folder)
    assert wait_for(engine, forgotten, JobState.RUNNING).node
    engine.cancel([forgotten])
    wait_for(engine, forgotten, JobState.ENDED)


def test_a_killed_job_is_not_blamed_on_the_agent(engine: Engine, submit: Callable[[str], Job]) -> None:
    job = submit("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    assert wait_for(engine, job, JobState.ENDED).cause is Cause.LOST


def test_a_job_that_was_never_submitted_is_unknown(engine: Engine, tmp_path: Path) -> None:
    assert engine.poll([Job(name=new_name(), folder=tmp_path)]) == {}
