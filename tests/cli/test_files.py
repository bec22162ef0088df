"""Printing an agent's files in a terminal, and unpacking them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_mlebench.cli.main import main
from tests.left import leave

ORDERS = (
    "::add-mask::e\n \u00a0::stop-commands::x\n##[group]a\n##vso[task.x]y\nx ##teamcity[a]\n"
    "\x1b[2Jred\r\u2028::error::z"
)


@pytest.fixture
def run_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "reports/g/toy_1"
    folder.mkdir(parents=True)
    (folder / "run.json").write_text('{"run_id": "toy_1", "competition_id": "toy"}')
    files: dict[str, str | bytes] = {
        "code/main.py": "print(1)\n",
        "logs/::add-mask::x": ORDERS,
        "logs/##[x]": "a",
        "logs/model": b"\0\1",
    }
    leave(folder, files)
    return folder


def test_files_are_listed_and_shown_without_terminal_escapes(run_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["files", "toy_1"]) == 0
    listed = capsys.readouterr().out
    assert "9  code/main.py" in listed and "logs/: :add-mask::x" in listed and "logs/# #[x]" in listed
    assert main(["files", "toy_1", "code/main.py"]) == 0
    assert capsys.readouterr().out == "print(1)\n"
    assert main(["files", "toy_1", "logs/::add-mask::x"]) == 0
    shown = capsys.readouterr().out
    assert "##" not in shown and "\x1b" not in shown and "\r" not in shown and "\u2028" not in shown
    assert not [line for line in shown.splitlines() if line.strip().startswith("::")]
    assert ": :add-mask::e" in shown and "# #vso[task.x]y" in shown


def test_errors_that_name_an_agents_files_have_no_terminal_escapes(
    run_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["files", "toy_1", "\n::add-mask::x ##[y]"]) == 2
    assert main(["files", "toy_1\x1b[2J\x1b]0;title\x07"]) == 2
    assert main(["files", "toy_1", "logs/model"]) == 2
    assert main(["unpack", "toy_1", "--to=reports/g/toy_1/##[x]"]) == 2
    errors = capsys.readouterr().err
    assert "##" not in errors and "\n::" not in errors and "\x1b" not in errors and "\x07" not in errors
    assert "is not text" in errors and "is in the run group" in errors


def test_unpack_writes_only_to_a_new_folder(run_dir: Path, tmp_path: Path) -> None:
    assert main(["unpack", "toy_1", "--to=there"]) == 0
    assert (tmp_path / "there/code/main.py").read_text() == "print(1)\n"
    assert main(["unpack", "toy_1", "--to=there"]) == 2
    (tmp_path / "link").symlink_to(tmp_path)
    assert main(["unpack", "toy_1", "--to=link"]) == 2
    (tmp_path / "loop").symlink_to("loop")
    assert main(["unpack", "toy_1", "--to=loop"]) == 2
