"""Sandboxes to test."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_mlebench.sandbox import Sandbox
from tests.sandbox.scripted import SANDBOXES, Runner, docker_sandbox, engine_problem, make_runner


def require_docker() -> None:
    """Skip if no engine answers; fail if one is required, as in CI."""
    if problem := engine_problem():
        if os.environ.get("MLEBENCH_REQUIRE_DOCKER") or os.environ.get("CI") == "true":
            pytest.fail(f"this test needs Docker: {problem}")
        pytest.skip(problem)


@pytest.fixture
def docker_engine() -> None:
    require_docker()


@pytest.fixture(
    params=[pytest.param(name, marks=[pytest.mark.docker] if name == "docker" else []) for name in SANDBOXES]
)
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    if request.param == "docker":
        request.getfixturevalue("docker_engine")
    return SANDBOXES[request.param]()


@pytest.fixture
def run(sandbox: Sandbox, tmp_path: Path) -> Runner:
    """Runs a script as an agent in the sandbox under test."""
    return make_runner(sandbox, tmp_path)


@pytest.fixture
def run_in_container(docker_engine: None, tmp_path: Path) -> Runner:
    """Runs a script as an agent in a container."""
    return make_runner(docker_sandbox(), tmp_path)
