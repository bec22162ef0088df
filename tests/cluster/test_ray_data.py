"""Runs on Ray whose nodes pull their data from a URL."""

from __future__ import annotations

import pytest

from tests.cluster.ray_cluster import RayCluster
from tests.cluster.test_data import check_nodes_pull_data, url
from tests.cluster.test_ray import RAY, sessions
from tests.cluster.test_sessions import Sessions

__all__ = ["sessions", "url"]

pytestmark = [pytest.mark.full, pytest.mark.serial]  # its daemons have time limits of their own


def test_nodes_pull_data_and_the_session_does_not(
    sessions: Sessions, ray_cluster_of_three: RayCluster, url: str
) -> None:
    check_nodes_pull_data(sessions, url, RAY)
