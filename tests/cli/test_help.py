"""Help is grouped by the topics of the documentation."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pytest_mlebench.cli.main import main, parser_and_commands
from pytest_mlebench.options import OPTIONS, TOPICS

NAVIGATION = (Path(__file__).parents[2] / "mkdocs.yml").read_text(encoding="utf-8")


def test_each_option_and_command_has_one_topic_with_a_page() -> None:
    options, commands = (sorted(name for own in TOPICS.values() for name in own[kind].split()) for kind in (0, 1))
    assert options == sorted(OPTIONS)
    assert commands == sorted(parser_and_commands()[1])
    assert [topic for topic in TOPICS if f"- {topic}: " not in NAVIGATION] == []


def test_the_help_of_mlebench_has_all_commands_by_topic(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = capsys.readouterr().out
    assert shown.startswith("usage: mlebench [-h] [--version] COMMAND ...")
    assert "Browse runs:\n  view" in shown and "\n  prepare          download, unpack" in shown


@pytest.mark.full
def test_a_call_without_a_command_shows_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "Run agents" in capsys.readouterr().out


def test_the_help_of_pytest_has_all_options_by_topic(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "--help"]
    shown = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    for topic in (topic for topic, (options, _) in TOPICS.items() if options):
        assert f"MLE-bench: {topic}:" in shown
