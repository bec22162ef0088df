"""Memory that exports of large groups need, as measured by the system."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.interop.collector import collecting
from tests.interop.recorded import recorded_group

pytestmark = [pytest.mark.full, pytest.mark.serial]
RUNS, CALLS = 225, 45
MOST = 300 << 10
"""Limit in KiB."""


MEASURE = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=sys.stderr)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
"""A child's peak memory includes that of its parent at the start, so the parent is small here."""


def peak(*words: str | Path) -> int:
    """Peak memory of an export in KiB."""
    export = [sys.executable, "-m", "pytest_mlebench.cli", "export", *map(str, words)]
    command = [sys.executable, "-c", MEASURE, *export]
    return int(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)


@pytest.mark.parametrize("content", [(), ("--otlp-content",)], ids=["names", "content"])
def test_10_000_calls_of_225_runs_are_exported_in_bounded_memory(content: tuple[str, ...], tmp_path: Path) -> None:
    recorded_group(tmp_path / "runs/large", runs=RUNS, calls=CALLS, copies=True)
    with collecting() as collector:
        used = peak("--to=otlp", f"--endpoint={collector.url}", *content, tmp_path / "runs/large")
    assert len(collector.by_id) == len(collector.spans) == RUNS * (1 + CALLS + 1 + CALLS - 1)
    assert max(map(len, collector.requests)) < 2 << 20 and len(collector.requests) <= 2 * RUNS
    assert used < MOST


def test_one_run_of_10_000_calls_is_exported_in_bounded_memory(tmp_path: Path) -> None:
    recorded_group(tmp_path / "runs/long", runs=1, calls=10_000, outcomes=("gold",), window=20)
    with collecting() as collector:
        used = peak("--to=otlp", f"--endpoint={collector.url}", "--otlp-content", tmp_path / "runs/long")
    assert len(collector.by_id) == 10_000 + 1 + 9_999 + 1
    assert used < MOST


@pytest.mark.parametrize("to", ["inspect", "atif", "eee"])
def test_files_of_225_runs_are_written_in_bounded_memory(to: str, tmp_path: Path) -> None:
    recorded_group(tmp_path / "runs/large", runs=RUNS, calls=CALLS, copies=True)
    assert peak(f"--to={to}", "-o", tmp_path / "out", tmp_path / "runs/large") < MOST


@pytest.mark.skipif(find_spec("wandb") is None, reason="needs the extra wandb")
def test_225_runs_are_written_for_wandb_in_bounded_memory(tmp_path: Path) -> None:
    recorded_group(tmp_path / "runs/large", runs=RUNS, calls=CALLS, copies=True)
    assert peak("--to=wandb", "--offline", "-o", tmp_path / "out", tmp_path / "runs/large") < MOST
    assert len(list((tmp_path / "out/wandb").glob("offline-run-*"))) == RUNS + 1
