"""Files for other programs, such as CI and hooks, are valid."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]


def load(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def test_the_workflow_runs_ci_on_each_supported_python() -> None:
    job = load(".github/workflows/ci.yml")["jobs"]["everything"]
    assert ".ci/run" in job["steps"][-1]["run"]
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["classifiers"]
    for version in job["strategy"]["matrix"]["python"]:
        assert f"Programming Language :: Python :: {version}" in classifiers


@pytest.mark.parametrize("path", [".ci/run", ".ci/docker"])
def test_ci_scripts_are_valid_bash(path: str) -> None:
    assert (ROOT / path).stat().st_mode & 0o111
    subprocess.run(["bash", "-n", ROOT / path], check=True)


def test_the_hooks_before_a_commit_need_no_network() -> None:
    for repository in load(".pre-commit-config.yaml")["repos"]:
        assert repository["repo"] == "local"
        assert {hook["language"] for hook in repository["hooks"]} == {"system"}


@pytest.mark.parametrize("name", ["bug", "competition", "idea"])
def test_issue_templates_have_labelled_fields(name: str) -> None:
    template = load(f".github/ISSUE_TEMPLATE/{name}.yml")
    fields = [field for field in template["body"] if field["type"] != "markdown"]
    assert fields and all(field["attributes"]["label"] for field in fields)


def test_blank_issues_are_allowed() -> None:
    assert load(".github/ISSUE_TEMPLATE/config.yml")["blank_issues_enabled"] is True
