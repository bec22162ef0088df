"""Runs a bundled agent's start script as the local sandbox does: in its own folders, with a clean environment."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_mlebench.catalog import Competition, default_catalogue
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.data.store import DataStore
from pytest_mlebench.io.files import bundled
from tests.llm.conftest import certificates, upstream

__all__ = ["certificates", "upstream"]


@dataclass(frozen=True)
class Ran:
    """The results of an agent's run."""

    home: Path
    output: str

    @property
    def submission(self) -> Path:
        return self.home / "submission" / "submission.csv"


Start = Callable[..., Ran]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """``start(agent, data, *arguments, **variables)``."""

    def run(agent: str, data: Path, *arguments: str, **variables: str) -> Ran:
        home = Path(tempfile.mkdtemp(prefix="home-", dir=tmp_path))
        folders = {name: home / name for name in ("submission", "logs", "code")}
        for folder in folders.values():
            folder.mkdir()
        environment = {
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "HOME": str(home),
            "AGENT_DIR": str(bundled("agents") / agent),
            "DATA_DIR": str(data),
            "COMPETITION_ID": "some-competition",
            "TIME_LIMIT_SECS": "300",
            "PYTHONDONTWRITEBYTECODE": "1",
            "VALIDATION_URL": "http://localhost:9",  # nothing listens there
            **{f"{name.upper()}_DIR": str(folder) for name, folder in folders.items()},
            **variables,
        }
        script = bundled("agents") / agent / "start.sh"
        result = subprocess.run(
            ["bash", str(script), *arguments],
            env=environment,
            cwd=home,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
        )
        assert result.returncode == 0, result.stdout
        return Ran(home, result.stdout)

    return run


@pytest.fixture
def synthetic(tmp_path: Path) -> Callable[[str], Dataset]:
    """The prepared synthetic data of a bundled competition, by id."""

    def prepare(competition_id: str) -> Dataset:
        competition: Competition = default_catalogue()[competition_id]
        return DataStore(tmp_path / "store").prepare(competition, synthetic=1)

    return prepare
