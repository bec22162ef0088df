"""The example CI files pass their linters, and their commands work."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.examples.conftest import EXAMPLES, Run

GITHUB, GITLAB = EXAMPLES / "github-workflow.yml", EXAMPLES / "gitlab-ci.yml"
LEADERBOARD = EXAMPLES / "github-leaderboard.yml"


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def commands(path: Path, job: str) -> list[str]:
    if path != GITLAB:
        return [step["run"] for step in load(path)["jobs"][job]["steps"] if "run" in step]
    return [*load(path)["default"]["before_script"], *load(path)[job]["script"]]


@pytest.mark.full
@pytest.mark.parametrize(
    ("path", "schema"),
    [
        (GITHUB, ("vendor.github-workflows",)),
        (LEADERBOARD, ("vendor.github-workflows",)),
        (GITLAB, ("vendor.gitlab-ci", "--data-transform=gitlab-ci")),
    ],
    ids=["github", "leaderboard", "gitlab"],
)
def test_they_pass_a_linter(path: Path, schema: tuple[str, ...], tmp_path: Path) -> None:
    def check(file: Path) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", *schema, str(file)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert check(path).returncode == 0, check(path).stdout
    (tmp_path / path.name).write_text(path.read_text().replace("needs:", "need:"))
    assert check(tmp_path / path.name).returncode == 1


def test_both_run_the_same_commands() -> None:
    for job in ("graders", "agent"):
        local = " --sandbox=local --trust-agent=three-lines"  # GitLab's runners have no Docker
        assert [command.replace(local, "") for command in commands(GITLAB, job)] == commands(GITHUB, job)


@pytest.mark.full
def test_their_commands_work(folder: Path, run: Run) -> None:
    install, gate, agent = dict.fromkeys([*commands(GITLAB, "graders"), *commands(GITLAB, "agent")])
    assert "already satisfied" in run(install, folder)
    assert "4 passed" in run(gate, folder)
    assert "three-lines on own: any medal 0.0 % (1 competition × 1 seed; 1 no medal)" in run(agent, folder)
    assert (folder / "junit.xml").is_file() and list((folder / "reports").glob("*/report.html"))

    (folder / "agents/three-lines/start.sh").write_text("exit 1\n")
    assert "crashed" in run(agent, folder, status=1)


@pytest.mark.full
def test_a_leaderboard_is_rebuilt_by_the_command_of_its_file(folder: Path, run: Run) -> None:
    install, board = commands(LEADERBOARD, "build")
    assert "already satisfied" in run(install, folder)
    run("pytest --agent=dummy --split=smoke -k diabetes --sandbox=local", folder)
    (folder / "bundles").mkdir()
    run("mlebench bundle last -o bundles/dummy.tar.zst", folder)
    assert "site/index.html: 0 ranked rows, 1 not comparable" in run(board, folder)
    assert "split: 1 of 3 competitions" in (folder / "site/index.html").read_text()
