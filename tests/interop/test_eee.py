"""Results for Every Eval Ever, validated by the official package in the folder ``MLEBENCH_TEST_EEE``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.cli.main import main
from pytest_mlebench.results import read_group
from tests.groups import make_group, record_with, save_group
from tests.interop.recorded import recorded_group

SECRET = "sk-of-a-test-0123456789abcdef"


def exported(group: Path, out: Path, *more: str) -> dict[str, Any]:
    """The exported files of a group by path."""
    assert main(["export", "--to=eee", "-o", str(out), str(group), *more]) == 0
    return {path.relative_to(out).as_posix(): json.loads(path.read_text()) for path in out.rglob("*.json")}


def test_results_have_rates_with_intervals_and_scores_with_their_spread(tmp_path: Path) -> None:
    group = tmp_path / "runs/mine"
    recorded_group(group, runs=3, outcomes=("gold", "no_medal", "crashed"))
    ((path, log),) = exported(group, tmp_path / "out", "--organization=A lab", "--relationship=third_party").items()
    assert path.startswith("data/mle-bench/openai/gpt-4o-2024-11-20/")
    assert log["model_info"]["id"] == "openai/gpt-4o-2024-11-20"
    assert log["source_metadata"]["source_organization_name"] == "A lab"
    results = {own["evaluation_result_id"]: own for own in log["evaluation_results"]}
    medals = results["smoke.any_medal"]["score_details"]
    assert medals["score"] == pytest.approx(100 / 3)
    assert medals["uncertainty"]["standard_error"]["value"] == pytest.approx(100 / 3)
    assert 0 <= medals["uncertainty"]["confidence_interval"]["lower"] < 100 / 3
    scores = [record.score for record in read_group(group).records if record.score is not None]
    own = results["smoke-diabetes"]
    assert own["score_details"]["score"] == pytest.approx(sum(scores) / 2)
    assert own["metric_config"]["lower_is_better"] is True
    assert own["score_details"]["uncertainty"]["num_samples"] == 2


def test_a_second_export_replaces_the_files(tmp_path: Path) -> None:
    group = tmp_path / "runs/mine"
    (record,) = recorded_group(group, runs=1)
    first = exported(group, tmp_path / "out")
    replace(record, report=replace(record.report, score=1.0)).write(group / record.run_id)
    second = exported(group, tmp_path / "out")
    assert first.keys() == second.keys() and first != second


def test_an_invalid_relationship_is_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded_group(tmp_path / "runs/mine", runs=1)
    assert main(["export", "--to=eee", "--relationship=friend", str(tmp_path / "runs/mine")]) == 2
    assert "--relationship: 'friend' must be one of first_party, " in capsys.readouterr().err


@pytest.mark.full
def test_the_official_validator_accepts_every_group(tmp_path: Path) -> None:
    package = os.environ.get("MLEBENCH_TEST_EEE")
    if not package:
        pytest.skip("MLEBENCH_TEST_EEE names no folder with the package every_eval_ever")
    smoke = [own for own in default_catalogue() if own.split == "smoke"]
    recorded_group(tmp_path / "runs/recorded", runs=3, outcomes=("gold", "no_medal", "crashed"))
    make_group(tmp_path / "runs/whole", agents={"aide": 0.8, "mini/con": 0.3}, seeds=3)
    failed = [record_with(own, "error", agent="a") for own in smoke] + [record_with(smoke[0], "crashed", agent="b")]
    save_group(tmp_path / "runs/failed", failed, planned=[record.key for record in failed])
    twins = [record_with(own, "gold", agent="a") for own in smoke]
    twins = [replace(own, report=replace(own.report, generated="twin")) for own in twins]
    save_group(tmp_path / "runs/twins", twins, planned=[record.key for record in twins])
    second = [record_with(own, "silver", agent="a") for own in smoke]
    second = [replace(own, report=replace(own.report, bench_version="v2", score_low=0.1)) for own in second]
    save_group(tmp_path / "runs/second", second, planned=[record.key for record in second])
    make_group(tmp_path / "runs/one", agents=("aide",), seeds=1, missing=[])
    for record in (own := recorded_group(tmp_path / "runs/odd", runs=2)):
        models = {f"../{SECRET}/☃ model": {**next(iter(record.llm["models"].values()))}}
        odd = replace(record.report, score=float("inf") if record is own[0] else record.score)
        replace(record, llm={**record.llm, "models": models}, report=odd).write(tmp_path / "runs/odd" / record.run_id)
    environment = os.environ | {"PYTHONPATH": package, "OPENAI_API_KEY": SECRET}
    groups = [str(path) for path in sorted((tmp_path / "runs").iterdir())]
    command = [sys.executable, "-m", "pytest_mlebench.cli", "export", "--to=eee", "-o", str(tmp_path / "out"), *groups]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    files = [str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*.json")]
    assert len(files) == len(done.stdout.splitlines()) >= 5
    command = [sys.executable, "-m", "every_eval_ever.validator.cli", *files]
    checked = subprocess.run(
        command, cwd=tmp_path / "out", env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert not [name for name in files if SECRET in (tmp_path / "out" / name).read_text() + name]
