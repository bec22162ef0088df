"""The agent in README, written out and run as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_mlebench.agents import AgentRegistry
from pytest_mlebench.catalog.leaderboard import MEDALS
from pytest_mlebench.sandbox import Sandbox
from tests.agents.scripted_model import MISTAKE, PROGRAM, RIGHT
from tests.llm.test_runs import run, sandbox
from tests.llm.upstreams import KEY, Move, Upstream

__all__ = ["sandbox"]

README = Path(__file__).parents[2] / "README.md"


def written_from_readme(folder: Path) -> Path:
    """The folder of agents that a newcomer has who copies each file that README shows."""
    files = re.findall(r"`(agents/mine/[\w.]+)`:\n\n```\w+\n(.*?)\n```\n", README.read_text(), re.DOTALL)
    assert [name for name, _ in files] == ["agents/mine/config.yaml", "agents/mine/start.sh"]
    for name, text in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{text}\n")
    return folder / "agents"


def test_the_agent_in_the_readme_is_short(tmp_path: Path) -> None:
    files = [path for path in written_from_readme(tmp_path).rglob("*") if path.is_file()]
    assert sum(len(path.read_text().splitlines()) for path in files) < 15


@pytest.mark.full
def test_the_agent_in_the_readme_earns_a_medal(sandbox: Sandbox, upstream: Upstream, tmp_path: Path) -> None:
    upstream.play = lambda body: Move(f"```python\n{PROGRAM.replace(MISTAKE, RIGHT)}\n```")
    agent = AgentRegistry(written_from_readme(tmp_path))["mine"]
    record, run_dir = run(sandbox, tmp_path, agent, competition="smoke-breast-cancer")
    assert record.outcome in MEDALS, (run_dir / "run.log").read_text()
    (seen,) = upstream.seen
    assert seen.headers["Authorization"] == f"Bearer {KEY}"
    assert "Breast Cancer" in str(seen.body) and "minutes left" in str(seen.body)
