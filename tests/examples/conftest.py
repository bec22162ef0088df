"""Examples are copied to a new folder and run there, as a user would."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"

Run = Callable[..., str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project with the examples' competitions and agents."""
    made = tmp_path / "project"
    for name in ("agents", "competitions"):
        shutil.copytree(EXAMPLES / name, made / name, ignore=shutil.ignore_patterns("__pycache__"))
    return made


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a shell command in a folder, without Docker, and return its output. Its exit status must be ``status``."""
    monkeypatch.setenv("MLEBENCH_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no-engine")
    monkeypatch.delenv("PIP_QUIET", raising=False)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")

    def run(command: str, folder: Path, *, status: int = 0) -> str:
        done = subprocess.run(
            ["bash", "-e", "-c", command],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == status, done.stdout
        return done.stdout

    return run
