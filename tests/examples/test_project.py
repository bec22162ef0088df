"""The example project that uses the fixtures."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.examples.conftest import EXAMPLES, Run

pytestmark = pytest.mark.full


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return Path(shutil.copytree(EXAMPLES / "project", tmp_path / "copycat"))


def test_its_tests_pass(project: Path, run: Run) -> None:
    assert "3 passed" in run("pytest -p no:cacheprovider", project)


def test_its_tests_fail_if_its_agent_breaks(project: Path, run: Run) -> None:
    (project / "agents/copycat/start.sh").write_text("echo hello\n")
    assert "2 failed, 1 passed" in run("pytest -p no:cacheprovider", project, status=1)
