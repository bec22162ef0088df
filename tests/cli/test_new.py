"""Folders of new competitions and agents pass their checks unchanged."""

from __future__ import annotations

import json
import logging
import shutil
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from pytest_mlebench.agents.registry import read_config
from pytest_mlebench.catalog import Competition, default_catalogue
from pytest_mlebench.cli.main import main
from pytest_mlebench.errors import CompetitionError

pytestmark = pytest.mark.full


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_pytest(*arguments: str) -> pytest.RunResult:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    return pytest.RunResult(done.returncode, done.stdout.splitlines(), done.stderr.splitlines(), 0)


def test_a_new_competition_passes_the_gate(folder: Path, new_competition: Path) -> None:
    made = shutil.copytree(new_competition, folder / "competitions/house-prices")
    assert {path.name for path in made.iterdir() if path.is_file()} == {
        *("competition.yaml", "description.md", "golden.json", "prepare.py", "grade.py", "synthetic.py", "twin.py"),
    }
    done = run_pytest("competitions/house-prices", "-W", "error")  # as in this project, and in others
    done.assert_outcomes(passed=4, warnings=1)
    done.stdout.fnmatch_lines(["*the leaderboard's scores are placeholders; write your own*"])
    competition = Competition.load(made)
    assert competition.title == "House Prices" and competition.golden["origin"] == "own"
    assert len(competition.golden["invalid"]) == 11
    own = ("--competitions-dir=competitions", "--data-dir=data")
    assert main(["prepare", "-c", "house-prices", "--synthetic", *own]) == 0
    done = run_pytest("--agent=dummy", "-k", "house-prices", "--sandbox=local", *own)
    done.stdout.fnmatch_lines(["*warning: medals mean nothing yet: *the leaderboard's scores are placeholders*"])


def test_a_new_competition_is_listed_with_the_bundled_ones(new_competition: Path) -> None:
    assert "house-prices" in default_catalogue(new_competition.parent)


def test_template_files_pass_linters(folder: Path, new_competition: Path) -> None:
    shutil.copytree(new_competition, folder / "competitions/house-prices")
    main(["new-agent", "smith"])
    for command in (["check", "--select=E,F,W,B,UP,RUF"], ["format", "--check"]):
        options = ["--isolated", "--line-length=120", "competitions", "agents"]
        subprocess.run([sys.executable, "-m", "ruff", *command, *options], check=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["new-competition", "taken"], "competitions/taken already exists; nothing was overwritten"),
        (["new-competition", "a/b"], "'a/b' is not a valid name"),
        (["new-competition", "spaceship-titanic"], "spaceship-titanic is a bundled competition"),
        (["new-agent", "taken"], "agents/taken already exists; nothing was overwritten"),
        (["new-agent", "aide"], "aide is a bundled agent; choose another name"),
        (["new-agent", "../x"], "'../x' is not a valid name"),
        (["new-agent", "x", "--dir", "file"], "file is not a folder"),
    ],
)
def test_a_folder_that_cannot_be_created_is_a_one_line_error(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    for kind in ("competitions", "agents"):
        (folder / kind / "taken").mkdir(parents=True)
    (folder / "file").touch()
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert not list(folder.glob("*/taken/*"))


def test_commands_to_continue_with_are_quoted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    assert main(["new-agent", "smith", "--dir=my agents"]) == 0
    assert "    pytest --agent=smith --agents-dir='my agents' --split=smoke" in caplog.messages


def test_an_agent_with_an_id_that_is_too_long_is_not_created(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new-agent", "a" * 250]) == 1
    assert capsys.readouterr().err.count("\n") == 1 and not list(Path("agents").iterdir())


@pytest.mark.parametrize("id", ["2024", "no", "null", "2024-01-01"])
def test_an_id_that_yaml_would_read_as_another_type_is_text(id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make = Mock(side_effect=CompetitionError("prepare.py fails"))
    monkeypatch.setattr("pytest_mlebench.cli.new.make_golden", make)
    assert main(["new-competition", id]) == 1
    assert not Path("competitions", id).exists(), "it would be in the way of the next attempt"
    make.side_effect = None
    monkeypatch.setattr("pytest_mlebench.cli.new.write_golden", Mock())
    assert main(["new-competition", id]) == main(["new-agent", id]) == 0
    assert Competition.load(Path("competitions", id)).id == id
    assert [agent.id for agent in read_config(Path("agents", id, "config.yaml"))] == [id]


@pytest.mark.parametrize("sandbox", ["local", pytest.param("docker", marks=pytest.mark.docker)])
def test_a_new_agent_runs(folder: Path, sandbox: str) -> None:
    assert main(["new-agent", "smith"]) == 0
    result = run_pytest(
        *("--agent=smith", "--agents-dir=agents", "--split=smoke", "-k", "digits", f"--sandbox={sandbox}"),
        *("--runs-dir=runs", "--data-dir=data", "--trust-agent=smith"),
    )
    result.stdout.fnmatch_lines(["smoke-digits*smith*no medal*0.08345*finished"])
    (record,) = folder.glob("runs/*/smoke-digits_*/run.json")
    assert json.loads(record.read_text())["outcome"] != "error"
