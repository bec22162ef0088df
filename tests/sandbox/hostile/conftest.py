"""Containers for attacks. Similar attacks share a container if results stay clear."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.sandbox.conftest import require_docker
from tests.sandbox.hostile.listener import Listener, listening
from tests.sandbox.hostile.on_apptainer import DOES_NOT_HOLD, OF_DOCKER
from tests.sandbox.scripted import ENGINE, Runner, docker_sandbox, make_runner


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
    """Like ``attack``, for containers shared by several tests of a module."""
    require_docker()
    return make_runner(docker_sandbox(), tmp_path_factory.mktemp("attacks"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if ENGINE != "apptainer":
        return
    for item in items:
        for start, reason in OF_DOCKER.items():
            if item.name.startswith(start) or item.path.name == start:
                item.add_marker(pytest.mark.skip(reason))
        for start, reason in DOES_NOT_HOLD.items():
            if item.name == start or item.name.partition("[")[0] == start:
                item.add_marker(pytest.mark.xfail(reason=reason, strict=False))
