"""The example competition."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest

from tests.examples.conftest import EXAMPLES, Run

pytestmark = pytest.mark.full


def test_it_passes_its_gate(folder: Path, run: Run) -> None:
    assert "4 passed" in run("pytest -p no:cacheprovider competitions", folder)


def test_its_results_match_its_files(folder: Path, run: Run) -> None:
    golden = folder / "competitions/tomatoes/golden.json"
    before = golden.read_text()
    run("mlebench golden competitions/tomatoes", folder)
    assert golden.read_text() == before


def test_a_wrong_metric_does_not_pass(folder: Path, run: Run) -> None:
    grade = folder / "competitions/tomatoes/grade.py"
    grade.write_text(grade.read_text().replace("root_mean_squared_error", "mean_absolute_error"))
    assert "FAILED" in run("pytest -p no:cacheprovider competitions", folder, status=1)


def test_its_thresholds_are_the_scores_in_its_readme(folder: Path, run: Run, tmp_path: Path) -> None:
    run("mlebench prepare -c tomatoes --competitions-dir=competitions", folder)
    prepared = tmp_path / "data/tomatoes/prepared"
    assert len(pd.read_csv(prepared / "public/train.csv")) == 300
    assert len(pd.read_csv(prepared / "private/test.csv")) == 100
    readme = (EXAMPLES / "competitions/README.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    (printed,) = re.findall(r"prints\n\n```\n(.*?)```", readme, re.DOTALL)
    (folder / "baselines.py").write_text(program)
    assert run("python baselines.py", prepared.parent.parent.parent / "project") == printed


def test_its_table_can_be_in_another_folder(folder: Path, run: Run, tmp_path: Path) -> None:
    tomatoes, raw = folder / "competitions/tomatoes", tmp_path / "raw"
    raw.mkdir()
    (tomatoes / "tomatoes.csv").rename(raw / "tomatoes.csv")
    for name, old, new in (
        ("competition.yaml", "source: bundled", "url: https://example.org"),
        ("prepare.py", "read_text_csv(TABLE)", 'read_text_csv(raw / "tomatoes.csv")'),
    ):
        text = (tomatoes / name).read_text()
        assert old in text
        (tomatoes / name).write_text(text.replace(old, new))
    run(f"mlebench prepare -c tomatoes --competitions-dir=competitions --raw-dir={raw}", folder)
    assert (tmp_path / "data/tomatoes/prepared/private/test.csv").is_file()
