"""The example evaluation as a Slurm job, on a real Slurm."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pytest_mlebench.results import read_group
from tests.cluster.conftest import slurm, slurm_of_session
from tests.cluster.slurm_cluster import SlurmCluster
from tests.cluster.test_sessions import wait_until
from tests.examples.conftest import EXAMPLES, Run

__all__ = ["slurm", "slurm_of_session"]

pytestmark = [pytest.mark.full, pytest.mark.serial]  # its daemons have their own time limits

OPTIONS = "--agent=three-lines --agents-dir=agents --competitions-dir=competitions --split=own "
OPTIONS += "--sandbox=local --cpus=1 --trust-agent=three-lines"


@pytest.fixture
def shared(folder: Path) -> Path:
    shutil.copy(EXAMPLES / "slurm/evaluate.sbatch", folder)
    return folder


def test_a_requeued_session_resumes_its_runs(shared: Path, run: Run, slurm: SlurmCluster) -> None:
    script = shared / "agents/three-lines/start.sh"
    script.write_text(f"sleep 15\n{script.read_text()}")
    job = run(f"sbatch --parsable evaluate.sbatch {OPTIONS} --time-limit=5m", shared).strip()
    wait_until(lambda: len(slurm.call("squeue", "--noheader", "--states=running").splitlines()) == 2)
    run(f"scontrol requeue {job}", shared)
    wait_until(lambda: not slurm.call("squeue", "--noheader"))
    log = (shared / "mle-bench.log").read_text()
    assert "three-lines on own" in log and log.count("test session starts") == 2, log
    (folder,) = (path for path in (shared / "reports").iterdir() if path.is_dir())
    (record,) = read_group(folder).records
    assert record.outcome == "no_medal" and record.job["engine"] == "slurm"
    assert [path.parent.name for path in folder.glob("*/run.log")] == [record.run_id]


def test_an_interrupted_session_cancels_its_jobs(shared: Path, run: Run, slurm: SlurmCluster) -> None:
    (shared / "agents/three-lines/start.sh").write_text("sleep 1000\n")
    job = run(f"sbatch --parsable evaluate.sbatch {OPTIONS}", shared).strip()
    wait_until(lambda: len(slurm.call("squeue", "--noheader", "--states=running").splitlines()) == 2)
    run(f"scancel --signal=INT --batch {job}", shared)
    wait_until(lambda: not slurm.call("squeue", "--noheader"))
    assert "--resume=" in (shared / "mle-bench.log").read_text()
