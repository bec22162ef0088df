"""A run on a real Slurm that is preempted by a job with a higher priority."""

from __future__ import annotations

import pytest

from tests.cluster.slurm_cluster import SlurmCluster
from tests.cluster.test_sessions import Sessions
from tests.cluster.test_slurm import SLURM, in_queue, next_run, sessions

__all__ = ["sessions"]

pytestmark = [pytest.mark.full, pytest.mark.serial]


def test_a_preempted_job_restarts_its_run_and_the_record_shows_it(sessions: Sessions, slurm: SlurmCluster) -> None:
    with sessions.start(*SLURM, agents=("sleeps-late",)) as session:
        first = sessions.wait_for_run("sleeps-late")
        urgent = ("--partition=urgent", "--nodes=2", "--exclusive", "--output=/dev/null", "--wrap=sleep 2")
        slurm.call("sbatch", *urgent)
        second = next_run(sessions, "sleeps-late", first)
        output, _ = session.communicate(timeout=200)
    assert "1 gold" in output and "submitted again" not in output, output
    record = sessions.records()["sleeps-late"]
    assert record.run_id == second.name and record.job["attempt"] == 1, record.job
    assert record.job["interrupted"] == [first.name] and in_queue(slurm) == []
