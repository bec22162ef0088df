from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import ray_cluster
from tests.cluster.ray_cluster import RayCluster
from tests.cluster.slurm_cluster import SlurmCluster, is_installed, running_cluster
from tests.plugin.conftest import project

__all__ = ["project"]


def require_slurm() -> None:
    if not is_installed() or os.geteuid() != 0:  # nodes need root to start jobs as their user
        (pytest.fail if os.environ.get("CI") else pytest.skip)("no Slurm: apt-get install slurm-wlm munge, and be root")


@pytest.fixture(scope="session")
def slurm_of_session() -> Iterator[SlurmCluster]:
    require_slurm()
    with tempfile.TemporaryDirectory(prefix="slurm-") as folder, running_cluster(Path(folder)) as cluster:
        yield cluster


@pytest.fixture
def slurm(slurm_of_session: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> SlurmCluster:
    """A two-node cluster that this process and its child processes use."""
    return _used(slurm_of_session, monkeypatch)


@pytest.fixture(scope="session")
def slurm_of_four_of_session() -> Iterator[SlurmCluster]:
    require_slurm()
    with (
        tempfile.TemporaryDirectory(prefix="slurm-") as folder,
        running_cluster(Path(folder), nodes=4, cpus=2) as cluster,
    ):
        yield cluster


@pytest.fixture
def slurm_of_four(slurm_of_four_of_session: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> SlurmCluster:
    """A cluster of four nodes with two CPUs each, which this process and its child processes use."""
    return _used(slurm_of_four_of_session, monkeypatch)


def _used(cluster: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> SlurmCluster:
    monkeypatch.setenv("MLEBENCH_SLURM_SECONDS", "0.5")
    for name, value in cluster.environment.items():
        monkeypatch.setenv(name, value)
    return cluster


def require_ray() -> None:
    if not ray_cluster.is_installed():
        (pytest.fail if os.environ.get("CI") else pytest.skip)('no Ray: pip install "pytest-mlebench[ray]"')


@pytest.fixture(scope="session")
def ray_of_session() -> Iterator[RayCluster]:
    require_ray()
    with ray_cluster.running_ray() as cluster:
        yield cluster


@pytest.fixture
def ray_cluster_of_three(ray_of_session: RayCluster, monkeypatch: pytest.MonkeyPatch) -> RayCluster:
    """A three-node cluster that this process and its child processes use."""
    for name, value in ray_of_session.environment.items():
        monkeypatch.setenv(name, value)
    return ray_of_session
