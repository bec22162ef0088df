"""Time that the gateway adds to a model call, to a stream's first event, to 200 streams, and to a run's start.

Provider and gateway run in separate processes. Calls with and without the gateway alternate, so that the machine is
equally busy for both. The provider answers immediately, so that only the transport is measured.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from typing import IO, Any
from urllib.parse import urlsplit

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

Figures = dict[str, list[dict[str, Any]]]
CALLS = 400
STREAMS = 200
STARTS = 7
QUESTION = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Which model first? " * 200}]}
PROVIDER = """
import sys
from tests.llm.upstreams import Upstream
with Upstream() as upstream:
    print(upstream.url, flush=True)
    for line in sys.stdin:
        upstream.pause = float(line)
        print("set", flush=True)
"""
GATEWAY = """
import sys, time
from pathlib import Path
from pytest_mlebench.llm.gateway import Gateway
from pytest_mlebench.llm.accounting import GatewaySettings

def memory(name):
    return next(line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))

before = memory("VmRSS")
settings = GatewaySettings()
providers = [settings.providers["openai"].located()]
began = time.perf_counter()
with Gateway(settings, providers, run_dir=Path(sys.argv[1])) as gateway:
    print(gateway.url, gateway.token, time.perf_counter() - began, flush=True)
    for line in sys.stdin:
        print(before, memory("VmHWM"), flush=True)
    began = time.perf_counter()
print(time.perf_counter() - began, flush=True)
"""


@dataclass
class Child:
    """A Python process that prints one line for each input line."""

    process: subprocess.Popen[str]
    said: list[str] = field(default_factory=list)

    def ask(self, line: str) -> list[str]:
        _pipe(self.process.stdin).write(f"{line}\n")
        _pipe(self.process.stdin).flush()
        return self.hear()

    def hear(self) -> list[str]:
        return _pipe(self.process.stdout).readline().split()


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None
    return pipe


@contextmanager
def child(program: str, *arguments: str, **variables: str) -> Iterator[Child]:
    root = Path(__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": str(root), **variables}
    process = subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        yield Child(process)
    finally:
        process.communicate(timeout=60)


@pytest.fixture(scope="module")
def provider() -> Iterator[tuple[Child, str]]:
    with child(PROVIDER) as process:
        (url,) = process.hear()
        yield process, url


@contextmanager
def started_gateway(url: str, folder: Path) -> Iterator[tuple[Child, str, str, float]]:
    folder.mkdir()
    with child(GATEWAY, str(folder), OPENAI_BASE_URL=f"{url}/v1", OPENAI_API_KEY="sk-benchmark") as gateway:
        there, token, seconds = gateway.hear()
        yield gateway, f"{there}/openai/v1", token, float(seconds)


class Way:
    """One connection to a provider, directly or through the gateway."""

    def __init__(self, base_url: str, token: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(base_url).netloc, timeout=60)
        self._path = f"{urlsplit(base_url).path}/chat/completions"
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def __enter__(self) -> Way:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def call(self, *, stream: bool) -> float:
        """Seconds until the answer, or the first event of its stream."""
        body = json.dumps({**QUESTION, "stream": stream}).encode()
        began = time.perf_counter()
        self._connection.request("POST", self._path, body, self._headers)
        answer = self._connection.getresponse()
        first = answer.readline() if stream else answer.read()
        seconds = time.perf_counter() - began
        assert answer.status == 200 and first
        answer.read()
        return seconds


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_latency(
    stream: bool, provider: tuple[Child, str], tmp_path: Path, benchmark: BenchmarkFixture, figures: Figures
) -> None:
    _, url = provider
    with (
        started_gateway(url, tmp_path / "run") as (_, base_url, token, _),
        Way(base_url, token) as through,
        Way(f"{url}/v1", "sk-benchmark") as direct,
    ):
        for way in (through, direct) * 20:
            way.call(stream=stream)
        pairs: list[tuple[float, float]] = []
        benchmark.pedantic(
            lambda: pairs.append((direct.call(stream=stream), through.call(stream=stream))), rounds=CALLS
        )
    alone, with_it = zip(*pairs, strict=True)
    row = {
        "what": "first event of a stream" if stream else "a call",
        "alone_ms": median(alone) * 1000,
        "with_it_ms": median(with_it) * 1000,
        "added_ms": median(two - one for one, two in pairs) * 1000,
        # Other load affects the median, but hardly the fastest 5 %.
        "added_idle_ms": (quantiles(with_it, n=20)[0] - quantiles(alone, n=20)[0]) * 1000,
    }
    benchmark.extra_info.update(row)
    figures["gateway"].append(row)


async def _streams(base_url: str, token: str) -> float:
    import aiohttp

    connector = aiohttp.TCPConnector(limit=0)
    headers = {"Authorization": f"Bearer {token}"}
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:

        async def stream() -> None:
            question = {**QUESTION, "stream": True}
            async with session.post(f"{base_url}/chat/completions", json=question) as answer:
                assert answer.status == 200
                assert (await answer.read()).endswith(b"data: [DONE]\n\n")

        began = time.perf_counter()
        await asyncio.gather(*(stream() for _ in range(STREAMS)))
        return time.perf_counter() - began


def test_streams_at_once(
    provider: tuple[Child, str], tmp_path: Path, benchmark: BenchmarkFixture, figures: Figures
) -> None:
    process, url = provider
    process.ask("0.05")
    rows: list[tuple[float, float, float]] = []
    numbers = iter(range(100))

    def measure() -> None:
        alone = asyncio.run(_streams(f"{url}/v1", "sk-benchmark"))
        with started_gateway(url, tmp_path / str(next(numbers))) as (gateway, base_url, token, _):
            with_it = asyncio.run(_streams(base_url, token))
            before, peak = map(int, gateway.ask("memory"))
        rows.append((alone, with_it, (peak - before) / 1024))

    benchmark.pedantic(measure, rounds=3)
    process.ask("0")
    alone, with_it, megabytes = (median(column) for column in zip(*rows, strict=True))
    row = {"what": f"{STREAMS} streams at once", "alone_s": alone, "with_it_s": with_it, "added_mb": megabytes}
    benchmark.extra_info.update(row)
    figures["gateway"].append(row)


def test_start(provider: tuple[Child, str], tmp_path: Path, benchmark: BenchmarkFixture, figures: Figures) -> None:
    """Measure in new processes, which have not imported the gateway."""
    _, url = provider
    rows: list[tuple[float, float, float]] = []
    numbers = iter(range(100))

    def measure() -> None:
        with started_gateway(url, tmp_path / str(next(numbers))) as (gateway, base_url, token, seconds):
            began = time.perf_counter()
            with Way(base_url, token) as way:
                way.call(stream=False)
            first = time.perf_counter() - began
            _pipe(gateway.process.stdin).close()
            (closing,) = gateway.hear()
            gateway.process.stdin = None
        rows.append((seconds, first, float(closing)))

    benchmark.pedantic(measure, rounds=STARTS)
    starting, first, closing = (median(column) for column in zip(*rows, strict=True))
    row = {"what": "start", "start_s": starting, "first_call_s": first, "close_s": closing}
    benchmark.extra_info.update(row)
    figures["gateway"].append(row)
