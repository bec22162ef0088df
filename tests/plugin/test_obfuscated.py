"""``--description=obfuscated``, from the session to the comparison reports."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_mlebench.cli.main import main

pytestmark = pytest.mark.full

TEXT = "## Task\nSay for each number whether it is odd.\n"


def sessions(project: pytest.Pytester, *options: str) -> pytest.RunResult:
    return project.runpytest_subprocess(
        "competitions/toy-parity", "--agent=toy/gold", "-p", "no:cacheprovider", *options
    )


def test_two_groups_are_compared_with_their_differences(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(project.path)
    folder = Path("competitions/toy-parity")
    refused = sessions(project, "--run-group=hidden", "--description=obfuscated")
    assert refused.ret == pytest.ExitCode.USAGE_ERROR
    refused.stderr.fnmatch_lines(["*toy-parity has no obfuscated description: write *description_obfuscated.md"])
    (folder / "description_obfuscated.md").write_text(TEXT)
    for options in (["--run-group=plain"], ["--run-group=hidden", "--description=obfuscated"]):
        assert "1 gold" in sessions(project, *options).outlines[-1]
    (run,) = Path("reports/hidden").glob("*/run.json")
    assert json.loads(run.read_text())["description"] == "obfuscated"
    manifest = json.loads(Path("reports/hidden/manifest.json").read_text())
    assert manifest["settings"]["description"] == "obfuscated"
    assert any("obfuscated" in text for text in manifest["canonical"]["differences"])
    changed = sessions(project, "--run-group=hidden", "--seeds=2")
    changed.stderr.fnmatch_lines(["*description was 'obfuscated', is None*"])
    assert main(["report", "hidden", "plain"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert (
        "description: differs (declared): obfuscated: our own description, with the competition's name hidden" in shown
    )
    assert "settings of hidden that differ from plain: description was None, is 'obfuscated'" in shown
    assert "Paired comparison" in shown


def test_the_option_applies_only_to_runs(project: pytest.Pytester, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prepare", "-c", "smoke-digits", "--description=obfuscated"]) == 2
    assert "--description=obfuscated is for runs" in capsys.readouterr().err
    session = project.runpytest_subprocess("competitions/toy-parity", "--real-data", "--description=obfuscated")
    session.stderr.fnmatch_lines(["*--description=obfuscated is for runs*"])
