"""Memory and CPU time of the session's process while runs execute elsewhere: 1000 runs have finished, 225 are running.

The aims: under 300 MB, and under 5 % of one CPU.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

import psutil
import pytest

from pytest_mlebench._version import __version__
from pytest_mlebench.extras.engines.plan import (
    ALIVE,
    Alive,
    JobEnd,
    JobPlan,
    job_folder,
    new_name,
    note_id,
    report_end,
    write_plan,
)
from pytest_mlebench.io.processes import LABEL, owner_labels, start_time
from pytest_mlebench.io.values import write_json
from pytest_mlebench.records.record import RUNNING, RunKey
from pytest_mlebench.results import read_group

FINISHED, RUNNING_NOW = 1000, 225
SECONDS = 60.0
TOYS = Path(__file__).parents[1] / "tests/toys"
AGENTS = [f"toy/{name}" for name in ("gold", "silver", "bronze", "no-medal", "sleeps")]
SEEDS = (FINISHED + RUNNING_NOW) // len(AGENTS)
KEYS = [RunKey(agent, "toy-parity", seed) for agent in AGENTS for seed in range(SEEDS)]
SLURM = {
    "sinfo": "echo main",
    "sbatch": 'case "$1" in --version) echo slurm 22.05.8 ;; esac',
    "squeue": "exec cat {folder}/queue",
    "sacct": "exit 1",
    "scancel": "true",
}
"""Scripts that imitate Slurm's commands while all jobs are running."""


@pytest.mark.parametrize("engine", ["local", "slurm"])
def test_an_idle_session(engine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(TOYS, tmp_path, dirs_exist_ok=True)
    folders = ["--agents-dir=agents", "--data-dir=data", "--runs-dir=reports", "--run-group=toys", "-pno:cacheprovider"]
    trusted = [f"--trust-agent={agent}" for agent in AGENTS]
    common = [sys.executable, "-m", "pytest", "competitions/toy-parity", *folders, *trusted, "--sandbox=local", "-q"]
    subprocess.run([*common, f"--agent={AGENTS[0]}"], cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)
    group = tmp_path / "reports/toys"
    with subprocess.Popen(["sleep", "infinity"]) as sleeper:
        try:
            _fill(group, engine, sleeper.pid)
            environment = {**os.environ, "PATH": f"{_stand_ins(tmp_path, group)}:{os.environ['PATH']}"}
            options = [*(f"--agent={agent}" for agent in AGENTS), f"--seeds={SEEDS}", f"--cluster={engine}", "--detach"]
            with _session([*common, *options, f"--max-parallel={RUNNING_NOW}"], tmp_path, environment) as session:
                started = _settle(session)
                before, since = sum(session.cpu_times()[:4]), time.monotonic()
                time.sleep(SECONDS)
                share = (sum(session.cpu_times()[:4]) - before) / (time.monotonic() - since)
                peak = int(next(line for line in _status(session) if line.startswith("VmHWM")).split()[1]) / 1024
                assert session.is_running() and len(list(group.glob(".jobs/ended/*"))) == FINISHED - 1
        finally:
            sleeper.kill()
    with capsys.disabled():
        print(
            f"\nsession on {engine}, {FINISHED} runs finished and {RUNNING_NOW} running: {share:.1%} of a CPU, "
            f"at most {peak:.0f} MB, {started:.1f} CPU s to start"
        )


def _fill(group: Path, engine: str, sleeper: int) -> None:
    """Write copies of the only record, and jobs that seem to run in the process ``sleeper``."""
    (record,) = read_group(group).records
    for key in KEYS[1:FINISHED]:
        copy = replace(record, agent=key.agent, seed=key.seed, run_id=f"toy-parity_{key.agent[4:]}-{key.seed}-0")
        (group / copy.run_id).mkdir()
        copy.write(group / copy.run_id)
        report_end(group, new_name(), JobEnd(run_id=copy.run_id))
    owner = {**owner_labels(), f"{LABEL}pid": str(sleeper), f"{LABEL}pid-start": start_time(sleeper)}
    lines = []
    for number, key in enumerate(KEYS[FINISHED:]):
        plan = JobPlan(
            name=new_name(),
            engine=engine,
            agent=key.agent,
            competition_id=key.competition_id,
            seed=key.seed,
            competition_file="",
            options={},
            version=__version__,
            agent_digest="",
            submitted=time.time(),
        )
        folder = job_folder(group, key)
        note_id(write_plan(folder, plan), str(number + 1))
        write_json(folder / ALIVE, asdict(Alive(name=plan.name, owner=owner)))
        run_dir = group / f"toy-parity_{key.agent[4:]}-{key.seed}-0"
        run_dir.mkdir()
        about = {"worker": "w", "started": time.time(), "time_limit": 86400.0, "owner": owner}
        write_json(run_dir / RUNNING, {**key._asdict(), **about})
        lines.append(f"{plan.name}|RUNNING|n1|{number + 1}|None\n")
    (group.parent / "queue").write_text("".join(lines))


def _stand_ins(folder: Path, group: Path) -> Path:
    programs = folder / "programs"
    programs.mkdir()
    for name, body in SLURM.items():
        (programs / name).write_text(f"#!/bin/sh\n{body.format(folder=group.parent)}\n")
        (programs / name).chmod(0o755)
    return programs


@contextmanager
def _session(command: list[str], folder: Path, environment: dict[str, str]) -> Iterator[psutil.Process]:
    with subprocess.Popen(command, cwd=folder, env=environment) as process:
        try:
            yield psutil.Process(process.pid)
        finally:
            process.kill()


def _settle(session: psutil.Process) -> float:
    """Wait until the session is idle. Returns the CPU seconds used until then."""
    used, quiet = 0.0, 0
    while quiet < 5:
        time.sleep(3)
        assert session.status() != psutil.STATUS_ZOMBIE, "the session has ended"
        before, used = used, sum(session.cpu_times()[:2])
        quiet = quiet + 1 if used - before < 0.6 else 0
    return used


def _status(session: psutil.Process) -> list[str]:
    return Path(f"/proc/{session.pid}/status").read_text().splitlines()
