"""pytest and ``mlebench`` find competitions in custom folders like the bundled ones."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from pytest_mlebench.cli.main import main
from tests.plugin.collected import collected

pytestmark = pytest.mark.full

ID = "own-parity"
NAME = f"competitions/{ID}/competition.yaml"


@pytest.fixture
def own(project: pytest.Pytester, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of competitions outside the project, one of them with a custom split."""
    folder = tmp_path_factory.mktemp("elsewhere") / "races"
    shutil.copytree(project.path / "competitions/toy-parity", folder / ID)
    file = folder / ID / "competition.yaml"
    text = file.read_text()
    for old, new in (("id: toy-parity", f"id: {ID}"), ("split: smoke", "split: races")):
        assert old in text
        text = text.replace(old, new)
    file.write_text(text)
    monkeypatch.chdir(project.path)
    return folder


@pytest.fixture
def options(own: Path) -> tuple[str, ...]:
    return (f"--competitions-dir={own}", "--agent=toy/gold", "-p", "no:cacheprovider")


@pytest.mark.parametrize("choice", [("-k", "own-parity"), ("-m", "races"), ("--split=races",), (NAME,)])
def test_pytest_finds_them(project: pytest.Pytester, options: tuple[str, ...], choice: tuple[str, ...]) -> None:
    result = project.runpytest_subprocess(*options, "--co", "-q", *choice)
    assert collected(result) == [f"{NAME}::toy/gold[seed=0]"]


def test_the_ini_key_names_several_folders(project: pytest.Pytester, own: Path) -> None:
    with (project.path / "tox.ini").open("a") as file:
        file.write(f"\nmlebench_competitions_dir = {own} competitions\n")
    for id in (ID, "toy-parity"):
        found = collected(project.runpytest_subprocess("--co", "-q", "--agent=toy/gold", "-k", id))
        assert found == [f"competitions/{id}/competition.yaml::toy/gold[seed=0]"]


def test_they_run_with_workers_and_are_resumed(project: pytest.Pytester, options: tuple[str, ...]) -> None:
    first = project.runpytest_subprocess(*options, "--split=races", "--run-group=own", "-n", "2")
    assert "1 gold" in first.outlines[-1]
    group = json.loads((project.path / "reports/own/manifest.json").read_text())
    assert [(run["competition_id"], run["nodeid"]) for run in group["runs"]] == [(ID, f"{NAME}::toy/gold[seed=0]")]
    assert group["settings"]["competitions"][ID]["split"] == "races"
    again = project.runpytest_subprocess("--resume=own", "-p", "no:cacheprovider")
    again.stdout.fnmatch_lines(["*1 run of this group is finished; it is not rerun*", "*1 gold*"])


def test_a_mark_in_a_custom_test_can_name_them(project: pytest.Pytester, options: tuple[str, ...]) -> None:
    path = project.makepyfile(f"""
        import pytest

        @pytest.mark.competition("{ID}")
        def test_it(competition, dataset):
            assert competition.split == "races" and dataset.answers.is_file()
    """)
    project.runpytest_subprocess(options[0], path).assert_outcomes(passed=1)


def test_an_unknown_split_error_lists_custom_splits(project: pytest.Pytester, options: tuple[str, ...]) -> None:
    result = project.runpytest_subprocess(*options, "--split=race")
    result.stderr.fnmatch_lines(["*unknown split 'race'; did you mean races*"])


def test_mlebench_lists_prepares_verifies_grades_and_removes_them(
    own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [f"--competitions-dir={own}", f"--data-dir={tmp_path}"]

    def output(*arguments: str, status: int = 0) -> str:
        assert main([*arguments, *folders]) == status
        return capsys.readouterr().out

    assert [row["id"] for row in json.loads(output("list", "--split=races", "--json"))] == [ID]
    output("prepare", "-c", ID)
    assert output("verify", "-c", ID) == f"{ID}: no differences\n"
    sample = tmp_path / ID / "prepared/public/sample_submission.csv"
    assert output("grade-sample", str(sample), ID).startswith(f"{ID}: score 0.5")
    lines = tmp_path / "subs.jsonl"
    lines.write_text(json.dumps({"competition_id": ID, "submission_path": str(sample)}))
    assert '"total_runs": 1' in output("grade", f"--submission={lines}", f"--output-dir={tmp_path / 'out'}", "--json")
    golden = own / ID / "golden.json"
    golden.unlink()
    assert main(["golden", ID, folders[0]]) == 0
    assert json.loads(golden.read_text())["scores"]["<sample_submission>"] == 0.5
    capsys.readouterr()
    assert f"{ID}: freed" in output("remove", "-c", ID)


def test_mlebench_also_reads_the_ini_key(
    project: pytest.Pytester, own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (project.path / "tox.ini").open("a") as file:
        file.write(f"\nmlebench_competitions_dir = {own}\n")
    assert main(["list", "--split=races", "--json"]) == 0
    assert [row["id"] for row in json.loads(capsys.readouterr().out)] == [ID]
