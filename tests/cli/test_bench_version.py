"""``--bench-version`` of each subcommand: the second version's results differ from the first's."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_mlebench.catalog import Competition, default_catalogue
from pytest_mlebench.cli.main import main
from tests.groups import record_with, save_group

pytestmark = pytest.mark.full  # these commands prepare and grade in separate processes
TOY = Path(__file__).parents[1] / "toys/competitions/toy-parity"
CORRECTED = {
    "competition.yaml": "changes: [other training data, half of the score]\nthresholds: indicative\n"
    "differences: {labels: made otherwise}\n",
    "prepare.py": """\
from .. import prepare as first


def prepare(raw, public, private):
    first.prepare(raw, public, private)
    (public / "train.csv").write_text("id,odd\\n1,1\\n")
""",
    "grade.py": """\
from .. import grade as first


def grade(submission, answers):
    return first.grade(submission, answers) / 2
""",
}
Run = Callable[..., tuple[str, str]]


@pytest.fixture
def toys(tmp_path: Path) -> Path:
    """A folder with one competition, whose second version has other training data and halves scores."""
    folder = Path(shutil.copytree(TOY, tmp_path / "competitions/toy-parity"))
    (folder / "v2").mkdir()
    for name, text in CORRECTED.items():
        (folder / "v2" / name).write_text(text)
    return folder.parent


@pytest.fixture
def run(toys: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a subcommand on the toys. Returns its output and its log."""

    def call(*arguments: object, data: bool = True, status: int = 0) -> tuple[str, str]:
        own = ["--competitions-dir", toys, *(["--data-dir", toys.parent / "data"] if data else [])]
        assert main([str(argument) for argument in (*arguments, *own)]) == status
        return capsys.readouterr()

    return call


@pytest.fixture
def prepared(run: Run, toys: Path) -> Path:
    """The data folder of the competition, with both versions prepared."""
    for version in (1, 2):
        run("prepare", "-c", "toy-parity", f"--bench-version={version}")
    return toys.parent / "data/toy-parity"


def test_prepare_adds_the_files_of_the_version(prepared: Path) -> None:
    rows = {
        name: len((prepared / name / "public/train.csv").read_text().splitlines())
        for name in ("prepared", "prepared-v2")
    }
    assert rows == {"prepared": 81, "prepared-v2": 2}


def test_list_shows_the_state_and_the_changes_of_the_version(run: Run) -> None:
    run("prepare", "-c", "toy-parity", "--bench-version=2")

    def listed(version: int) -> Any:
        out, _ = run("list", "-c", "toy-parity", "--json", f"--bench-version={version}")
        (row,) = json.loads(out)
        return row["state"], row["is_corrected"], len(row["changes"]), row["thresholds"]

    assert listed(1) == ("bundled", False, 0, "apply")
    assert listed(2) == ("prepared", True, 2, "indicative")


def test_verify_checks_the_files_of_the_version(prepared: Path, run: Run) -> None:
    (prepared / "prepared-v2/public/train.csv").unlink()
    run("verify", "-c", "toy-parity", "--bench-version=1")
    out, err = run("verify", "-c", "toy-parity", "--bench-version=2", status=1)
    assert "public/train.csv is missing" in out + err


def test_grade_and_grade_sample_score_with_the_grader_of_the_version(prepared: Path, run: Run, tmp_path: Path) -> None:
    answers = prepared / "prepared/private/test.csv"
    jobs = tmp_path / "submissions.jsonl"
    jobs.write_text(json.dumps({"competition_id": "toy-parity", "submission_path": str(answers)}))
    for version, score, medal in ((1, 1.0, "gold"), (2, 0.5, None)):
        out, _ = run("grade-sample", answers, "toy-parity", "--json", f"--bench-version={version}")
        output = tmp_path / f"graded-{version}"
        run("grade", "--submission", jobs, "--output-dir", output, f"--bench-version={version}")
        (written,) = output.glob("*grading_report*.json")
        for report in (json.loads(out), json.loads(written.read_text())["competition_reports"][0]):
            assert (report["bench_version"], report["score"]) == (f"v{version}", score)
            assert report["gold_medal"] == (medal == "gold")


def test_golden_writes_the_results_of_the_version_and_leaves_the_other(toys: Path, run: Run) -> None:
    first, second = (toys / "toy-parity" / name for name in ("golden.json", "v2/golden.json"))
    before = first.read_bytes()
    run("golden", "toy-parity", "--bench-version=2", data=False)
    assert first.read_bytes() == before
    goldens = [json.loads(path.read_text()) for path in (first, second)]
    assert [golden["scores"]["<answers>"] for golden in goldens] == [1.0, 0.5]
    assert goldens[0]["public"] != goldens[1]["public"]


def test_report_includes_only_groups_of_the_version(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    def group(version: str, outcome: str) -> None:
        competitions: list[Competition] = default_catalogue(version=version).split("low")
        records = [record_with(competition, outcome, agent="aide") for competition in competitions]
        save_group(
            tmp_path / version,
            [
                replace(record, split=own.split_label, report=replace(record.report, bench_version=version))
                for own, record in zip(competitions, records, strict=True)
            ],
        )

    def report(*arguments: str, status: int = 0) -> Any:
        assert main(["report", *arguments, "--format=json", "--runs-dir", str(tmp_path)]) == status
        done = capsys.readouterr()
        rates = [(own["split"], own["any_medal"]["mean"]) for own in json.loads(done.out or "{}").get("summaries", [])]
        return rates, done.err + caplog.text

    group("v1", "gold")
    group("v2", "no_medal")
    first, second = ("low", 100.0), ("low v2", 0.0)
    assert report("v1", "v2")[0] == [first, second]
    assert report("v1", "v2", "--bench-version=1")[0] == [first]
    rates, said = report("v1", "v2", "--bench-version=2")
    assert rates == [second] and "skipped groups of another version of the benchmark: v1" in said
    assert "none of these groups is of that version: v1" in report("v1", "--bench-version=2", status=2)[1]
