"""Exports of 225 runs with 10,000 model calls, and what live traces cost a session."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.conftest import FIGURES
from pytest_mlebench.extras.interop.otlp import Sender
from pytest_mlebench.extras.interop.otlp_live import LiveTraces
from pytest_mlebench.extras.interop.otlp_spans import RunSpans
from tests.interop.collector import collecting
from tests.interop.recorded import recorded_group

CALLS = 45


def tell(benchmark: BenchmarkFixture, figures: dict[str, float], config: pytest.Config) -> None:
    benchmark.extra_info.update(figures)
    config.stash[FIGURES]["export"] += [{"what": name, "figure": value} for name, value in figures.items()]


@pytest.mark.parametrize("runs", [45, 225])
@pytest.mark.parametrize("content", [(), ("--otlp-content",)], ids=["names", "content"])
def test_otlp(
    runs: int, content: tuple[str, ...], tmp_path: Path, benchmark: BenchmarkFixture, pytestconfig: pytest.Config
) -> None:
    group = tmp_path / "runs/group"
    recorded_group(group, runs=runs, calls=CALLS, copies=True)
    figures: dict[str, float] = {}
    name = f"{runs} runs, {runs * CALLS:,} calls{' with content' if content else ''}"

    def export() -> None:
        command = [sys.executable, "-m", "pytest_mlebench.cli", "export", "--to=otlp", str(group), *content]
        began = time.perf_counter()
        with collecting() as collector, subprocess.Popen([*command, f"--endpoint={collector.url}"]) as process:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        figures[f"{name}: seconds"] = time.perf_counter() - began
        figures[f"{name}: CPU seconds"] = usage.ru_utime + usage.ru_stime
        figures[f"{name}: memory, MB"] = usage.ru_maxrss / 1e3

    benchmark.pedantic(export, rounds=1)
    tell(benchmark, figures, pytestconfig)


def test_live(tmp_path: Path, benchmark: BenchmarkFixture, pytestconfig: pytest.Config) -> None:
    group, runs = tmp_path / "runs/group", 100
    records = recorded_group(group, runs=runs, calls=CALLS, copies=True)
    figures: dict[str, float] = {}

    def follow() -> None:
        with collecting() as collector:
            live = LiveTraces(Sender(collector.url, {}), RunSpans(str), group, drain=600)
            began, cpu = time.perf_counter(), time.process_time()
            for record in records:
                live.ended(record, group / record.run_id)
            figures["live: a run's end waits, ms"] = 1e3 * (time.perf_counter() - began) / runs
            assert live.close().startswith(f"{runs} traces")
            # The collector's share is in it.
            figures[f"live: CPU of a run of {CALLS} calls, ms"] = 1e3 * (time.process_time() - cpu) / runs

    benchmark.pedantic(follow, rounds=1)
    tell(benchmark, figures, pytestconfig)
