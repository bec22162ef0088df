"""Tables in a terminal that is too narrow, and their colours."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.cli.main import main
from pytest_mlebench.io.units import one_line
from pytest_mlebench.reports.tables import Section, Table
from tests.groups import make_group

TABLE = Table(
    ("competition", "agent", "score", "gold", "time"),
    [("a-competition-with-a-long-name", "aide", "0.5", "0.9", "1:00"), ("digits", "dummy", "1.0", "0.9", "2:00")],
    frozenset({"score", "gold", "time"}),
    spare=("gold", "time"),
    codes=("31", "33;1"),
)


def test_optional_columns_are_dropped_first_and_named() -> None:
    assert TABLE.text() == TABLE.text(56)
    assert TABLE.text(55).splitlines() == [
        "competition                     agent  score  time",
        "a-competition-with-a-long-name  aide     0.5  1:00",
        "digits                          dummy    1.0  2:00",
        "columns that do not fit: gold",
    ]
    assert TABLE.text(44).splitlines()[-1] == "columns that do not fit: gold, time"
    few = replace(TABLE, rows=[("digits", "aide", "0.5", "0.9", "1:00")])
    assert few.text(26).splitlines()[-2:] == ["columns that do not fit:", "  gold, time"]


def test_each_cell_is_cleaned_a_constant_number_of_times(monkeypatch: pytest.MonkeyPatch) -> None:
    clean = Mock(wraps=one_line)
    monkeypatch.setattr("pytest_mlebench.reports.tables.one_line", clean)
    replace(TABLE, rows=[TABLE.rows[0]] * 200).lines()
    assert clean.call_count <= 2 * len(TABLE.heads) * 201


def test_a_number_and_its_percent_sign_stay_on_one_line() -> None:
    lines = Section("Rates", remarks=["a medal in 95 % of 3"]).text(13).splitlines()
    assert lines[2:] == ["a medal in", "  95 % of 3"]


def test_names_are_shortened_if_dropping_columns_is_not_enough() -> None:
    *lines, _, _ = TABLE.text(30).splitlines()
    assert lines == [
        "competition       agent  score",
        "a-competition-w…  aide     0.5",
        "digits            dummy    1.0",
    ]
    assert all(len(line) <= 30 for line in lines)
    assert "a-compe…" in TABLE.text(5), "a name keeps eight characters"


def test_first_columns_are_shortened_last() -> None:
    table = Table(("agent", "models"), [("an-agent/with-a-long-name", "a-model, another-model, a-third-model")])
    assert table.text(50).splitlines()[1] == "an-agent/with-a-long-name  a-model, another-model…"
    assert table.text(36).splitlines()[1] == "an-agent/with-a-l…  a-model, anothe…"


def test_rows_are_coloured() -> None:
    _, first, second, _ = TABLE.text(44, colours=True).splitlines()
    assert first == "\x1b[31ma-competition-with-a-long-name  aide     0.5\x1b[0m"
    assert second.startswith("\x1b[33;1mdigits")


def test_no_color_and_force_color_are_respected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_group(tmp_path / "own", competitions=default_catalogue().split("smoke"))
    command = ["report", f"--runs-dir={tmp_path}", "own", "--runs"]

    def colours(**variables: str) -> bool:
        for name in ("NO_COLOR", "FORCE_COLOR"):
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        assert main(command) == 0
        return "\x1b[" in capsys.readouterr().out

    assert not colours(), "not a terminal"
    assert colours(FORCE_COLOR="1")
    assert not colours(FORCE_COLOR="1", NO_COLOR="1")


@pytest.mark.full
def test_a_report_fits_a_terminal_of_80_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    for name in ("2026-11-22T08-19-01-e1f7", "2026-11-22T09-20-02-0a1b"):
        make_group(tmp_path / name, competitions=default_catalogue().split("smoke"))
    shown = in_terminal(80, "report", f"--runs-dir={tmp_path}", "08-19", "09-20", "--runs")
    assert max(map(len, shown.splitlines())) <= 80
    runs = shown.partition("Runs of ")[2]
    assert "columns that do not fit" in runs and "…" not in runs
    assert all(f"\n{competition.id}  " in runs for competition in default_catalogue().split("smoke"))


def in_terminal(columns: int, *arguments: str) -> str:
    """The output of ``mlebench`` in a terminal of the given width."""
    ours, theirs = pty.openpty()
    try:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        command = [sys.executable, "-m", "pytest_mlebench.cli", *arguments]
        with subprocess.Popen(command, stdout=theirs, stderr=subprocess.DEVNULL) as process:
            os.close(theirs)
            theirs = -1
            shown = bytearray()
            while part := _read(ours):
                shown += part
        assert process.returncode == 0
    finally:
        os.close(ours)
        if theirs >= 0:
            os.close(theirs)
    return shown.decode().replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # the other end is closed
        return b""
