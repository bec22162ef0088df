"""Many runs on real multi-node clusters: each is recorded exactly once, despite failures."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.data.store import DataStore
from pytest_mlebench.results import read_group
from tests.cluster.ray_cluster import RayCluster
from tests.cluster.slurm_cluster import SlurmCluster
from tests.cluster.test_ray import RAY, actors
from tests.cluster.test_sessions import Session, Sessions, wait_until
from tests.cluster.test_slurm import SLURM, in_queue
from tests.extent import one_in, only_all
from tests.processes import processes_of

pytestmark = [pytest.mark.full, pytest.mark.serial]

RUNS = int(os.environ.get("MLEBENCH_TEST_RUNS", "15")) // 3 * 3
SMOKE = default_catalogue().split("smoke")
START = """
cd "$AGENT_DIR"
case $SEED in
    0) cp "$COMPETITION_ID.csv" "$SUBMISSION_DIR/submission.csv" ;;
    1) cp "$DATA_DIR/sample_submission.csv" "$SUBMISSION_DIR/submission.csv" ;;
esac
"""
"""An agent that submits the answers with seed 0, the sample submission with seed 1, and nothing with others."""


@pytest.fixture
def queue_of(slurm_of_four: SlurmCluster, project: pytest.Pytester) -> Iterator[SlurmCluster]:
    yield slurm_of_four
    slurm_of_four.clear()
    for process in processes_of(project.path / "reports"):  # paths of the test's own daemons contain the project
        with suppress(psutil.NoSuchProcess):
            process.kill()


@pytest.mark.parametrize("cluster", one_in(2, ["slurm_of_four", "slurm", "ray_cluster_of_three"]))
def test_each_run_of_the_smoke_split_with_three_seeds_is_recorded_once(
    cluster: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    used = request.getfixturevalue(cluster)
    store = DataStore(tmp_path / "data")
    agent = tmp_path / "agents/knowing"
    agent.mkdir(parents=True)
    for competition in SMOKE:
        store.prepare(competition)
        answers = store.dataset(competition).private / "test.csv"
        (agent / f"{competition.id}.csv").write_bytes(answers.read_bytes())
    (agent / "start.sh").write_text(START)
    (agent / "Dockerfile").write_text("FROM mlebench-env\n")
    (agent / "config.yaml").write_text(
        "knowing:\n  start: knowing/start.sh\n  dockerfile: knowing/Dockerfile\n  trusted: true\n"
    )
    options = RAY if isinstance(used, RayCluster) else SLURM
    chosen = ("--agent=knowing", "--split=smoke", "--seeds=3", "--sandbox=local", "--run-group=smoke")
    folders = (
        "--agents-dir=agents",
        "--data-dir=data",
        "--runs-dir=reports",
        "-p",
        "no:cacheprovider",
        "--trust-agent=knowing",
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *chosen, *folders, *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    group = read_group(tmp_path / "reports/smoke")
    outcomes = {(record.competition_id, record.seed): record.outcome.value for record in group.records}
    assert outcomes == {
        (competition.id, seed): outcome
        for competition in SMOKE
        for seed, outcome in enumerate(("gold", "no_medal", "no_submission"))
    }, done.stdout + done.stderr
    assert len(list(group.folder.glob("*/run.json"))) == len(group.records) == 9
    if isinstance(used, SlurmCluster):
        assert in_queue(used) == []
    else:
        wait_until(lambda: not actors())


def finished(sessions: Sessions) -> int:
    return len(list(sessions.group.glob("*/run.json")))


def check_all_are_recorded_once(sessions: Sessions, output: str) -> None:
    group = read_group(sessions.group)
    found = Counter((record.agent, record.seed, record.outcome.value) for record in group.records)
    wanted = {(f"toy/{medal}", seed, medal) for medal in ("gold", "silver", "bronze") for seed in range(RUNS // 3)}
    assert found == Counter(wanted) and not group.broken, output[-5000:]
    assert finished(sessions) == RUNS, "a run was executed twice"
    assert not list(sessions.group.glob("*/running.json")) or any(r.job["interrupted"] for r in group.records), output


def many(sessions: Sessions, options: tuple[str, ...]) -> Session:
    return sessions.start(
        *options, f"--seeds={RUNS // 3}", "--max-requeues=10", "-q", agents=("gold", "silver", "bronze")
    )


def wait_for_share(sessions: Sessions, share: float) -> None:
    wait_until(lambda: finished(sessions) >= share * RUNS, seconds=120 + 10 * RUNS)


@only_all
def test_many_runs_survive_the_failure_of_a_node_the_controller_and_the_session(
    project: pytest.Pytester, queue_of: SlurmCluster
) -> None:
    """``MLEBENCH_TEST_RUNS`` sets the number of runs."""
    sessions, slurm = Sessions(project.path), queue_of
    with many(sessions, SLURM) as session:
        wait_for_share(sessions, 0.15)
        slurm.kill("n2")
        wait_for_share(sessions, 0.3)
        slurm.kill("slurmctld")
        slurm.start_controller()
        wait_for_share(sessions, 0.5)
        session.kill_all()
        session.communicate()
    with sessions.start("-q") as session:
        wait_for_share(sessions, 0.7)
        slurm.start_node("n2")
        slurm.resume()
        slurm.wait_for_node("n2")
        output, _ = session.communicate(timeout=120 + 10 * RUNS)
    check_all_are_recorded_once(sessions, output)
    wait_until(lambda: not in_queue(slurm))


@only_all
def test_many_runs_on_ray_survive_the_failure_of_a_node_and_the_session(
    project: pytest.Pytester, ray_cluster_of_three: RayCluster
) -> None:
    sessions, ray = Sessions(project.path), ray_cluster_of_three
    with many(sessions, RAY) as session:
        wait_for_share(sessions, 0.2)
        ray.kill("r2")
        try:
            wait_for_share(sessions, 0.4)
            session.kill_all()
            session.communicate()
        finally:
            ray.start_node("r2")
    with sessions.start("-q") as session:
        output, _ = session.communicate(timeout=120 + 10 * RUNS)
    check_all_are_recorded_once(sessions, output)
    wait_until(lambda: not actors())
