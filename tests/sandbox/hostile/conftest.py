"""Containers for attacks. Several attacks of a class share a container where that stays clear."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.sandbox.conftest import require_docker
from tests.sandbox.hostile.listener import Listener, listening
from tests.sandbox.scripted import Runner, docker_sandbox, make_runner


@pytest.fixture
def listener() -> Iterator[Listener]:
    with listening() as listener:
        yield listener


@pytest.fixture
def attack(run_in_container: Runner) -> Runner:
    """Runs a hostile script as an agent in a container."""
    return run_in_container


@pytest.fixture(scope="module")
def module_runner(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    """As ``attack``, for what several tests of a module share."""
    require_docker()
    return make_runner(docker_sandbox(), tmp_path_factory.mktemp("attacks"))
