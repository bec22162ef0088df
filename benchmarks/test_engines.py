"""What an engine adds to a run on an idle machine: from submitting to its start, and from its end to its report."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from tests.cluster.slurm_cluster import is_installed, running_cluster

RUNS = 8
TOYS = Path(__file__).parents[1] / "tests/toys"
NOTE_REPORTS = """
    import time

    def pytest_runtest_logreport(report):
        if report.when == "call":
            with open("reported.txt", "a") as file:
                file.write(f"{time.time()} {report.nodeid}\\n")
"""


@pytest.mark.parametrize("engine", ["local", "slurm"])
def test_overhead_of_a_run(engine: str, tmp_path: Path, figures: dict[str, list[dict[str, Any]]]) -> None:
    """One run at a time, so that none waits for another."""
    if engine == "slurm" and not is_installed():
        pytest.skip("no Slurm: apt-get install slurm-wlm munge")
    shutil.copytree(TOYS, tmp_path, dirs_exist_ok=True)
    (tmp_path / "conftest.py").write_text("\n".join(line[4:] for line in NOTE_REPORTS.splitlines()))
    options = [f"--cluster={engine}", "--agent=toy/gold", f"--seeds={RUNS}", "--max-parallel=1", "--sandbox=local"]
    folders = ["--agents-dir=agents", "--data-dir=data", "--runs-dir=reports", "--run-group=toys"]
    command = [sys.executable, "-m", "pytest", "competitions/toy-parity", *options, *folders, "-pno:cacheprovider"]
    with ExitStack() as stack:
        environment = dict(os.environ)
        if engine == "slurm":
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="slurm-"))
            environment |= stack.enter_context(running_cluster(Path(folder))).environment
        subprocess.run([*command, "--time-limit=60s"], cwd=tmp_path, env=environment, check=True)
    lines = [line.split(" ", 1) for line in (tmp_path / "reported.txt").read_text().splitlines()]
    reported = {nodeid: float(at) for at, nodeid in lines}
    starts, ends = [], []
    for path in (tmp_path / "reports/toys").glob("*/run.json"):
        record = json.loads(path.read_text())
        ended = datetime.fromisoformat(record["ended_at"]).timestamp()
        starts.append(datetime.fromisoformat(record["started_at"]).timestamp() - record["job"]["submitted"])
        ends.append(next(at for id, at in reported.items() if f"[seed={record['seed']}]" in id) - ended)
    assert len(starts) == RUNS
    figures["engines"].append(
        {
            "engine": engine,
            "start": median(starts),
            "start_most": max(starts),
            "end": median(ends),
            "end_most": max(ends),
        }
    )
