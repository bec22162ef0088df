"""Data for pytest runs is prepared when needed, or the test is skipped; problems are reported before the first run."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_mlebench.records.outcome import Limits
from pytest_mlebench.runs.writer import OpenGroup
from tests.kaggle_server import KaggleServer
from tests.plugin.workers import in_one_process_and_with_xdist

pytestmark = pytest.mark.full

ID = "toy-parity"
Records = Callable[[], dict[str, dict[str, Any]]]
Run = Callable[..., pytest.RunResult]


@pytest.fixture
def kaggle(kaggle_server: KaggleServer, project: pytest.Pytester) -> KaggleServer:
    """The toy competition, changed so that its data must be downloaded."""
    config = project.path / f"competitions/{ID}/competition.yaml"
    config.write_text(config.read_text().replace("source: bundled", "source: kaggle"))
    served = kaggle_server.add(ID, {"train.csv": b"id\n"})
    served.pages = [{"name": "Description", "postTitle": "", "content": "<p>Odd?</p>", "mimeType": "text/html"}]
    return kaggle_server


@in_one_process_and_with_xdist
def test_data_that_a_run_needs_is_downloaded_and_prepared(
    workers: tuple[str, ...], kaggle: KaggleServer, project: pytest.Pytester, run_toys: Run, records: Records
) -> None:
    result = run_toys("gold", options=("--seeds=2", *workers))
    assert result.ret == 0
    result.stdout.fnmatch_lines([f"mlebench: {ID}: downloading", f"mlebench: {ID}: preparing"])
    assert len([request for request in kaggle.asked("archive") if request.range != "bytes=0-0"]) == 1
    assert {path.name for path in (project.path / "data" / ID).iterdir() if path.name != ".lock"} == {
        "prepared",
        "state.json",
        "files.jsonl.gz",
    }
    assert records()["gold"]["description"] == "bundled"


def test_without_preparing_a_run_is_skipped_with_the_command_that_prepares(
    kaggle: KaggleServer, project: pytest.Pytester, run_toys: Run, records: Records
) -> None:
    result = run_toys("gold", options=("--prepare=never", "--description=kaggle", "--seeds=2"))
    result.assert_outcomes(skipped=2)
    data = project.path / "data"
    command = f"mlebench prepare -c {ID} --data-dir {data} --description kaggle --competitions-dir "
    assert sum(line.startswith(f"{ID} is not prepared; run: {command}") for line in result.outlines) == 1
    assert kaggle.requests == [] and records() == {}


@in_one_process_and_with_xdist
def test_missing_credentials_are_reported_before_the_first_run(
    workers: tuple[str, ...],
    kaggle: KaggleServer,
    project: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    run_toys: Run,
) -> None:
    monkeypatch.delenv("KAGGLE_KEY")
    result = run_toys("gold", options=workers)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    text = result.stdout.str() + result.stderr.str()
    assert "KAGGLE_API_TOKEN" in text and "--prepare=never" in text
    assert "INTERNALERROR" not in text and "Traceback" not in text
    assert not (project.path / "reports/toys").exists()


@in_one_process_and_with_xdist
def test_an_unusable_data_folder_is_reported_before_images_are_built_and_leaves_no_group(
    workers: tuple[str, ...], project: pytest.Pytester, run_toys: Run
) -> None:
    project.makeconftest("""
        from pytest_mlebench.sandbox.local.sandbox import LocalSandbox
        LocalSandbox.prepare = lambda self, agent: print("an image is built")
    """)
    file = project.path / "file"
    file.touch()
    for prepare in ("auto", "never"):
        result = run_toys("gold", options=(f"--data-dir={file}", f"--prepare={prepare}", "-s", *workers))
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines([f"ERROR: --data-dir: {file} is not a folder"])
        assert "an image is built" not in result.stdout.str()
        assert not (project.path / "reports/toys").exists()
    result = run_toys("gold", options=("--prepare=never", "-s"))
    result.assert_outcomes(skipped=1)
    assert "an image is built" not in result.stdout.str()
    assert run_toys("gold", options=("-k", "nothing", "--run-group=empty")).ret == pytest.ExitCode.NO_TESTS_COLLECTED
    assert [path.name for path in (project.path / "reports").glob("[!.]*")] == ["toys"]


def test_a_group_without_runs_keeps_third_party_files(tmp_path: Path) -> None:
    for name, others in (("ours", ()), ("theirs", ("notes.txt",))):
        folder = tmp_path / name
        opened = OpenGroup(
            folder,
            agents=[],
            sandboxes={},
            limits=Limits(),
            workers=1,
            settings={},
            options={},
            competition_file=Path,
            page=str,
        )
        for other in others:
            (folder / other).touch()
        assert opened.close() is None
        assert [path.name for path in tmp_path.glob(f"{name}/*")] == list(others)


def test_rules_are_checked_only_for_selected_competitions(
    kaggle: KaggleServer, project: pytest.Pytester, run_toys: Run
) -> None:
    kaggle.competitions[ID].rules_accepted = False
    assert run_toys("gold", options=("-k", "nothing")).ret == pytest.ExitCode.NO_TESTS_COLLECTED
    assert run_toys("gold", options=("--collect-only",)).ret == 0
    assert kaggle.requests == []
    result = run_toys("gold")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"https://www.kaggle.com/c/{ID}/rules" in result.stderr.str()


def test_agents_may_read_kaggles_description_and_the_record_notes_it(
    kaggle: KaggleServer, project: pytest.Pytester, run_toys: Run, records: Records
) -> None:
    assert run_toys("gold").ret == 0
    description = project.path / "data" / ID / "prepared/public/description.md"
    assert "Odd?" not in description.read_text()
    project.makeini((project.path / "tox.ini").read_text() + "\nmlebench_description = kaggle\n")
    shutil.rmtree(project.path / "reports/toys")  # a group has only one description
    assert run_toys("gold").ret == 0
    assert "Odd?" in description.read_text()
    assert records()["gold"]["description"] == "kaggle"


def test_existing_raw_data_is_kept(kaggle: KaggleServer, project: pytest.Pytester, run_toys: Run) -> None:
    raw: Path = project.path / "data" / ID / "raw"
    raw.mkdir(parents=True)
    (raw / "train.csv").touch()
    assert run_toys("gold").ret == 0
    assert (raw / "train.csv").exists() and kaggle.requests == []


def test_a_custom_test_is_skipped_or_has_its_data_prepared(
    kaggle_server: KaggleServer, project: pytest.Pytester
) -> None:
    id = "spaceship-titanic"
    path = project.makepyfile(f"""
        import pytest

        @pytest.mark.competition({id!r})
        def test_data(dataset):
            assert dataset.answers.is_file()
    """)
    result = project.runpytest_subprocess(path, "--prepare=never")
    result.assert_outcomes(skipped=1)
    result = project.runpytest_subprocess(path)
    assert result.ret == pytest.ExitCode.USAGE_ERROR and "404" in result.stderr.str()
    kaggle_server.add(id, {"train.csv": b"PassengerId\n"})
    result = project.runpytest_subprocess(path)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"{id}: prepare.py raised *; is {project.path}*/raw the complete*download?"])


def test_an_invalid_ini_value_is_a_usage_error(project: pytest.Pytester) -> None:
    project.makeini("[pytest]\nmlebench_prepare = always\n")
    result = project.runpytest_subprocess()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: mlebench_prepare in */tox.ini: 'always' is not one of auto, never"])
