from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.slurm_cluster import SlurmCluster, is_installed, running_cluster
from tests.plugin.conftest import project

__all__ = ["project"]


def require_slurm() -> None:
    if not is_installed() or os.geteuid() != 0:  # nodes start jobs as their user
        (pytest.fail if os.environ.get("CI") else pytest.skip)("no Slurm: apt-get install slurm-wlm munge, and be root")


@pytest.fixture(scope="session")
def slurm_of_session() -> Iterator[SlurmCluster]:
    require_slurm()
    with tempfile.TemporaryDirectory(prefix="slurm-") as folder, running_cluster(Path(folder)) as cluster:
        yield cluster


@pytest.fixture
def slurm(slurm_of_session: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> SlurmCluster:
    """A cluster of two nodes; this process, and those that it starts, use it."""
    monkeypatch.setenv("MLEBENCH_SLURM_SECONDS", "0.5")
    for name, value in slurm_of_session.environment.items():
        monkeypatch.setenv(name, value)
    return slurm_of_session
