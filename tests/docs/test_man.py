"""The man page matches the parsers, and groff formats it without warnings."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from pytest_mlebench.cli import main
from tools.docs.man import FILE, page


def test_the_man_page_has_every_command_and_is_up_to_date() -> None:
    text = page()
    for name in main.command_names():
        if name in main.parser_and_commands(name)[0].format_help():
            assert f"mlebench {name}".replace("-", r"\-") in text, name
    assert FILE.read_text(encoding="utf-8") == text, "python -m tools.docs.man writes it"


@pytest.mark.skipif(shutil.which("groff") is None, reason="needs groff")
def test_groff_has_no_warnings() -> None:
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", str(FILE)],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "/usr/bin"},
    )
    assert done.stderr == "" and "prepare" in done.stdout
