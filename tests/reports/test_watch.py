"""Watching a run group from another terminal."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.llm.ledger import CALLS
from pytest_mlebench.records.group import GroupReader, mark_running, runs_in_progress
from pytest_mlebench.records.record import RUNNING, RunKey
from pytest_mlebench.reports.progress import pulse
from tests.groups import record_with, save_group

WATCH = [sys.executable, "-m", "pytest_mlebench.cli", "watch"]


def watch(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*WATCH, *map(str, arguments)], capture_output=True, text=True, check=False)


def running(run_dir: Path) -> AbstractContextManager[None]:
    run_dir.mkdir(parents=True)
    return mark_running(run_dir, RunKey("a/b", "toy", 3), worker="gw1", time_limit=86400.0)


@pytest.fixture
def group(tmp_path: Path) -> Path:
    folder = tmp_path / "reports/night"
    folder.mkdir(parents=True)
    runs = [{"agent": "a/b", "competition_id": "toy", "seed": seed, "nodeid": ""} for seed in range(5)]
    (folder / "manifest.json").write_text(json.dumps({"run_group": "night", "created_at": "", "runs": runs}))
    return folder


def test_a_progress_line_has_runs_medals_time_and_cost(group: Path) -> None:
    competition = default_catalogue()["smoke-digits"]
    records = [record_with(competition, outcome, seed=seed) for seed, outcome in enumerate(("gold", "no_medal"))]
    save_group(group, [replace(own, llm={"calls": 3, "cost": 1.6}) for own in records])
    with running(group / "toy_1"):
        said = pulse(GroupReader(group), 7800.0)
    assert said == "2 of 7 runs finished, 1 running; 1 gold, 1 no medal; 2:10:00; cost so far: $3.20"


def test_unknown_costs_of_runs_in_progress_are_called_unknown(group: Path) -> None:
    with running(group / "toy_1"):
        ledger = group / "toy_1" / CALLS
        ledger.parent.mkdir()
        ledger.write_text(f"{json.dumps({'number': 1, 'kind': 'generate', 'status': 200})}\n")
        assert pulse(GroupReader(group), 7800.0).endswith("cost so far: unknown")
        with ledger.open("a") as file:
            file.write(f"{json.dumps({'number': 2, 'kind': 'generate', 'status': 200, 'cost': 0.5})}\n")
        assert pulse(GroupReader(group), 7800.0).endswith("cost so far: $0.50, plus unknown costs")


def test_a_run_is_shown_with_its_worker_its_time_and_the_end_of_its_log(group: Path) -> None:
    with running(group / "toy_1"):
        (group / "toy_1/run.log").write_text("step 1\nstep 2 of 9\n\n")
        done = watch("night", "--runs-dir", group.parent)
    assert done.returncode == 0
    assert "night: 0 of 5 runs finished, 1 running, 4 to come" in done.stdout
    line = next(line for line in done.stdout.splitlines() if line.startswith("gw1"))
    assert line.split() == ["gw1", "toy", "a/b", "3", *line.split()[4:6], "of", "24:00:00", "step", "2", "of", "9"]


def test_the_end_of_a_truncated_log_is_shown(group: Path) -> None:
    with running(group / "toy_1"):
        (group / "toy_1/run.log").write_text("the head\n")
        (group / "toy_1/run.log.tail").write_text("the newest\n")
        assert "the newest" in watch(group).stdout


def test_agent_output_cannot_control_the_terminal(group: Path) -> None:
    with running(group / "toy_1"):
        (group / "toy_1/run.log").write_text("\033]0;owned\007\033[2Jharmless\r\n")
        shown = watch(group).stdout
    assert "harmless" in shown and "\033" not in shown and "\007" not in shown


def test_a_run_whose_process_was_killed_is_shown_as_interrupted(group: Path) -> None:
    code = (
        "import os, signal; from pathlib import Path; from pytest_mlebench.records.group import mark_running\n"
        "from pytest_mlebench.records.record import RunKey\n"
        f"path = Path({str(group / 'toy_1')!r}); path.mkdir()\n"
        "with mark_running(path, RunKey('a/b', 'toy', 3), worker='', time_limit=60.0):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code], check=False)
    assert "0 running, 4 to come, 1 interrupted: resume with --resume" in watch(group).stdout


def test_a_run_on_another_host_counts_as_interrupted_when_it_is_no_longer_refreshed(group: Path) -> None:
    with running(group / "toy_1"):
        path = group / "toy_1" / RUNNING
        values = json.loads(path.read_text())
        values["owner"]["mlebench.host"] = "elsewhere"
        path.write_text(json.dumps(values))
        assert [run.interrupted for run in runs_in_progress(group)] == [False]
        os.utime(path, (time.time() - 120,) * 2)
        assert [run.interrupted for run in runs_in_progress(group)] == [True]


def test_a_run_that_ended_is_no_longer_in_progress(group: Path) -> None:
    with running(group / "toy_1"):
        assert len(runs_in_progress(group)) == 1
    assert runs_in_progress(group) == []


def test_in_a_terminal_it_is_redrawn_until_interrupted(group: Path) -> None:
    controller, terminal = pty.openpty()
    process = subprocess.Popen([*WATCH, str(group), "--interval=0.2"], stdout=terminal, stderr=terminal, stdin=terminal)
    os.close(terminal)
    shown = ""
    while shown.count("night: 0 of 5") < 3:
        shown += os.read(controller, 4096).decode()
    process.send_signal(2)
    assert process.wait(30) == 0
    os.close(controller)


def test_an_unknown_group_is_an_error_with_close_matches(group: Path) -> None:
    done = watch("nigth", "--runs-dir", group.parent)
    assert done.returncode == 2
    assert "did you mean night?" in done.stderr and "Traceback" not in done.stderr
