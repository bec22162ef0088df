"""``--data=twin``, from the session to everything that shows its results."""

from __future__ import annotations

import csv
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_mlebench import Bench
from pytest_mlebench.catalog import Competition
from pytest_mlebench.cli.main import main
from pytest_mlebench.data.preparing import seed_of
from pytest_mlebench.data.store import DataStore

pytestmark = pytest.mark.full

MARK = "twin data: not comparable with real scores"
SNOOP = """#!/bin/bash
# Looks for what could tell it how its data was made, before it submits.
{ env; ls -laR "$DATA_DIR"; cat "$DATA_DIR"/*; } > "$LOGS_DIR/seen.txt" 2>&1
cp -r "GROUP" "COPY"
cp "$DATA_DIR/sample_submission.csv" "$SUBMISSION_DIR/submission.csv"
"""


@pytest.fixture
def houses(project: pytest.Pytester, new_competition: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project with the competition from `mlebench new-competition` and an agent that lists its files."""
    monkeypatch.chdir(project.path)
    shutil.copytree(new_competition, project.path / "competitions/house-prices")
    folder = project.path / "agents/snoop"
    folder.mkdir()
    script = SNOOP.replace("GROUP", str(project.path / "reports")).replace("COPY", str(project.path / "copy"))
    (folder / "start.sh").write_text(script)
    config = "snoop: {start: snoop/start.sh, dockerfile: snoop/Dockerfile, kwargs_type: argparse, trusted: true}\n"
    (folder / "config.yaml").write_text(config)
    return project


def session(
    project: pytest.Pytester, *options: str, competitions: str = "competitions/house-prices"
) -> pytest.RunResult:
    chosen = ["--trust-agent=snoop", "--run-group=twins", "-p", "no:cacheprovider", *options]
    return project.runpytest_subprocess(competitions, "--agent=snoop", *chosen)


def read(path: Path) -> Any:
    return json.loads(path.read_text())


def files(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in folder.rglob("*") if path.is_file()]


def test_results_on_twins_are_marked_and_the_seed_is_secret_until_the_end(
    houses: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = session(houses, "--data=twin:random:micro", "--seeds=2", "--twin-per-seed")
    ran.stdout.fnmatch_lines(["-- own twin", "Twin data: not comparable with real scores."])
    group = houses.path / "reports/twins"
    manifest = read(group / "manifest.json")
    _, key, size = manifest["settings"]["data"].split(":")
    seed = seed_of(key, houses.path / "data")
    assert manifest["twins"] == {"seed": seed, "size": "micro", "per_seed": True} and size == "micro"
    assert MARK in manifest["canonical"]["differences"]
    told = [str(seed).encode(), f"{seed:x}".encode()]
    seen = files(houses.path / "copy")  # the group as it was while the second agent ran
    assert any(b'"house-prices"' in content for content in seen)
    assert not [content for content in seen if any(word in content for word in told)]
    records = [read(path) for path in sorted(group.glob("*/run.json"))]
    assert [record["twin"]["run_seed"] for record in records] == [0, 1]
    assert len({record["data"]["answers"] for record in records}) == 2
    real = Competition.load(Path("competitions/house-prices")).leaderboard
    for record in records:
        assert (record["split"], record["report"]["generated"]) == ("own twin", "twin")
        assert record["report"]["gold_threshold"] != real.gold and not record["report"]["any_medal"]

    resumed = session(houses, "--resume=twins")
    assert "2 no medal" in resumed.outlines[-1] and read(group / "manifest.json")["settings"] == manifest["settings"]
    other = session(houses, "--data=twin:7:micro", "--seeds=3", "--twin-per-seed")
    other.stderr.fnmatch_lines([f"*data was 'twin:{key}:micro', is 'twin:k*:micro'*"])
    assert MARK.partition(":")[2] in (group / "report.html").read_text()
    capsys.readouterr()
    for form in ("json", "csv", "md"):
        assert main(["report", "twins", f"--format={form}"]) == 0
        out = capsys.readouterr().out
        assert "own twin" in out
        if form == "json":
            (told_group,) = json.loads(out)["groups"]
            assert any(MARK in line["detail"] for line in told_group["fairness"] if line["name"] == "data")
        if form == "csv":
            assert {row["generated"] for row in csv.DictReader(out.splitlines())} == {"twin"}
    assert {own["generated"] for own in read(group / "grading_report.json")["competition_reports"]} == {"twin"}
    assert main(["regrade", "twins", "--competitions-dir=competitions", "--data-dir=data"]) == 0
    assert "2 runs regraded, 0 with a different grade" in capsys.readouterr().out


def test_a_bundle_of_twins_verifies_and_its_rows_are_not_ranked(houses: pytest.Pytester) -> None:
    session(houses, "--data=twin:7:micro")
    shared: dict[str, Any] = {"data_dir": "data", "competitions_dir": ["competitions"], "runs_dir": "reports"}
    bench = Bench(**shared)
    bench.bundle("twins", "twins.bundle")
    card = bench.verify("twins.bundle")
    assert {check.name: check.result.name for check in card.checks}["grades"] == "verified", card
    rows, rejected = bench.board(["twins.bundle"], "site")
    (row,) = (row for row in rows if not row.is_reported)
    assert not rejected and (row.data, row.rank, row.status) == ("twin", None, "apart")
    assert any(MARK in reason for reason in row.reasons)
    # The seed is enough to generate the same twin.
    shutil.rmtree("data/twins")
    card = bench.verify("twins.bundle")
    assert {check.name: check.result.name for check in card.checks}["grades"] == "unchecked"
    assert main(["prepare", "-c", "house-prices", "--competitions-dir=competitions", "--data=twin:7:micro",
        "--data-dir=data"]) == 0  # fmt: skip
    assert {check.name: check.result.name for check in Bench(**shared).verify("twins.bundle").checks}["grades"] == (
        "verified"
    )
    for data in ("real", "twin:7:micro"):  # the session's data setting differs from the run's data
        regrading = Bench(**shared, data=data).regrade("twins")
        assert (len(regrading.runs), regrading.not_graded) == (1, {})


def test_competitions_without_a_twin_are_skipped_unless_named(houses: pytest.Pytester) -> None:
    named = session(houses, "--data=twin:7:micro", competitions="competitions/toy-parity")
    named.stderr.fnmatch_lines(["*toy-parity has no twin: *twin.py is missing; choose --data=real"])
    both = session(houses, "--data=twin:7:micro", "-rs", competitions="competitions")
    both.stdout.fnmatch_lines(["*toy-parity has no twin: *"])
    both.assert_outcomes(skipped=1)
    assert "1 no medal" in both.outlines[-1]


def test_twins_for_each_seed_are_prepared_as_one_result(houses: pytest.Pytester) -> None:
    options = ("--competitions-dir=competitions", "--data-dir=data", "--twin-per-seed", "--seeds=2", "--json")
    command = (sys.executable, "-m", "pytest_mlebench.cli", "prepare", "-c", "house-prices", "--data=twin:7:micro")
    made = houses.run(*command, *options)
    assert [found["house-prices"]["twin"]["run_seed"] for found in json.loads(made.stdout.str())] == [0, 1]
    assert made.stderr.str().count(":micro --twin-per-seed)") == 2


def test_real_data_and_twin_data_are_kept_apart(
    houses: pytest.Pytester, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    place = ["--competitions-dir=competitions", "--data-dir=data"]
    # In a separate process, because sessions of other tests may have reimported modules in this one.
    made = houses.run(
        sys.executable, "-m", "pytest_mlebench.cli", "prepare", "-c", "house-prices", "--data=twin:7:micro", *place
    )
    assert made.ret == 0 and MARK in made.stderr.str()
    real = DataStore(Path("data")).dataset(Competition.load(Path("competitions/house-prices")))
    assert not real.is_prepared and not real.folder.exists()
    (sample,) = Path("data/twins").glob("*/house-prices/prepared/public/sample_submission.csv")
    assert main(["grade-sample", str(sample), "house-prices", "--data=twin:7:micro", *place]) == 0
    assert "house-prices: score" in capsys.readouterr().out
    assert "Twin data (house-prices): not comparable with real scores" in caplog.text
    assert main(["list", "-c", "house-prices", "--data=twin:7:micro", *place]) == 0
    assert "prepared (twin)" in capsys.readouterr().out
    assert main(["prepare", "-c", "toy-parity", "--data=twin", *place]) != 0
    assert "toy-parity has no twin" in f"{capsys.readouterr().err}{caplog.text}"
    assert main(["remove", "-c", "house-prices", "--data=twin:7:micro", *place]) == 0
    assert not sample.exists()
