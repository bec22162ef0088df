"""``mlebench view`` on 200 groups of 225 runs: first indexing, later starts, pages, and memory.

In Chromium: a live group with four workers, a trajectory of 2,000 steps, and a log of 50 MB.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.conftest import FIGURES
from pytest_mlebench.catalog import default_catalogue
from pytest_mlebench.extras.viewer.index import RunIndex
from pytest_mlebench.records.group import mark_running
from pytest_mlebench.records.record import RunKey
from tests.groups import make_group, record_with, save_group
from tests.reports.browser import Browser, Tab
from tests.viewer.conftest import write_trajectory

GROUPS, SEEDS = 200, 3
PAGES = (
    "/",
    "/group/group-007",
    "/runs",
    "/runs?q=titanic&order=-score",
    "/competitions",
    "/competition/spaceship-titanic",
    "/group/group-007/results",
)


@pytest.fixture(scope="module")
def runs_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One group of 75 competitions × 3 seeds, and copies of it under other names."""
    root = tmp_path_factory.mktemp("view")
    make_group(root / "group-000", seeds=SEEDS)
    for number in range(1, GROUPS):
        folder = root / f"group-{number:03}"
        folder.mkdir()
        manifest = json.loads((root / "group-000/manifest.json").read_text())
        (folder / "manifest.json").write_text(json.dumps(manifest | {"run_group": folder.name}))
        for record in (root / "group-000").glob("*/run.json"):
            (folder / record.parent.name).mkdir()
            (folder / record.parent.name / record.name).hardlink_to(record)
    return root


def read(url: str) -> None:
    with urllib.request.urlopen(url) as answer:
        answer.read()


def test_200_groups_of_225_runs(runs_dir: Path, benchmark: BenchmarkFixture, pytestconfig: pytest.Config) -> None:
    started = time.perf_counter()
    index = RunIndex(runs_dir)
    index.refresh(thorough=True)
    first = time.perf_counter() - started
    index.close()
    figures: dict[str, float] = {"first indexing, s": first}

    def start() -> None:
        began = time.perf_counter()
        command = [sys.executable, "-m", "pytest_mlebench.cli", "view", str(runs_dir), "--port=0"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        read(url)
        figures["start to the first page, s"] = time.perf_counter() - began
        own = psutil.Process(process.pid)

        def cpu() -> float:
            return float(sum(own.cpu_times()[:2]))

        figures["start to the first page, CPU s"] = cpu()
        time.sleep(15)  # by now, each run has been checked once
        figures["check of 45,000 runs, CPU s"] = cpu() - figures["start to the first page, CPU s"]
        for page in PAGES:
            took, before = [], cpu()
            for _ in range(5):
                began = time.perf_counter()
                read(url.rstrip("/") + page)
                took.append(time.perf_counter() - began)
            figures[f"{page}, CPU ms"] = 1000 * (cpu() - before) / len(took)
            figures[f"{page}, ms"] = 1000 * sorted(took)[2]
            figures[f"{page}, first, ms"] = 1000 * took[0]
        figures["memory, MB"] = own.memory_info().rss / 1e6
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)

    benchmark.pedantic(start, rounds=1)
    tell(benchmark, figures, pytestconfig)


class Server:
    """A running ``mlebench view``, with the CPU time of its process."""

    def __init__(self, url: str, process: psutil.Process) -> None:
        self.url, self._process = url, process

    def cpu(self) -> float:
        return float(sum(self._process.cpu_times()[:2]))


@contextmanager
def viewed(root: Path) -> Iterator[Server]:
    command = [sys.executable, "-m", "pytest_mlebench.cli", "view", str(root), "--port=0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip().rstrip("/")
            read(f"{url}/")
            yield Server(url, psutil.Process(process.pid))
        finally:
            process.send_signal(signal.SIGINT)


LONG_TASKS = """window.long = [];
new PerformanceObserver(list => window.long.push(...list.getEntries().map(own => own.duration))).observe(
  {type: "longtask"}); 0"""
PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"


def opened(browser: Browser, server: Server, path: str, what: str, figures: dict[str, float]) -> Tab:
    """Open a page twice, and store the time of its first paint and the server's CPU time in ``figures``."""
    for name in ("first", "again"):
        before = server.cpu()
        tab = browser.open(server.url + path)
        tab.wait(PAINT)
        figures[f"{what}, {name}: first paint, ms"] = tab.see(PAINT)
        figures[f"{what}, {name}: server's CPU, ms"] = 1000 * (server.cpu() - before)
        if name == "first":
            tab.close()
    return tab


def scrolled(tab: Tab, scroll: str, what: str, figures: dict[str, float]) -> None:
    """Scroll 150 times by most of a page, and count the tasks that blocked drawing for more than 50 ms."""
    tab.see(LONG_TASKS)
    began = time.perf_counter()
    for _ in range(150):
        tab.see(f"new Promise(done => {{ {scroll}; requestAnimationFrame(() => requestAnimationFrame(done)) }})")
    figures[f"{what}: 150 scrolls, s"] = time.perf_counter() - began
    long = tab.see("window.long ?? []")
    figures[f"{what}: tasks of more than 50 ms"] = len(long)
    figures[f"{what}: the longest, ms"] = max(long, default=0.0)


def test_a_long_run_in_chromium(tmp_path: Path, benchmark: BenchmarkFixture, pytestconfig: pytest.Config) -> None:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no chromium here")
    competition = default_catalogue()["spaceship-titanic"]
    (record,) = save_group(tmp_path / "runs/long", [record_with(competition, "gold")])
    run_dir = tmp_path / "runs/long" / record.run_id
    write_trajectory(run_dir, 2000)
    with (run_dir / "run.log").open("w") as file:
        for block in range(500):
            file.write("".join(f"{block:03}.{line:04} loss 0.123 {'x' * 60}\n" for line in range(1250)))
    figures: dict[str, float] = {}

    def look() -> None:
        with viewed(tmp_path / "runs") as server, Browser(chromium, tmp_path / "profile") as browser:
            run = f"/run/long/{record.run_id}"
            tab = opened(browser, server, f"{run}/trajectory", "2,000 steps", figures)
            scrolled(tab, "scrollBy(0, 700)", "2,000 steps", figures)
            assert tab.see("Math.max(...[...document.querySelectorAll('[data-step]')].map(s => s.dataset.step))") > 100
            tab.close()
            tab = opened(browser, server, f"{run}/log", "50 MB of log", figures)
            scrolled(tab, "document.getElementById('log').scrollBy(0, -700)", "50 MB of log", figures)
            assert tab.see("Number(document.querySelector('.part').dataset.start)") < 50_000_000

    benchmark.pedantic(look, rounds=1)
    tell(benchmark, figures, pytestconfig)


def test_four_workers_live_in_chromium(
    tmp_path: Path, benchmark: BenchmarkFixture, pytestconfig: pytest.Config
) -> None:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no chromium here")
    competitions = default_catalogue().split("all")[:40]
    folder = tmp_path / "runs/live"
    folder.mkdir(parents=True)
    keys = [RunKey("agent", competition.id, 0) for competition in competitions]
    planned = [{**key._asdict(), "nodeid": ""} for key in keys]
    (folder / "manifest.json").write_text(json.dumps({"run_group": "live", "created_at": "", "runs": planned}))
    figures: dict[str, float] = {}

    def look() -> None:
        with viewed(tmp_path / "runs") as server, Browser(chromium, tmp_path / "profile") as browser:
            tab = browser.open(f"{server.url}/group/live")
            tab.see(LONG_TASKS)
            before, waited = server.cpu(), list[float]()
            for start in range(0, 40, 4):  # four at a time; they print, end, and four others follow
                with ExitStack() as workers:
                    for n in range(start, start + 4):
                        run_dir = folder / f"{keys[n].competition_id}_agent-0"
                        run_dir.mkdir()
                        own = mark_running(run_dir, keys[n], worker=f"gw{n % 4}", time_limit=86400.0)
                        workers.enter_context(own)
                        (run_dir / "run.log").write_text(f"fold {n} of 5\n")
                    tab.wait("document.querySelectorAll('.worker').length === 4")
                    tab.wait(f"document.body.textContent.includes('fold {start + 3} of 5')")
                    for n in range(start, start + 4):
                        record = record_with(competitions[n], "gold", agent="agent")
                        record.write(folder / f"{keys[n].competition_id}_agent-0")
                began = time.perf_counter()
                tab.wait(f"document.querySelectorAll('#runs tbody tr').length === {start + 4}")
                waited.append(time.perf_counter() - began)
            figures["until four ended runs are in the table, s, the longest of ten"] = max(waited)
            figures["forty runs: server's CPU, s"] = server.cpu() - before
            figures["forty runs: tasks of more than 50 ms"] = len(tab.see("window.long ?? []"))

    benchmark.pedantic(look, rounds=1)
    tell(benchmark, figures, pytestconfig)


def tell(benchmark: BenchmarkFixture, figures: dict[str, float], config: pytest.Config) -> None:
    """Store the figures in the benchmark's extra information and in the final table."""
    benchmark.extra_info.update({name: round(value, 2) for name, value in figures.items()})
    config.stash[FIGURES]["view"] += [{"what": name, "figure": value} for name, value in figures.items()]
