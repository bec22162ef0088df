"""The documentation's example agent, which calls a model once, runs unchanged in both sandboxes."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_mlebench.agents import AgentRegistry
from pytest_mlebench.defaults import MEDALS
from pytest_mlebench.sandbox import Sandbox
from tests.agents.scripted_model import MISTAKE, PROGRAM, RIGHT
from tests.llm.test_runs import run, sandbox
from tests.llm.upstreams import KEY, Move, Upstream

__all__ = ["sandbox"]

AGENTS = Path(__file__).parents[2] / "examples/agents"


def test_the_agent_in_the_documentation_is_short() -> None:
    files = [path for path in (AGENTS / "one-program").iterdir() if path.is_file()]
    assert sum(len(path.read_text().splitlines()) for path in files) < 15


@pytest.mark.full
def test_the_agent_in_the_documentation_earns_a_medal(sandbox: Sandbox, upstream: Upstream, tmp_path: Path) -> None:
    upstream.play = lambda body: Move(f"```python\n{PROGRAM.replace(MISTAKE, RIGHT)}\n```")
    agent = AgentRegistry(AGENTS)["one-program"]
    record, run_dir = run(sandbox, tmp_path, agent, competition="smoke-breast-cancer")
    assert record.outcome in MEDALS, (run_dir / "run.log").read_text()
    (seen,) = upstream.seen
    assert seen.headers["Authorization"] == f"Bearer {KEY}"
    assert "Breast Cancer" in str(seen.body) and "minutes left" in str(seen.body)
