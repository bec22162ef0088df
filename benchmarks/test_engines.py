"""Time that an engine adds to a run on an idle machine: from submission to start, and from end to report."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from benchmarks.test_start import cpu_seconds
from pytest_mlebench.extras.engines.plan import new_name
from tests.cluster import ray_cluster, slurm_cluster

RUNS = 8
TOYS = Path(__file__).parents[1] / "tests/toys"
NOTE_REPORTS = """
    import time

    def pytest_runtest_logreport(report):
        if report.when == "call":
            with open("reported.txt", "a") as file:
                file.write(f"{time.time()} {report.nodeid}\\n")
"""


def use(engine: str, stack: ExitStack) -> Mapping[str, str]:
    """Start a cluster of two nodes until the stack is closed. Returns the environment variables for its address."""
    if engine == "slurm":
        if not slurm_cluster.is_installed():
            pytest.skip("no Slurm: apt-get install slurm-wlm munge")
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="slurm-"))
        return stack.enter_context(slurm_cluster.running_cluster(Path(folder))).environment
    if engine == "ray":
        if not ray_cluster.is_installed():
            pytest.skip('no Ray: pip install "pytest-mlebench[ray]"')
        return stack.enter_context(ray_cluster.running_ray(nodes=2)).environment
    return {}


@pytest.mark.parametrize("engine", ["local", "slurm", "ray"])
def test_overhead_of_a_run(engine: str, tmp_path: Path, figures: dict[str, list[dict[str, Any]]]) -> None:
    """One run at a time, so that none waits for another."""
    shutil.copytree(TOYS, tmp_path, dirs_exist_ok=True)
    (tmp_path / "conftest.py").write_text("\n".join(line[4:] for line in NOTE_REPORTS.splitlines()))
    options = [f"--cluster={engine}", "--agent=toy/gold", f"--seeds={RUNS}", "--max-parallel=1", "--sandbox=local"]
    folders = ["--agents-dir=agents", "--data-dir=data", "--runs-dir=reports", "--run-group=toys"]
    command = [sys.executable, "-m", "pytest", "competitions/toy-parity", *options, *folders, "-pno:cacheprovider"]
    group = tmp_path / "reports/toys"
    with ExitStack() as stack:
        environment = {**os.environ, **use(engine, stack)}
        subprocess.run([*command, "--time-limit=60s"], cwd=tmp_path, env=environment, check=True)
    lines = [line.split(" ", 1) for line in (tmp_path / "reported.txt").read_text().splitlines()]
    reported = {nodeid: float(at) for at, nodeid in lines}
    jobs, harness, ends = [], [], []
    for path in group.glob("*/run.json"):
        record = json.loads(path.read_text())
        started, ended = (datetime.fromisoformat(record[key]).timestamp() for key in ("started_at", "ended_at"))
        began = process_began(group, record["job"]["name"])
        jobs.append(began - record["job"]["submitted"])
        harness.append(started - began)
        ends.append(next(at for id, at in reported.items() if f"[seed={record['seed']}]" in id) - ended)
    assert len(jobs) == RUNS
    parts = {
        "job": jobs,
        "harness": harness,
        "end": ends,
        "all": [sum(one) for one in zip(jobs, harness, ends, strict=True)],
    }
    row: dict[str, Any] = {"engine": engine, "cpu": cpu_of_a_job(group)}
    for name, seconds in parts.items():
        row |= {name: median(seconds), f"{name}_least": min(seconds), f"{name}_most": max(seconds)}
    figures["engines"].append(row)


def process_began(group: Path, name: str) -> float:
    """Start time of a job's process, in seconds since 1970, accurate to a hundredth of a second."""
    for path in group.glob(".jobs/*/alive.json"):
        alive = json.loads(path.read_text())
        if alive["name"] == name:
            since_boot = int(alive["owner"]["mlebench.pid-start"]) / os.sysconf("SC_CLK_TCK")
            return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + since_boot
    raise AssertionError(f"{name} has not reported its process")


def cpu_of_a_job(group: Path) -> float:
    """CPU seconds of a run's whole job, including agent and grading: the minimum of three."""
    file = next(group.glob(".jobs/*/plan.json"))
    plan = json.loads(file.read_text())
    taken = []
    for _ in range(3):
        file.write_text(json.dumps(plan | {"name": new_name()}))  # a job whose run has a record does nothing
        began = cpu_seconds()
        command = [sys.executable, "-m", "pytest_mlebench.cli", "run-one", str(file)]
        subprocess.run(command, check=True, capture_output=True)
        taken.append(cpu_seconds() - began)
    return min(taken)
