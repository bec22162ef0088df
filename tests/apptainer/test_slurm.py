"""Sessions on a real two-node Slurm, with runs in Apptainer's containers, all as an ordinary user."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from itertools import cycle, islice
from pathlib import Path

import psutil
import pytest

from pytest_mlebench.results import read_group
from tests.cluster.slurm_cluster import SlurmCluster, is_installed, running_cluster
from tests.cluster.test_sessions import Session, Sessions, wait_until
from tests.extent import only_all
from tests.plugin.conftest import project
from tests.sandbox.scripted import ENGINE

__all__ = ["project"]

pytestmark = [
    pytest.mark.docker,
    pytest.mark.serial,
    pytest.mark.skipif(ENGINE != "apptainer", reason="MLEBENCH_TEST_ENGINE=apptainer runs it"),
]

RUNS = 24
KILLS = int(os.environ.get("MLEBENCH_TEST_KILLS", "10"))
SEED = int(os.environ.get("MLEBENCH_TEST_SEED", "7"))


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> Iterator[SlurmCluster]:
    if not is_installed():
        (pytest.fail if os.environ.get("CI") else pytest.skip)("no Slurm: apt-get install slurmctld slurmd munge")
    monkeypatch.setenv("MLEBENCH_SLURM_SECONDS", "0.5")
    with tempfile.TemporaryDirectory(prefix="slurm-") as folder, running_cluster(Path(folder)) as cluster:
        for name, value in cluster.environment.items():
            monkeypatch.setenv(name, value)
        yield cluster


@pytest.fixture
def scratch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The nodes' local disk. Its path is short, because it contains sockets."""
    with tempfile.TemporaryDirectory(prefix="node-") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        yield Path(folder)


def options(*more: str) -> tuple[str, ...]:
    images = f"--sif={os.environ['MLEBENCH_TEST_SIF']}"
    asked = ("--cluster=slurm", "--time-limit=60s", "--cpus=1", "--memory=512m", "--max-requeues=1000")
    return ("--sandbox=apptainer", images, "--network=none", "--build-network=full", *asked, *more)


def processes() -> dict[int, psutil.Process]:
    found = {}
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess):
            if process.status() != psutil.STATUS_ZOMBIE:
                found[process.pid] = process
    return found


def running(slurm: SlurmCluster) -> list[tuple[psutil.Process, psutil.Process]]:
    """The processes that execute runs (the parents of the containers), and the daemons of their jobs."""
    found = []
    for step in {own for node in slurm.nodes for own in slurm.jobs_on(node)}:
        with suppress(psutil.NoSuchProcess):
            found += [(own, step) for own in step.children(recursive=True) if "run-one" in own.cmdline()]
    return found


def kill(what: str, slurm: SlurmCluster, rng: random.Random) -> None:
    """``harness`` kills like the kernel when memory runs out. ``job`` kills everything from the daemon to the agent."""
    if what == "cancel":
        jobs = wait_until(lambda: slurm.call("squeue", "--noheader", "--states=RUNNING", "--format=%i").split())
        slurm.try_call("scancel", rng.choice(jobs))
        return
    harness, step = rng.choice(wait_until(lambda: running(slurm)))
    for process in [harness] if what == "harness" else [step, *step.children(recursive=True)]:
        with suppress(psutil.NoSuchProcess):
            process.kill()


@only_all
def test_random_kills_lose_or_repeat_no_run_and_leave_nothing(
    project: pytest.Pytester, slurm: SlurmCluster, scratch: Path
) -> None:
    """``MLEBENCH_TEST_KILLS`` sets the number of kills."""
    build = ("build", "toy/slow", *options()[1:2], "--agents-dir=agents", "--sandbox=apptainer", "--build-network=full")
    subprocess.run([sys.executable, "-m", "pytest_mlebench.cli", *build], cwd=project.path, check=True)
    sessions, rng = Sessions(project.path), random.Random(SEED)
    before, mounts = processes(), Path("/proc/self/mountinfo").read_text()

    def finished() -> int:
        return len(list(sessions.group.glob("*/run.json")))

    def wait_for(runs: int, session: Session) -> None:
        wait_until(lambda: finished() >= runs or session.poll() is not None)

    def begin() -> Session:
        return sessions.start(*options(f"--seeds={RUNS}"), agents=("slow",))

    kills = [*islice(cycle(("session", "job", "session", "harness", "cancel")), KILLS)]
    rng.shuffle(kills)
    session = begin()
    try:
        for number, what in enumerate(kills):
            wait_for(number * RUNS // (KILLS + 1), session)
            assert session.poll() is None, session.communicate()[0]
            if what == "session":
                session.kill_all()
                session.communicate()
                session = begin()
            else:
                kill(what, slurm, rng)
            slurm.resume()
        output, _ = session.communicate(timeout=300)
    finally:
        session.kill_all()
        session.communicate()
    group = read_group(sessions.group)
    found = Counter((record.seed, record.outcome.value, record.detail) for record in group.records)
    assert found == Counter((seed, "gold", "") for seed in range(RUNS)) and not group.broken, (
        kills,
        found,
        output[-5000:],
    )
    assert finished() == RUNS, f"a run was executed twice: {kills}"
    assert {record.sandbox.name for record in group.records if record.sandbox} == {"apptainer"}
    wait_until(lambda: not slurm.call("squeue", "--noheader", "--format=%i").split())
    sessions.run()  # the next process on a node removes leftover files
    left: list[str] = []

    def nothing_runs() -> bool:
        left[:] = [" ".join(own.cmdline()) for pid, own in processes().items() if pid not in before]
        return not left

    wait_until(nothing_runs, seconds=60)
    assert not [path.name for path in scratch.iterdir()], kills
    assert Path("/proc/self/mountinfo").read_text() == mounts
    print(f"{RUNS} runs, kills: {', '.join(kills)}")
