"""Sessions whose data is fetched from a URL or copied to a local disk."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster.test_sessions import LOCAL, Sessions, sessions

__all__ = ["sessions"]

pytestmark = pytest.mark.full


def mlebench(sessions: Sessions, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest_mlebench.cli", *arguments]
    done = subprocess.run(command, cwd=sessions.folder, capture_output=True, text=True, check=False, timeout=300)
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture
def url(sessions: Sessions) -> str:
    """URL of the toy's data, which is not in the project."""
    url = f"file://{sessions.folder}/remote"
    toys = "--competitions-dir=competitions"
    for command in (("prepare",), ("push", url)):
        done = mlebench(sessions, *command, "-c", "toy-parity", toys)
        assert done.returncode == 0, done.stderr
    shutil.rmtree(sessions.folder / "data")
    return url


def check_nodes_pull_data(sessions: Sessions, url: str, engine: tuple[str, ...]) -> None:
    """Check that nodes pull data once and copy it to their own disks, and that the session does neither."""
    options = (f"--data-source={url}", "--node-scratch=scratch")
    output = sessions.run(*engine, *options, agents=("gold", "slow"))
    assert "2 gold" in output and "pulling" not in output, output
    logs = [(sessions.jobs_folder(agent) / "output.log").read_text() for agent in ("gold", "slow")]
    assert sum("toy-parity: pulling" in log for log in logs) == 1, logs
    assert any("toy-parity: copying to" in log for log in logs), logs
    assert {record.data_source for record in sessions.records().values()} == {url}
    assert [path.name for path in sessions.folder.glob("scratch/*/*")] == [".locks"]


@pytest.mark.parametrize("options", [(), LOCAL], ids=["session", "cluster"])
def test_a_session_with_an_empty_data_folder_pulls_data(options: tuple[str, ...], sessions: Sessions, url: str) -> None:
    (sessions.folder / "competitions/toy-parity/prepare.py").write_text("raise SystemExit('it was prepared here')")
    output = sessions.run(*options, f"--data-source={url}", agents=("gold",))
    assert "1 gold" in output, output
    assert sessions.records()["gold"].data_source == url
    manifest = json.loads((sessions.group / "manifest.json").read_text())
    assert manifest["options"]["--data-source"] == url
    shutil.rmtree(sessions.folder / "data")
    assert "2 gold" in sessions.run("--seeds=2"), "a resumed group has lost its data source"


def test_a_source_without_the_data_is_an_error_before_the_first_run(sessions: Sessions, url: str) -> None:
    shutil.rmtree(sessions.folder / "remote")
    yaml = sessions.folder / "competitions/toy-parity/competition.yaml"
    yaml.write_text(yaml.read_text().replace("source: bundled\n", ""))
    output = sessions.run(f"--data-source={url}", agents=("gold",))
    assert f"toy-parity: {url} has no data for it" in output and "Traceback" not in output, output
    assert not sessions.group.exists()


def test_data_options_without_effect_are_rejected(sessions: Sessions) -> None:
    output = sessions.run("--data-source=file:///x", "--prepare=never", agents=("gold",))
    assert "--prepare=never forbids" in output, output
    output = sessions.run("--node-scratch=/tmp", agents=("gold",))
    assert "--node-scratch needs an engine" in output, output
    output = sessions.run("--data-source=ftp://x", agents=("gold",))
    assert "--data-source: 'ftp://x' is not a URL of s3://" in output and "Traceback" not in output, output


@pytest.fixture
def copies(sessions: Sessions) -> Callable[[], list[Path]]:
    """Copies of data on this node's scratch disk."""
    return lambda: [path for path in sessions.folder.glob("scratch/mlebench-*/*") if path.name != ".locks"]


def test_runs_on_a_node_share_one_copy_and_the_last_removes_it(
    sessions: Sessions, copies: Callable[[], list[Path]]
) -> None:
    with sessions.start(*LOCAL, "--node-scratch=scratch", agents=("slow", "sleeps-late")) as session:
        for agent in ("slow", "sleeps-late"):
            sessions.wait_for_run(agent)
        assert len(copies()) == 1
        shutil.rmtree(sessions.folder / "data")  # neither run needs it now
        output, _ = session.communicate(timeout=240)
    assert "2 gold" in output, output
    logs = [(sessions.jobs_folder(agent) / "output.log").read_text() for agent in ("slow", "sleeps-late")]
    assert sum("copying to" in log for log in logs) == 1, logs
    assert copies() == []


def test_a_killed_run_leaves_no_copy(sessions: Sessions, copies: Callable[[], list[Path]]) -> None:
    with sessions.start(*LOCAL, "--node-scratch=scratch", "--time-limit=5s", agents=("sleeps-late",)) as session:
        first = sessions.wait_for_run("sleeps-late")
        os.kill(sessions.process_of("sleeps-late"), signal.SIGKILL)
        assert len(copies()) == 1
        output, _ = session.communicate(timeout=240)
    assert "1 gold" in output, output
    assert sessions.records()["sleeps-late"].job["interrupted"] == [first.name]
    assert copies() == []


def test_a_scratch_disk_that_cannot_be_used_is_an_error_before_the_agent_starts(sessions: Sessions) -> None:
    output = sessions.run(*LOCAL, "--node-scratch=/proc/scratch", agents=("gold",))  # only the node can detect this
    assert "--node-scratch: " in output and "cannot be used: " in output and "1 error" in output, output
    assert not list(sessions.group.glob("*/run.log")), "the agent was started"
