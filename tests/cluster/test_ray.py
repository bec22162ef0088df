"""Sessions on a real three-node Ray, with nodes, sessions and actors that end during runs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_mlebench.errors import ClusterError
from pytest_mlebench.extras.engines.contract import Cause, Job, JobState, Resources
from pytest_mlebench.extras.engines.plan import new_name
from pytest_mlebench.extras.engines.ray import RayEngine
from pytest_mlebench.records.record import RUNNING
from tests.cluster.conftest import require_ray
from tests.cluster.ray_cluster import RayCluster, running_ray
from tests.cluster.test_sessions import Sessions, wait_until

pytestmark = [pytest.mark.full, pytest.mark.serial]  # its daemons have time limits of their own

RAY = ("--cluster=ray", "--time-limit=20s", "--cpus=1")


@pytest.fixture
def sessions(project: pytest.Pytester, ray_cluster_of_three: RayCluster) -> Iterator[Sessions]:
    yield Sessions(project.path)
    wait_until(lambda: not actors())  # an actor's process ends shortly after its run is recorded


def actors(kill: bool = False) -> list[str]:
    """Names of all waiting and running actors on the cluster. ``kill`` ends them, as an administrator would."""
    program = (
        "import json, ray\n"
        "ray.init(namespace='mlebench', log_to_driver=False, logging_level='ERROR')\n"
        "names = ray.util.list_named_actors()\n"
        f"[ray.kill(ray.get_actor(name)) for name in names if {kill}]\n"
        "print(json.dumps(names))"
    )
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True, timeout=120)
    found: list[str] = json.loads(done.stdout)
    return found


def next_run(sessions: Sessions, *earlier: Path) -> Path:
    run: Path = wait_until(lambda: {path.parent for path in sessions.group.glob(f"*/{RUNNING}")} - set(earlier)).pop()
    return run


def test_runs_execute_on_nodes_without_the_keys(sessions: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "s3cr3t-t0k3n")
    output = sessions.run(*RAY, "--seeds=3", agents=("gold", "crashes"))
    assert "3 gold" in output and "3 crashed" in output, output
    records = [json.loads(path.read_text()) for path in sessions.group.glob("*/run.json")]
    assert len(records) == 6 and {record["job"]["engine"] for record in records} == {"ray"}
    identifier, _, address = (sessions.jobs_folder("gold") / "id").read_text().partition("@")
    assert identifier in {record["job"]["id"] for record in records}
    (about,) = [
        session["cluster"] for session in json.loads((sessions.group / "manifest.json").read_text())["sessions"]
    ]
    assert about["engine"] == "ray" and about["version"].startswith("ray ") and about["address"] == address


def test_a_dead_node_or_a_killed_actor_starts_a_new_attempt(
    sessions: Sessions, ray_cluster_of_three: RayCluster
) -> None:
    with sessions.start(*RAY, agents=("sleeps-late",)) as session:
        try:
            first = next_run(sessions)
            node = ray_cluster_of_three.node_of(sessions.process_of("sleeps-late"))
            ray_cluster_of_three.kill(node)
            second = next_run(sessions, first)
            assert actors(kill=True)
            third = next_run(sessions, first, second)
            output, _ = session.communicate(timeout=200)
        finally:
            session.kill()
            ray_cluster_of_three.start_node(node)
    assert "1 gold" in output and output.count("its job was lost") == 2, output
    record = sessions.records()["sleeps-late"]
    assert record.run_id == third.name and record.job["attempt"] == 2, output
    assert set(record.job["interrupted"]) == {first.name, second.name}


def test_killing_a_session_loses_no_running_or_waiting_run(sessions: Sessions) -> None:
    with sessions.start(*RAY, "--cpus=2", "--seeds=3", agents=("sleeps-late",)) as session:
        next_run(sessions, next_run(sessions))
        wait_until(lambda: len(actors()) == 3)
        os.killpg(session.pid, signal.SIGKILL)
    watch = [sys.executable, "-m", "pytest_mlebench.cli", "watch", "toys", "--once"]
    shown = subprocess.run(watch, cwd=sessions.folder, capture_output=True, text=True, check=True).stdout
    assert "1 waiting:" in shown and "waits for resources; free: " in shown, shown
    refused = sessions.run("--cluster=none")
    assert "continue them with --cluster=ray" in refused, refused
    output = sessions.run()
    assert "3 gold" in output, output
    records = [json.loads(path.read_text()) for path in sessions.group.glob("*/run.json")]
    assert len(records) == 3 and {record["job"]["attempt"] for record in records} == {0}, output


def test_ctrl_c_ends_running_and_waiting_jobs(sessions: Sessions) -> None:
    with sessions.start(*RAY, "--time-limit=10m", "--cpus=2", "--seeds=3", agents=("sleeps-late",)) as session:
        next_run(sessions, next_run(sessions))
        wait_until(lambda: len(list(sessions.group.glob(".jobs/*/id"))) == 3)
        session.send_signal(signal.SIGINT)
        output, _ = session.communicate(timeout=200)
    assert "ending 3 jobs of ray" in output and not list(sessions.group.glob("*/run.json")), output


def test_a_job_that_takes_too_long_or_requests_too_much(ray_cluster_of_three: RayCluster, tmp_path: Path) -> None:
    engine = RayEngine()
    late, large = (Job(name=new_name(), folder=tmp_path) for _ in range(2))
    command = [sys.executable, "-c", "import time; time.sleep(600)"]
    assert engine.submit(late, command, Resources(seconds=1, cpus=0.5)).count("@") == 1
    engine.submit(large, command, Resources(seconds=600, cpus=64, memory=10**9, gpus=1))
    wait_until(lambda: engine.poll([late])[late.name].cause is Cause.TIMED_OUT)
    status = engine.poll([large])[large.name]
    assert status.state is JobState.PENDING and "of 4 CPU, 0 of 0 GPU" in status.reason
    engine.cancel([late, large])
    assert actors() == []


def test_a_job_that_ray_kills_for_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require_ray()
    with running_ray(nodes=1, environment={"RAY_memory_usage_threshold": "0.01"}) as cluster:
        for name, value in cluster.environment.items():
            monkeypatch.setenv(name, value)
        engine, job = RayEngine(), Job(name=new_name(), folder=tmp_path)
        engine.submit(job, [sys.executable, "-c", "import time; time.sleep(600)"], Resources(seconds=600, cpus=1))
        status = wait_until(lambda: (now := engine.poll([job]).get(job.name)) and now.state is JobState.ENDED and now)
    assert status.cause is Cause.OUT_OF_MEMORY, status


def test_a_missing_cluster_is_a_one_line_error(project: pytest.Pytester) -> None:
    require_ray()
    output = Sessions(project.path).run(*RAY, "--cluster-address=127.0.0.1:1", agents=("gold",))
    assert "--cluster=ray: " in output and "Traceback" not in output and "INTERNALERROR" not in output, output
    with pytest.raises(ClusterError):
        RayEngine("127.0.0.1:1").check()
