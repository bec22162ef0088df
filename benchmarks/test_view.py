"""``mlebench view`` over 200 groups of 225 runs: the start after the first indexing, pages, and memory."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import psutil
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from pytest_mlebench.viewer.index import Index
from tests.groups import make_group

GROUPS, SEEDS = 200, 3
PAGES = ("/", "/group/group-007", "/competitions", "/competition/spaceship-titanic", "/group/group-007/results")


@pytest.fixture(scope="module")
def runs_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One group of 75 competitions × 3 seeds, and the same records under other names."""
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


def test_200_groups_of_225_runs(runs_dir: Path, benchmark: BenchmarkFixture) -> None:
    started = time.perf_counter()
    index = Index(runs_dir)
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
        time.sleep(15)  # the first look at each run is over
        figures["look at 45,000 runs, CPU s"] = cpu() - figures["start to the first page, CPU s"]
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
    benchmark.extra_info.update({name: round(value, 2) for name, value in figures.items()})
    for name, value in figures.items():
        print(f"{name:45} {value:10.2f}")
