"""Errors for data folders without permission to read or write: one line with the folder and what to do."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.full

PR_CAPBSET_DROP = 24
CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 1, 2
_libc = ctypes.CDLL(None)


def obey_permissions() -> None:
    """Drop capabilities, so that permissions apply even to root after the following exec."""
    if os.geteuid() == 0:
        for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
            _libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)


def run(*arguments: object, **environment: object) -> subprocess.CompletedProcess[str]:
    return run_program("-m", *arguments, **environment)


def run_program(*arguments: object, **environment: object) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **{name: str(value) for name, value in environment.items()}},
        preexec_fn=obey_permissions,
    )
    for mark in ("Traceback", "INTERNALERROR"):
        assert mark not in done.stdout + done.stderr, done.stdout + done.stderr
    return done


def mlebench(*arguments: object, **environment: object) -> subprocess.CompletedProcess[str]:
    return run("pytest_mlebench.cli", *arguments, **environment)


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o000)
    yield folder
    folder.chmod(0o700)


@pytest.fixture
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MLEBENCH_DATA_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("command", [("list",), ("prepare", "-c", "smoke-digits"), ("verify",)])
def test_an_unreadable_data_folder_is_named(command: tuple[str, ...], closed: Path) -> None:
    done = mlebench(*command, "--data-dir", closed)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert str(closed) in done.stderr and "Permission denied" in done.stderr and "--data-dir" in done.stderr


@pytest.mark.usefixtures("no_variables")
@pytest.mark.parametrize("command", [("list",), ("prepare", "-c", "smoke-digits")])
def test_an_unreadable_home_is_named(command: tuple[str, ...], closed: Path) -> None:
    done = mlebench(*command, HOME=closed)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert f"{closed}/.cache" in done.stderr and "MLEBENCH_DATA_DIR" in done.stderr


def test_a_run_on_an_unreadable_data_folder_fails_in_one_line(closed: Path, tmp_path: Path) -> None:
    runs = ("--agent=dummy", "--sandbox=local", f"--runs-dir={tmp_path / 'runs'}", f"--data-dir={closed}")
    done = run("pytest", "-k", "smoke-digits", "-p", "no:cacheprovider", f"--rootdir={tmp_path}", *runs)
    assert done.returncode not in (0, pytest.ExitCode.INTERNAL_ERROR)
    assert f"{closed}/smoke-digits/prepared/public cannot be read: Permission denied" in done.stdout + done.stderr


@pytest.mark.usefixtures("no_variables")
def test_a_run_with_an_unreadable_home_fails_in_one_line(closed: Path, tmp_path: Path) -> None:
    runs = ("--agent=dummy", "--sandbox=local", f"--runs-dir={tmp_path / 'runs'}")
    done = run("pytest", "-k", "smoke-digits", "-p", "no:cacheprovider", f"--rootdir={tmp_path}", *runs, HOME=closed)
    assert done.returncode not in (0, pytest.ExitCode.INTERNAL_ERROR)
    assert f"{closed}/.cache/mlebench/smoke-digits/prepared/public cannot be read" in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("folder", "status", "message"),
    [("/proc/x", 1, "data folder {path} cannot be written"), ("{file}", 2, "--data-dir: {path} is not a folder")],
    ids=["proc", "a file"],
)
def test_an_impossible_data_folder_is_not_reported_as_a_full_disk(
    folder: str, status: int, message: str, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    path = folder.format(file=tmp_path / "file")
    done = mlebench("prepare", "-c", "smoke-digits", "--data-dir", path)
    assert done.returncode == status and "full" not in done.stderr
    assert message.format(path=path) in done.stderr


def test_unreadable_credentials_are_named(closed: Path, tmp_path: Path) -> None:
    names = ("KAGGLE_KEY", "KAGGLE_USERNAME", "KAGGLE_API_TOKEN")
    done = mlebench("prepare", "-c", "leaf-classification", "--data-dir", tmp_path / "data", HOME=closed,
                    **dict.fromkeys(names, ""))  # fmt: skip
    assert done.returncode == 1 and done.stderr.splitlines()[-1].startswith("mlebench: Kaggle")
    assert "cannot be read" in done.stderr and "https://www.kaggle.com/settings/api" in done.stderr


COMMANDS = [
    "grade --submission={lines} --output-dir={closed}/out",
    "grade --submission={lines} --output-dir={lines}",
    "grade --submission={lines} --output-dir=/proc/x",
    "report {closed}/group",
    "report group --runs-dir={closed}",
    "watch group --runs-dir={closed}",
    "golden {closed}/mine",
    "new-agent mine --dir={closed}/agents",
    "prepare -c spaceship-titanic --raw-dir={closed}/raw",
    "build dummy --agents-dir={closed}",
    "list --competitions-dir={closed}",
]
CALL_EACH = """
import contextlib, io, json, sys
from pytest_mlebench.cli.main import main
for words in json.loads(sys.argv[1]):
    with contextlib.redirect_stderr(io.StringIO()) as errors:
        status = main(words.split(" "))
    print(json.dumps([words, status, errors.getvalue()]))
"""


def test_an_unusable_path_is_a_one_line_error(closed: Path, tmp_path: Path) -> None:
    (tmp_path / "subs.jsonl").touch()
    (tmp_path / "call.py").write_text(CALL_EACH)
    commands = [words.format(closed=closed, lines=tmp_path / "subs.jsonl") for words in COMMANDS]
    done = run_program(tmp_path / "call.py", json.dumps(commands))
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert [words for words, _, _ in results] == commands, done.stderr
    for words, status, text in results:
        path = "/proc/x" if "/proc/x" in words else str(tmp_path)
        assert status in (1, 2) and text.count("\n") == 1 and path in text and "Errno" not in text, (words, text)


@pytest.mark.full
@pytest.mark.parametrize("option", ["--resume=group", "--competitions-dir={closed}", "--agents-dir={closed}"])
def test_a_session_with_an_unusable_path_ends_with_one_line(option: str, closed: Path, tmp_path: Path) -> None:
    options = ("--agent=dummy", "--sandbox=local", f"--runs-dir={closed}", option.format(closed=closed))
    done = run("pytest", "-k", "smoke-digits", "-p", "no:cacheprovider", f"--rootdir={tmp_path}", *options)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert str(closed) in done.stderr and "Permission denied" in done.stderr and "Errno" not in done.stderr
