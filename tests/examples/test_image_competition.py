"""The example image competition passes its gate, and the agent's photos are where its page says."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from pytest_mlebench.catalog import Competition
from pytest_mlebench.data.store import DataStore
from tests.docs.pages import ROOT
from tests.examples.conftest import EXAMPLES, Run


def test_images_are_split_like_their_rows(tmp_path: Path) -> None:
    competition = Competition.load(EXAMPLES / "image-competition/leaves")
    dataset = DataStore(tmp_path).prepare(competition, synthetic=1)
    sides = [{path.stem for path in (dataset.public / side).iterdir()} for side in ("train", "test")]
    assert len(sides[0]) == len(sides[0] - sides[1]) == 90 and len(sides[1]) == 30
    ids = [line.partition(",")[0] for line in dataset.answers.read_text().splitlines()[1:]]
    assert set(ids) == sides[1] and all(re.fullmatch(r"\d{5}", id) for id in ids)


@pytest.mark.full
def test_it_passes_its_gate(run: Run, tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES / "image-competition/leaves", tmp_path / "competitions/leaves")
    assert "4 passed" in run("pytest -p no:cacheprovider competitions", tmp_path)


def test_its_page_shows_the_actual_files() -> None:
    page = (ROOT / "docs/image-competition.md").read_text()
    for name in ("competition.yaml", "prepare.py", "grade.py", "synthetic.py"):
        assert (EXAMPLES / "image-competition/leaves" / name).read_text().strip() in page, name
