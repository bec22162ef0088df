"""Sessions whose data lies elsewhere: at a URL, or to be copied to a local disk."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

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
    """Where the toy's data was pushed to; there is none in the project."""
    url = f"file://{sessions.folder}/remote"
    toys = "--competitions-dir=competitions"
    for command in (("prepare",), ("push", url)):
        done = mlebench(sessions, *command, "-c", "toy-parity", toys)
        assert done.returncode == 0, done.stderr
    shutil.rmtree(sessions.folder / "data")
    return url


@pytest.mark.parametrize("options", [(), LOCAL], ids=["session", "cluster"])
def test_a_session_with_an_empty_data_folder_takes_pushed_data(
    options: tuple[str, ...], sessions: Sessions, url: str
) -> None:
    (sessions.folder / "competitions/toy-parity/prepare.py").write_text("raise SystemExit('it was prepared here')")
    output = sessions.run(*options, f"--data-source={url}", agents=("gold",))
    assert "1 gold" in output, output
    assert sessions.records()["gold"].data_source == url
    manifest = json.loads((sessions.group / "manifest.json").read_text())
    assert manifest["options"]["--data-source"] == url
    shutil.rmtree(sessions.folder / "data")
    assert "2 gold" in sessions.run("--seeds=2"), "a group that is resumed has forgotten the source"


def test_a_source_without_the_data_is_said_before_the_first_run(sessions: Sessions, url: str) -> None:
    shutil.rmtree(sessions.folder / "remote")
    yaml = sessions.folder / "competitions/toy-parity/competition.yaml"
    yaml.write_text(yaml.read_text().replace("source: bundled\n", ""))
    output = sessions.run(f"--data-source={url}", agents=("gold",))
    assert f"toy-parity: {url} has no data of it" in output and "Traceback" not in output, output
    assert not sessions.group.exists()


def test_options_of_data_that_have_no_effect_are_refused(sessions: Sessions) -> None:
    output = sessions.run("--data-source=file:///x", "--prepare=never", agents=("gold",))
    assert "--prepare=never forbids" in output, output
    output = sessions.run("--data-source=ftp://x", agents=("gold",))
    assert "--data-source: 'ftp://x' is no URL of s3://" in output and "Traceback" not in output, output
