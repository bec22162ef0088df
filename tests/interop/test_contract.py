"""``mlebench export`` and its contract for exporters, including third-party ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_mlebench.cli.main import main
from tests.interop.recorded import recorded_group

STRANGER = """
from pytest_mlebench.extras.interop.contract import ExportOption, Request

SUMMARY = "a line for each run"
OPTIONS = (
    ExportOption("--shout", "", "in capital letters"),
    ExportOption("--endpoint", "URL", "where to"),
)


def export(group, request: Request):
    path = request.folder(group) / "runs.txt"
    lines = [f"{record.run_id} {request.options.get('--endpoint')}" for record in group.records]
    text = "\\n".join(lines)
    path.write_text(text.upper() if "--shout" in request.options else text)
    yield str(path)
"""


@pytest.fixture
def groups(tmp_path: Path) -> list[Path]:
    recorded_group(tmp_path / "runs/first", runs=1)
    recorded_group(tmp_path / "runs/second", runs=1)
    return [tmp_path / "runs/first", tmp_path / "runs/second"]


def stranger(folder: Path, text: str) -> dict[str, str]:
    """Install a package with an exporter as ``pip`` would; return an environment that contains it."""
    (folder / "stranger-1.dist-info").mkdir(parents=True)
    (folder / "stranger-1.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1\n")
    (folder / "stranger-1.dist-info/entry_points.txt").write_text("[mlebench.exporters]\nlines = stranger\n")
    (folder / "stranger.py").write_text(text)
    return os.environ | {"PYTHONPATH": str(folder)}


def typed(environment: dict[str, str], *words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest_mlebench.cli", "export", *map(str, words)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.full
def test_a_third_party_package_can_add_an_exporter(groups: list[Path], tmp_path: Path) -> None:
    environment = stranger(tmp_path / "site", STRANGER)
    shown = typed(environment, "--help").stdout
    assert "lines: a line for each run" in " ".join(shown.split())
    assert "with --to=lines or otlp" in " ".join(shown.split()), "both exporters have this option"
    done = typed(environment, "--to=lines", "--shout", "--endpoint=there", "-o", tmp_path / "out", groups[0])
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{tmp_path}/out/runs.txt\n"
    assert (tmp_path / "out/runs.txt").read_text() == "SMOKE-DIABETES_A-0 THERE"
    refused = typed(environment, "--to=otlp", "--shout", "--endpoint=http://there", groups[0])
    assert (refused.returncode, refused.stderr) == (2, "mlebench: --shout has no effect with --to=otlp\n")


@pytest.mark.full
def test_a_broken_third_party_exporter_does_not_stop_others(groups: list[Path], tmp_path: Path) -> None:
    for number, text in enumerate(("import no_such_module", "SUMMARY = 'half of one'")):
        environment = stranger(tmp_path / f"site{number}", text)
        done = typed(environment, "--to=atif", "-o", tmp_path / "out", groups[0])
        assert done.returncode == 0, done.stderr
        broken = typed(environment, "--to=lines", groups[0])
        assert broken.returncode == 2 and broken.stderr.count("\n") == 1
        assert "mlebench.exporters: lines" in broken.stderr


def test_several_groups_are_exported_in_one_command(
    groups: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["export", "--to=inspect", *map(str, groups)]) == 0
    written = capsys.readouterr().out.splitlines()
    assert [path.partition("/")[0] for path in written] == ["first-inspect", "second-inspect"]
    assert all((tmp_path / path).is_file() for path in written)


@pytest.mark.parametrize(
    ("key", "value"), [("run_id", "../../elsewhere"), ("started_at", "yesterday"), ("ended_at", ""), ("seconds", 1e300)]
)
@pytest.mark.parametrize("to", ["atif", "inspect", "mle-bench"])
def test_a_record_with_impossible_values_is_reported_and_not_exported(
    to: str, key: str, value: object, groups: list[Path], caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    (record,) = groups[0].glob("*/run.json")
    record.write_text(json.dumps(json.loads(record.read_text()) | {key: value}))
    assert main(["export", f"--to={to}", "-o", str(tmp_path / "out"), str(groups[0])]) == 2
    assert f"is not a run record: {key} must be" in caplog.text and not (tmp_path / "out").exists()


def test_a_missing_required_option_of_an_exporter_is_reported(
    groups: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", "--to=otlp", str(groups[0])]) == 2
    assert capsys.readouterr().err == "mlebench: --to=otlp needs --endpoint\n"
