"""The ``mlebench`` command as users call it."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.cli.main import main
from tests.groups import make_group


def mlebench(*arguments: object, home: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Call the command. ``home`` is a folder without credentials."""
    command = [sys.executable, "-m", "pytest_mlebench.cli", *map(str, arguments)]
    environment = None
    if home is not None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("KAGGLE_", "XDG_"))}
        environment["HOME"] = str(home)
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    done = mlebench("prepare", "--split", "smoke", "--data-dir", folder)
    assert done.returncode == 0, done.stderr
    return folder


def grade(lines: str, data_dir: Path, tmp_path: Path) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
    (tmp_path / "subs.jsonl").write_text(lines)
    done = mlebench(
        "grade", "--submission", tmp_path / "subs.jsonl", "--output-dir", tmp_path / "out", "--data-dir", data_dir
    )
    reports = sorted((tmp_path / "out").glob("*_grading_report.json"))
    return done, json.loads(reports[-1].read_text()) if reports else {}


@pytest.mark.full
def test_prepare_reports_its_results_as_json(tmp_path: Path) -> None:
    done = mlebench("prepare", "-c", "smoke-digits", "--data-dir", tmp_path, "--json")
    assert done.returncode == 0
    result = json.loads(done.stdout)["smoke-digits"]
    assert result["prepared"] and Path(result["path"]) == tmp_path / "smoke-digits/prepared"


def test_prepare_without_credentials_explains_how_to_get_them_and_stops(tmp_path: Path) -> None:
    done = mlebench(
        "prepare", "-c", "spaceship-titanic", "-c", "smoke-digits", "--data-dir", tmp_path / "data", home=tmp_path
    )
    assert done.returncode == 1
    assert "KAGGLE_API_TOKEN" in done.stderr and not (tmp_path / "data").exists()


def test_the_error_for_missing_custom_data_names_its_folder(tmp_path: Path) -> None:
    options = ("--competitions-dir", "examples/image-competition", "-c", "leaves", "--data-dir", tmp_path / "data")
    done = mlebench("prepare", *options, "--force", home=tmp_path)
    assert done.returncode == 1 and "If the data is your own: `mlebench prepare" in done.stderr
    assert "--raw-dir=FOLDER --force" in done.stderr
    advice = re.search("to try without it: `mlebench (.*)`", done.stderr)
    assert advice and mlebench(*shlex.split(advice[1]), home=tmp_path).returncode == 0


@pytest.mark.full
def test_prepare_takes_lists_of_ids(tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_text("smoke-digits\n# smoke-diabetes\n")
    assert mlebench("prepare", "-l", tmp_path / "ids.txt", "--data-dir", tmp_path / "data").returncode == 0
    assert (tmp_path / "data/smoke-digits/prepared").is_dir() and not (tmp_path / "data/smoke-diabetes").exists()


@pytest.mark.full
def test_synthetic_data_is_prepared_without_kaggle_and_labelled_synthetic(tmp_path: Path) -> None:
    id, data = "spaceship-titanic", ("--data-dir", tmp_path / "data")
    done = mlebench("prepare", "-c", id, "--synthetic", *data, home=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"{id}: prepared in {tmp_path}/data/{id}/prepared (synthetic data; " in done.stderr
    assert mlebench("list", "-c", id, *data).stdout.endswith(" prepared (synthetic)\n")
    assert mlebench("verify", "-c", id, *data).returncode == 1, "checksums are for the real data"
    again = mlebench("prepare", "-c", id, "--json", *data, home=tmp_path)
    assert json.loads(again.stdout)[id]["synthetic"] is True
    assert f"{id}: already prepared in " in again.stderr and "--force prepares it again" in again.stderr
    assert mlebench("prepare", "-c", id, "--synthetic", "--raw-dir", tmp_path).returncode == 2


@pytest.mark.full
def test_mle_benchs_option_names_are_supported(tmp_path: Path) -> None:
    done = mlebench("prepare", "--competition-id", "smoke-digits", "--data-dir", tmp_path)
    assert done.returncode == 0 and (tmp_path / "smoke-digits/prepared").is_dir()
    assert len(json.loads(mlebench("list", "-a", "--json", "--data-dir", tmp_path).stdout)) == 75


@pytest.mark.full
def test_verify_reports_what_it_checks(data_dir: Path) -> None:
    done = mlebench("verify", "-c", "smoke-digits", "--data-dir", data_dir)
    assert done.stderr == "smoke-digits: verifying\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["prepare", "-c", "smoke-digit"], "unknown competition 'smoke-digit'; did you mean smoke-digits"),
        (["prepare", "--split", "lihgt"], "unknown split 'lihgt'"),
        (["prepare", "-l", "none.txt"], "none.txt is not a readable list"),
        (["prepare", "--split", "smoke", "--raw-dir", "."], "--raw-dir needs exactly one competition, not 3"),
        (["prepare", "-c", "smoke-digits", "--raw-dir", "nowhere"], "--raw-dir: nowhere is not a folder"),
        (["grade", "--submission", "none.jsonl", "--output-dir", "."], "none.jsonl cannot be read"),
        (["grade-sample", "x.csv", "smoke-digts"], "did you mean smoke-digits"),
        (["prepare"], "one of the arguments"),
    ],
)
def test_an_invalid_call_prints_one_line_and_has_status_2(arguments: list[str], message: str, tmp_path: Path) -> None:
    done = mlebench(*arguments)
    assert done.returncode == 2
    assert message in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["xyzzy"], "unknown command 'xyzzy'; choose from agents, "),
        (["repot"], "unknown command 'repot'; did you mean report, "),
        (["compare"], "unknown command 'compare'; `mlebench report GROUP OTHER` compares run groups"),
        (["watch", "g", "--interval=-1"], "--interval: -1 must be from 0.1 to 86,400 seconds"),
        (["watch", "g", "--interval=1e300"], "--interval: 1e+300 must be from 0.1 to 86,400 seconds"),
        (
            ["report", "g", "--title=E=mc=", "--runs-dir=/nowhere"],
            "unknown run group (below /nowhere) 'g'",
        ),
        (["groups", "--runs-dir=/nowhere", "--note", "g", ""], "there is no run group 'g' below /nowhere"),
        (["list", "-l", os.devnull], "/dev/null names no competition"),
        (["list", "--split=/usr"], "split file /usr is a folder"),
        (["grade", "--submission=", "--output-dir=."], "the value of --submission is empty"),
        (["prepare", "-c", "smoke-digits", "--raw-dir", ""], "the value of --raw-dir is empty"),
        (["report", ""], "an argument of report is empty"),
        (["report", "--note", "text", ""], "an argument of report is empty"),
        (["grade", "--submission", os.devnull, "--output-dir=."], "/dev/null lists no submission"),
        (["groups", "--runs-dir", __file__], f"--runs-dir: {__file__} is not a folder"),
        (
            ["dev", "download-leaderboard", "-c", "x"],
            "unknown command 'dev'; `mlebench leaderboard` compares",
        ),
    ],
)
def test_a_mistake_suggests_a_correction(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith(f"mlebench: {message}")


def test_an_extra_argument_shows_the_commands_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["groups", "last"])
    error = capsys.readouterr().err
    assert "usage: mlebench groups" in error and "mlebench groups: error: unrecognized arguments: last" in error


@pytest.mark.parametrize("what", ["checksums", "leaderboard"])
def test_checksums_and_leaderboards_are_not_overwritten(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prepare", "-c", "smoke-digits", f"--overwrite-{what}"]) == 2
    error = capsys.readouterr().err
    assert "--overwrite-checksums and --overwrite-leaderboard are not supported: competition.yaml has" in error


def test_grade_writes_mle_benchs_report(data_dir: Path, tmp_path: Path) -> None:
    perfect = data_dir / "smoke-digits/prepared/private/test.csv"
    sample = data_dir / "smoke-diabetes/prepared/public/sample_submission.csv"
    lines = [
        {"competition_id": "smoke-digits", "submission_path": str(perfect), "more": "is\u2028ignored"},
        {"competition_id": "smoke-diabetes", "submission_path": str(sample)},
        {"competition_id": "smoke-digits", "submission_path": str(sample)},
        {"competition_id": "smoke-digits", "submission_path": str(tmp_path / "none.csv")},
        {"competition_id": "smoke-digits", "submission_path": None},
    ]
    text = "# comment\n\n// another\n" + "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    done, report = grade(text, data_dir, tmp_path)
    assert done.returncode == 0
    totals = {key: value for key, value in report.items() if key.startswith("total")}
    assert totals == {
        "total_runs": 5,
        "total_runs_with_submissions": 3,
        "total_valid_submissions": 2,
        "total_medals": 1,
        "total_gold_medals": 1,
        "total_silver_medals": 0,
        "total_bronze_medals": 0,
        "total_above_median": 1,
    }
    first = report["competition_reports"][0]
    assert first["score"] == 1.0 and first["gold_medal"] and first["percentile"] == 99.0
    fields = (
        "competition_id score gold_threshold silver_threshold bronze_threshold median_threshold any_medal gold_medal "
        "silver_medal bronze_medal above_median submission_exists valid_submission is_lower_better created_at "
        "submission_path error percentile"
    )
    assert set(fields.split()) <= first.keys()
    assert report["competition_reports"][2]["error"].startswith("column ")
    assert report["competition_reports"][4]["error"] == "there is no submission"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "Expecting property name enclosed in double quotes"),
        ("[" * 10_000 + "]" * 10_000, "it is nested deeper than 100 levels"),
        ('"text"', 'it must be an object with competition_id and submission_path, not "text"'),
        ('{"competition_id": "smoke-digits"}', "it must be an object with competition_id and submission_path, not {"),
        ("{}", "it must be an object with competition_id and submission_path, not {}"),
        ('{"competition_id": 1, "submission_path": "y"}', "competition_id must be a string, and"),
        ('{"competition_id": "smoke-digits", "submission_path": 3}', "submission_path a path or null"),
        ('{"competition_id": "smoke-digits", "submission_path": "a\\u0000"}', "submission_path a path or null"),
        (
            '{"competition_id": "smoke-digits", "submission_path": "~nobody-of-this-name/x"}',
            "there is no home folder ~n",
        ),
        ('{"competition_id": "smoke-digts", "submission_path": "y"}', "did you mean smoke-digits"),
    ],
)
def test_an_invalid_line_is_reported_before_any_is_graded(
    line: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines, out = tmp_path / "subs.jsonl", tmp_path / "out"
    lines.write_text(json.dumps({"competition_id": "smoke-digits", "submission_path": "x.csv"}) + f"\n\n{line}\n")
    assert main(["grade", f"--submission={lines}", f"--output-dir={out}", f"--data-dir={tmp_path}"]) == 2
    text = capsys.readouterr().err
    assert text.count("\n") == 1 and f"{lines}, line 3: " in text and message in text
    assert not out.exists()


def test_data_that_cannot_be_prepared_is_reported_before_any_is_graded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level("INFO")
    lines = [{"competition_id": id, "submission_path": None} for id in ("smoke-digits", "spaceship-titanic")]
    (tmp_path / "subs.jsonl").write_text("\n".join(map(json.dumps, lines)))
    words = (f"--submission={tmp_path}/subs.jsonl", f"--output-dir={tmp_path}/out", f"--data-dir={tmp_path}/data")
    assert main(["grade", *words]) == 1
    assert "spaceship-titanic: no raw data at " in capsys.readouterr().err and "line 1" not in caplog.text


def test_gradings_in_one_second_have_separate_reports(
    data_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, now = Mock(), datetime(2026, 3, 1, tzinfo=UTC)
    clock.now.side_effect = [now, now, now + timedelta(seconds=1)]
    monkeypatch.setattr("pytest_mlebench.cli.grading.datetime", clock)
    (tmp_path / "subs.jsonl").write_text('{"competition_id": "smoke-digits", "submission_path": null}')
    for _ in range(2):
        words = (f"--submission={tmp_path}/subs.jsonl", f"--output-dir={tmp_path}/out", f"--data-dir={data_dir}")
        assert main(["grade", *words]) == 0
    reports = sorted((tmp_path / "out").glob("*_grading_report.json"))
    assert [json.loads(path.read_text())["total_runs"] for path in reports] == [1, 1]


@pytest.mark.full
def test_grade_sample_prints_one_report(data_dir: Path) -> None:
    sample = data_dir / "smoke-digits/prepared/public/sample_submission.csv"
    done = mlebench("grade-sample", sample, "smoke-digits", "--data-dir", data_dir)
    assert done.returncode == 0 and done.stdout.startswith("smoke-digits: score 0.") and "no medal" in done.stdout
    report = json.loads(mlebench("grade-sample", sample, "smoke-digits", "--data-dir", data_dir, "--json").stdout)
    assert report["valid_submission"] and not report["any_medal"]
    missing = mlebench("grade-sample", "none.csv", "smoke-digits", "--data-dir", data_dir)
    assert missing.returncode == 1 and "file not found" in missing.stdout


def test_a_missing_submission_is_reported_before_missing_data(tmp_path: Path) -> None:
    done = mlebench("grade-sample", tmp_path / "none.csv", "spaceship-titanic", "--data-dir", tmp_path / "empty")
    assert done.returncode == 2 and done.stderr == (
        f"mlebench: file not found: {tmp_path / 'none.csv'}; name the submission, a CSV file\n"
    )


def test_list_shows_every_competition_and_its_state(data_dir: Path) -> None:
    lines = mlebench("list", "--data-dir", data_dir).stdout.splitlines()
    assert len(lines) == 1 + 82 + 3
    assert lines[0].split() == ["id", "split", "size", "state"] and max(map(len, lines)) <= 100
    wide = mlebench("list", "--wide", "--data-dir", data_dir).stdout.splitlines()[0]
    assert " ".join(wide.split()) == "id split category metric direction teams gold silver bronze median size state"
    digits = next(line for line in lines if line.startswith("smoke-digits "))
    assert digits.split()[1] == "smoke" and digits.endswith("KiB  prepared (verified)")
    rows = json.loads(mlebench("list", "--split", "lite", "--json", "--data-dir", data_dir).stdout)
    assert len(rows) == 22 and {row["state"] for row in rows} == {"absent"}


def test_swapped_arguments_and_invalid_folders_are_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["grade-sample", "smoke-digits", "own.csv"]) == 2
    assert "the file comes first: mlebench grade-sample own.csv smoke-digits" in capsys.readouterr().err
    assert main(["golden", "/nonexistent/folder"]) == 2
    assert "folder not found: /nonexistent/folder" in capsys.readouterr().err
    file = default_catalogue()["smoke-digits"].file("golden.json")
    assert main(["golden", str(file)]) == 2
    assert f"golden.json is a file; name the competition's folder: {file.parent}" in capsys.readouterr().err
    assert main(["verify", str(file.parent)]) == 2
    assert "to verify a run group, pack it with `mlebench bundle`" in capsys.readouterr().err


@pytest.mark.full
@pytest.mark.parametrize("command", [["agents"], ["list", "--data-dir=."], ["report", "GROUP", "--format=md"]])
def test_an_output_that_cannot_be_written_is_a_one_line_error(command: list[str], tmp_path: Path) -> None:
    make_group(tmp_path / "GROUP", competitions=default_catalogue().split("smoke"))
    mlebench = [sys.executable, "-m", "pytest_mlebench.cli"]
    words = [*mlebench, *command, *(["--runs-dir", str(tmp_path)] if "GROUP" in command else [])]
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=100)
    assert ended.stderr == "mlebench: the output could not be written: No space left on device\n"
    assert ended.returncode == 1
    closed = shlex.join(words) + " >&-"
    ended = subprocess.run(closed, shell=True, stderr=subprocess.PIPE, text=True, check=False, timeout=100)
    assert ended.returncode == 0 and "Traceback" not in ended.stderr
    ended = subprocess.run(
        f"{shlex.join(words)} --no-such-option 2>&-", shell=True, text=True, check=False, timeout=100
    )
    assert ended.returncode == 2
    posix = os.environ | {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    shown = subprocess.run(words, env=posix, capture_output=True, check=False, timeout=100)
    assert shown.returncode == 0 and shown.stdout.decode("utf-8")


@pytest.mark.full
def test_every_command_names_records_and_manifests_that_it_cannot_read(tmp_path: Path) -> None:
    group = tmp_path / "night"
    broken, *_ = make_group(group, competitions=default_catalogue().split("smoke"), seeds=1)
    record = group / broken.run_id / "run.json"
    record.write_bytes(record.read_bytes()[:200])
    for command in (["groups"], ["report", "night"], ["watch", "night"], ["audit", "night"], ["regrade", "night"]):
        shown = mlebench(*command, "--runs-dir", tmp_path)
        text = " ".join((shown.stdout + shown.stderr).split())
        assert f"{broken.run_id}/run.json is not a run record: " in text and "Traceback" not in text, command
    (group / "manifest.json").write_bytes(b"\x80")
    shown = mlebench("groups", "--runs-dir", tmp_path)
    assert shown.returncode == 1 and "no run group" not in shown.stderr
    assert (
        "manifest.json cannot be read: it is not UTF-8 text (byte 1); if you move it away, the runs can be"
        in shown.stderr
    )
    (group / "manifest.json").unlink()
    assert mlebench("report", "night", "--runs-dir", tmp_path).returncode == 0
