"""The core commands work with any extras installed (see ``tools/without_extras.py``)."""

from __future__ import annotations

import pytest

from pytest_mlebench.cli.main import main

CORE = ("agents", "doctor", "prepare", "list", "verify", "grade", "report", "groups", "regrade", "trajectory", "watch")


def test_help_lists_the_core_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--help"])
    shown = capsys.readouterr().out
    assert end.value.code == 0 and [name for name in CORE if f"\n  {name} " not in shown] == []


@pytest.mark.parametrize("name", CORE)
def test_each_core_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main([name, "--help"])
    assert end.value.code == 0 and capsys.readouterr().out.startswith(f"usage: mlebench {name}")
