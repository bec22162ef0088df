"""Exports of 225 runs with 10,000 model calls, and the cost of live traces for a session."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.conftest import FIGURES
from pytest_mlebench.extras.interop.otlp import Sender
from pytest_mlebench.extras.interop.otlp_live import LiveTraces
from pytest_mlebench.extras.interop.otlp_spans import RunSpans
from pytest_mlebench.results import read_group
from tests.interop.collector import collecting
from tests.interop.recorded import recorded_group
from tests.llm.upstreams import KEY, Upstream

CALLS = 45
SESSIONS = 3
CONFIG = """
calls:
  start: calls/start.sh
  dockerfile: calls/Dockerfile
  env_vars: {OPENAI_API_KEY: "${{ secrets.OPENAI_API_KEY }}"}
  llm_hosts: [api.openai.com]
  trusted: true
"""
START = f"""
cp "$DATA_DIR/sample_submission.csv" "$SUBMISSION_DIR/submission.csv"
exec python3 - <<'END'
import json, os, time, urllib.request
url, key = os.environ["OPENAI_BASE_URL"] + "/chat/completions", os.environ["OPENAI_API_KEY"]
headers = {{"Authorization": f"Bearer {{key}}", "Content-Type": "application/json"}}
messages = []
for n in range({CALLS}):
    messages.append({{"role": "user", "content": "Which model first? " * 20}})
    body = json.dumps({{"model": "gpt-4o", "messages": messages}}).encode()
    urllib.request.urlopen(urllib.request.Request(url, body, headers)).read()
    time.sleep(0.2)
END
"""
"""An agent that makes its model calls in about ten seconds."""


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
            # This includes the collector's share.
            figures[f"live: CPU of a run of {CALLS} calls, ms"] = 1e3 * (time.process_time() - cpu) / runs

    benchmark.pedantic(follow, rounds=1)
    tell(benchmark, figures, pytestconfig)


def test_live_sessions(tmp_path: Path, benchmark: BenchmarkFixture, pytestconfig: pytest.Config) -> None:
    """Alternate sessions of two runs without a collector, with one, and with one that stalls."""
    (tmp_path / "agents/calls").mkdir(parents=True)
    for name, content in (("config.yaml", CONFIG), ("start.sh", START), ("Dockerfile", "FROM scratch\n")):
        (tmp_path / "agents/calls" / name).write_text(content)
    seconds: dict[str, list[float]] = {"without": [], "with": [], "stalled": []}

    def session(options: list[str], upstream: str) -> float:
        number = sum(map(len, seconds.values()))
        command = [sys.executable, "-m", "pytest", "-q", "-pno:cacheprovider", "--split=smoke", "-kdigits"]
        command += [
            "--agent=calls",
            "--trust-agent=calls",
            "--agents-dir=agents",
            "--sandbox=local",
            "--runs-dir=runs",
            f"--run-group=session-{number}",
            "--seeds=2",
        ]
        environment = os.environ | {"OPENAI_BASE_URL": f"{upstream}/v1", "OPENAI_API_KEY": KEY}
        done = subprocess.run(
            [*command, *options], cwd=tmp_path, env=environment, check=False, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return sum(record.seconds for record in read_group(tmp_path / f"runs/session-{number}").records)

    def by_turns() -> None:
        with Upstream() as upstream:
            for _ in range(SESSIONS):
                for name, own in seconds.items():
                    with collecting() as collector:
                        collector.always = "stall" if name == "stalled" else None
                        options = [] if name == "without" else [f"--otlp={collector.url}"]
                        own.append(session(options, upstream.url))

    benchmark.pedantic(by_turns, rounds=1)
    usual = median(seconds["without"])
    shares = {name: 100 * (median(own) / usual - 1) for name, own in seconds.items() if name != "without"}
    figures = {f"live, {name}: a run's wall time more, %": share for name, share in shares.items()}
    tell(benchmark, {"live: a run's wall time without, seconds": usual / 2, **figures}, pytestconfig)
