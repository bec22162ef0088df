"""``--bench-version``: what is collected, recorded and resumed in each version of the benchmark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_mlebench.cli.main import main
from tests.plugin.collected import collected

pytestmark = pytest.mark.full  # each test starts sessions
TOY = Path("competitions/toy-parity")
GRADE = """\
from .. import grade as first


def grade(submission, answers):
    return first.grade(submission, answers) / 2
"""


@pytest.fixture
def corrected(project: pytest.Pytester) -> pytest.Pytester:
    """The toys; scores in version 2 of the competition are half of those in version 1."""
    folder = project.path / TOY / "v2"
    folder.mkdir()
    (folder / "competition.yaml").write_text(
        "changes: [half of the score]\nthresholds: indicative\ndifferences: {labels: made otherwise}\n"
    )
    (folder / "grade.py").write_text(GRADE)
    assert main(["golden", "--bench-version=2", str(project.path / TOY)]) == 0
    return project


def names(project: pytest.Pytester, *arguments: str) -> list[str]:
    result = project.runpytest_subprocess(str(TOY), "--collect-only", "-q", "-p", "no:cacheprovider", *arguments)
    return [line.split("::")[1] for line in collected(result)]


CHECKS = ["prepare", "scores", "rejections", "answers_stay_private"]


def test_graders_are_checked_in_both_versions_unless_one_is_named(corrected: pytest.Pytester) -> None:
    later = [f"{name}[v2]" for name in CHECKS]
    assert names(corrected) == CHECKS + later
    assert names(corrected, "--bench-version=1") == CHECKS
    assert names(corrected, "--bench-version=2") == names(corrected, "-m", "bench_v2") == later
    corrected.runpytest_subprocess(str(TOY), "-p", "no:cacheprovider").assert_outcomes(passed=8)


def test_a_run_of_the_second_version_is_labelled_everywhere(corrected: pytest.Pytester) -> None:
    options = ("-p", "no:cacheprovider", "--agent=toy/gold", "--run-group=toys")
    result = corrected.runpytest_subprocess(str(TOY), "--bench-version=2", *options)
    result.stdout.fnmatch_lines(["-- smoke v2", "toy/gold on smoke v2: any medal 0.0*"])
    group = corrected.path / "reports/toys"
    record = json.loads(next(group.glob("*/run.json")).read_text())
    assert (record["split"], record["report"]["bench_version"]) == ("smoke v2", "v2")
    assert (record["report"]["score"], record["report"]["thresholds"]) == (0.5, "indicative")
    manifest = json.loads((group / "manifest.json").read_text())
    assert (
        manifest["settings"]["bench_version"] == manifest["settings"]["competitions"]["toy-parity"]["version"] == "v2"
    )
    assert [run["nodeid"].split("::")[1] for run in manifest["runs"]] == ["toy/gold[seed=0,v2]"]
    assert sorted(path.name for path in (corrected.path / "data/toy-parity").glob("prepared*")) == ["prepared-v2"]

    result = corrected.runpytest_subprocess(str(TOY), *options, "--allow-changes")
    result.stderr.fnmatch_lines(["*is for version 2 of the benchmark, not 1: their results cannot be mixed*"])
    result = corrected.runpytest_subprocess("--resume=toys", "-p", "no:cacheprovider", "-v")
    result.stdout.fnmatch_lines(["*toy/gold?seed=0,v2?*", "-- smoke v2"])

    first = corrected.runpytest_subprocess(str(TOY), *options[:-1], "--run-group=first")
    first.stdout.fnmatch_lines(["-- smoke", "toy/gold on smoke: any medal 100.0*"])
    assert sorted(path.name for path in (corrected.path / "data/toy-parity").glob("prepared*")) == [
        "prepared",
        "prepared-v2",
    ]


def test_two_versions_are_prepared_graded_and_removed_separately(
    corrected: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    data = corrected.path / "data"
    own = ["--competitions-dir", str(corrected.path / "competitions"), "--data-dir", str(data)]
    for version in ("1", "2"):
        assert main(["prepare", "-c", "toy-parity", "--bench-version", version, *own]) == 0
    answers = data / "toy-parity/prepared-v2/private/test.csv"
    scores = []
    for version in ("1", "2"):
        capsys.readouterr()
        assert main(["grade-sample", str(answers), "toy-parity", "--json", "--bench-version", version, *own]) == 0
        report = json.loads(capsys.readouterr().out)
        scores.append((report["bench_version"], report["score"], report["gold_medal"]))
    assert scores == [("v1", 1.0, True), ("v2", 0.5, False)]
    assert main(["verify", "-c", "toy-parity", "--bench-version", "2", *own]) == 0
    assert main(["remove", "-c", "toy-parity", "--bench-version", "2", *own]) == 0
    assert {path.name for path in (data / "toy-parity").iterdir()} == {
        ".lock",
        "prepared",
        "state.json",
        "files.jsonl.gz",
    }


def test_an_unknown_version_is_rejected(project: pytest.Pytester) -> None:
    result = project.runpytest_subprocess(str(TOY), "--bench-version=3")
    result.stderr.fnmatch_lines(["*--bench-version: '3' is not one of 1, 2"])
