"""A project with a toy competition and agents with every outcome."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_mlebench.agents.registry import read_config

TOYS = Path(__file__).parents[1] / "toys"


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """An empty project with access to the toys; data and results stay inside it."""
    shutil.copytree(TOYS, pytester.path, dirs_exist_ok=True)
    trusted = " ".join(agent.id for agent in read_config(TOYS / "agents/toy/config.yaml") if agent.trusted)
    pytester.makeini(f"""
        [pytest]
        mlebench_data_dir = data
        mlebench_agents_dir = agents
        mlebench_sandbox = local
        mlebench_trust_agent = {trusted}
        mlebench_allow_secret = TOY_TOKEN
        mlebench_time_limit = 60s
    """)
    return pytester


@pytest.fixture
def run_toys(project: pytest.Pytester) -> Callable[..., pytest.RunResult]:
    """Run toy agents on the toy competition in a separate pytest process."""

    def run(*agents: str, options: tuple[str, ...] = ()) -> pytest.RunResult:
        chosen = [f"--agent=toy/{agent}" for agent in agents]
        return project.runpytest_subprocess(
            "competitions/toy-parity", "--run-group=toys", "-p", "no:cacheprovider", *chosen, *options
        )

    return run


@pytest.fixture
def records(project: pytest.Pytester) -> Callable[[], dict[str, dict[str, Any]]]:
    """The run records of the group ``toys``, by agent."""

    def read() -> dict[str, dict[str, Any]]:
        found = [json.loads(path.read_text()) for path in project.path.glob("reports/toys/*/run.json")]
        return {record["agent"].removeprefix("toy/"): record for record in found}

    return read
