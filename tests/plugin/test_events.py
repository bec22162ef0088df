"""Progress events in a session: lines among pytest's output, also from xdist workers, and the group's log."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_mlebench.io import locks
from pytest_mlebench.io.progress import Note, Step
from pytest_mlebench.records.group import latest_events, log_event
from tests.kaggle_server import Cut, KaggleServer

pytestmark = pytest.mark.full  # dozens of sessions in separate processes

ID = "toy-parity"
Run = Callable[..., pytest.RunResult]
WORKERS = pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["one process", "xdist"])


@pytest.fixture
def log(project: pytest.Pytester) -> Path:
    return project.path / "reports/toys/events.jsonl"


def logged(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def watch(group: Path) -> str:
    command = [sys.executable, "-m", "pytest_mlebench.cli", "watch", str(group), "--once"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@WORKERS
def test_a_retry_is_shown_and_logged(
    workers: tuple[str, ...], kaggle_server: KaggleServer, project: pytest.Pytester, run_toys: Run, log: Path
) -> None:
    config = project.path / f"competitions/{ID}/competition.yaml"
    config.write_text(config.read_text().replace("source: bundled", "source: kaggle"))
    kaggle_server.add(ID, {"train.csv": b"id\n" * 100_000})
    kaggle_server.script("archive", None, None, None, Cut(0.4))  # after the checks of rules and sizes
    result = run_toys("gold", options=("--seeds=2", *workers))
    assert result.ret == 0
    retry = f"{ID}: the connection to Kaggle failed or was cut; trying again in * (attempt 2 of 8)"
    result.stdout.fnmatch_lines(
        ["mlebench: checking access to 1 competition on Kaggle", f"mlebench: {ID}: downloading", f"mlebench: {retry}"]
    )
    (entry,) = [entry for entry in logged(log) if entry["kind"] == "note" and "attempt 2 of 8" in entry["text"]]
    assert entry["worker"] == ("" if not workers else entry["worker"]) and bool(entry["worker"]) == bool(workers)
    assert entry["text"] in watch(log.parent)


@WORKERS
def test_waiting_for_a_lock_is_shown_at_once_and_logged(
    workers: tuple[str, ...], project: pytest.Pytester, run_toys: Run, log: Path
) -> None:
    def is_logged() -> bool:
        return log.is_file() and "waiting for process" in log.read_text()

    def hold_until_it_is_logged() -> None:
        with locks.hold_lock(project.path / "data" / ID / ".lock", "prepares", ID):
            held.set()
            deadline = time.monotonic() + 120
            while not is_logged() and time.monotonic() < deadline:
                time.sleep(0.05)

    held = threading.Event()
    (project.path / "data" / ID).mkdir(parents=True)
    holder = threading.Thread(target=hold_until_it_is_logged)
    holder.start()
    assert held.wait(30)
    result = run_toys("gold", options=workers)
    holder.join()
    assert result.ret == 0
    result.stdout.fnmatch_lines([f"mlebench: {ID}: waiting for process * on host *, which prepares {ID}"])


def test_event_lines_are_separate_from_pytests_letters(project: pytest.Pytester) -> None:
    """Each is on a separate line, at any position among the letters, and not captured as a test's output."""
    module = project.makepyfile(
        """
        from pytest_mlebench.plugin.reporting import reporter_of
        from pytest_mlebench.io.progress import Note, Step, WarningNote

        def test_one(request):
            pass

        def test_two(request, capsys):
            report = reporter_of(request.config)
            report(Step("leaf", "downloading", 0, 10))
            report(Step("leaf", "downloading", 5, 10))
            report(WarningNote("that \x1b[31mmay\x1b[0m matter"))
            assert capsys.readouterr() == ("", "")

        def test_three(request):
            pass
        """
    )
    for options in ((), ("-v",), ("-n", "1"), ("-n", "1", "-v"), ("-q", "-s"), ("-p", "no:terminal")):
        result = project.runpytest_subprocess(str(module), "-p", "no:cacheprovider", *options)
        lines = result.outlines + (result.errlines if "no:terminal" in options else [])
        assert result.ret == 0 and lines.count("mlebench: leaf: downloading") == 1, lines
        assert lines.count("mlebench: warning: that may matter") == 1, lines


def test_the_log_survives_a_truncated_line(tmp_path: Path) -> None:
    assert latest_events(tmp_path, 5) == []
    for number in range(3):
        log_event(tmp_path, Note(f"note {number}"), worker="gw1")
    with (tmp_path / "events.jsonl").open("a") as file:
        file.write('{"at": "2026-')
        file.write("\n[]\n")
    log_event(tmp_path, Step("leaf", "downloading", 5, 10))
    latest = latest_events(tmp_path, 2)
    assert [(logged.worker, logged.event) for logged in latest] == [
        ("gw1", Note("note 2")),
        ("", Step("leaf", "downloading", 5, 10)),
    ]
