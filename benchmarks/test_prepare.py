"""Time of preparing compared with `unzip` alone, bytes written, and memory."""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

ID = "plant-pathology-2020-fgvc7"
PICTURES, PICTURE_BYTES = 4000, 500_000
ROUNDS = 3
# A process's counters include the bytes written by its children once it has waited for them.
COUNTING = "import subprocess, sys; subprocess.run(sys.argv[1:], check=True); print(open('/proc/self/io').read())"
CLASSES = ("healthy", "multiple_diseases", "rust", "scab")
Figures = dict[str, list[dict[str, Any]]]


@pytest.mark.skipif(shutil.which("unzip") is None, reason="needs unzip for comparison")
@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="needs Linux to count bytes")
def test_preparing_two_gigabytes_of_pictures(benchmark: BenchmarkFixture, tmp_path: Path, figures: Figures) -> None:
    with TemporaryDirectory(dir=tmp_path) as name:
        folder = Path(name)
        archive = folder / "kept.zip"
        make_archive(archive)
        data = folder / "data"
        unzips, runs = [], []

        def make_ready() -> None:
            shutil.rmtree(data, ignore_errors=True)
            target = folder / "unzipped"
            os.sync()
            begin, cpu = time.perf_counter(), cpu_of_children()
            subprocess.run(["unzip", "-q", str(archive), "-d", str(target)], check=True)
            unzips.append({"seconds": time.perf_counter() - begin, "cpu": cpu_of_children() - cpu})
            shutil.rmtree(target)
            (data / ID).mkdir(parents=True)
            os.link(archive, data / ID / f"{ID}.zip")
            os.sync()

        benchmark.pedantic(lambda: runs.append(prepare(data)), setup=make_ready, rounds=ROUNDS)
        size = archive.stat().st_size
        assert sum(1 for _ in (data / ID / "prepared/public/images").iterdir()) == PICTURES
    pairs = list(zip(runs, unzips, strict=True))
    benchmark.extra_info.update(
        competition=ID,
        megabytes=round(size / 1e6),
        seconds=round(statistics.median(run["seconds"] for run in runs), 2),
        unzip_seconds=round(statistics.median(own["seconds"] for own in unzips), 2),
        ratios=[round(run["seconds"] / own["seconds"], 2) for run, own in pairs],
        cpu=round(statistics.median(run["cpu"] for run in runs), 2),
        unzip_cpu=round(statistics.median(own["cpu"] for own in unzips), 2),
        disk=round(max(run["disk"] for run in runs) / size, 2),
        written=round(max(run["written"] for run in runs) / size, 3),
        peak_mb=round(max(run["peak"] for run in runs) / 1e6),
    )
    figures["prepare"].append(benchmark.extra_info)


def make_archive(path: Path) -> None:
    """Create an archive of images like Kaggle's, with incompressible bytes."""
    rows = [f"Train_{k}," + ",".join(str(int(k % 4 == c)) for c in range(4)) for k in range(PICTURES)]
    noise = os.urandom(64 << 20)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("train.csv", "\n".join([",".join(("image_id", *CLASSES)), *rows, ""]))
        for k in range(PICTURES):
            start = k * 7919 % (len(noise) - PICTURE_BYTES)
            archive.writestr(f"images/Train_{k}.jpg", noise[start : start + PICTURE_BYTES])


def cpu_of_children() -> float:
    """CPU seconds of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def prepare(data: Path) -> dict[str, float]:
    """Returns seconds, CPU seconds, bytes written by all processes, peak disk usage in addition to the archive, and the
    sum of all processes' peak memory."""
    command = [sys.executable, "-m", "pytest_mlebench.cli", "prepare", "-c", ID, "--data-dir", str(data)]
    begin, cpu = time.perf_counter(), cpu_of_children()
    free = shutil.disk_usage(data).free
    process = subprocess.Popen(
        [sys.executable, "-c", COUNTING, *command, "--skip-verification"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    peaks: dict[int, int] = {}
    least = [free]
    watcher = threading.Thread(target=watch, args=(process.pid, lambda: process.poll() is None, peaks, data, least))
    watcher.start()
    text = process.communicate()[0]
    seconds = time.perf_counter() - begin
    watcher.join()
    assert process.returncode == 0
    written = int(next(line for line in text.splitlines() if line.startswith("wchar")).split()[1])
    peaks.pop(process.pid)  # this process only counts
    used = {"written": written, "peak": sum(peaks.values()), "disk": free - least[0]}
    return {"seconds": seconds, "cpu": cpu_of_children() - cpu, **used}


def watch(pid: int, is_running: Callable[[], bool], peaks: dict[int, int], data: Path, least: list[int]) -> None:
    """Record the peak resident memory in bytes of a process and its descendants, by process id, and the minimum free
    disk space."""
    while is_running():
        least[0] = min(least[0], shutil.disk_usage(data).free)
        todo = [pid]
        while todo:
            each = todo.pop()
            try:
                status = Path(f"/proc/{each}/status").read_text()
                todo += map(int, Path(f"/proc/{each}/task/{each}/children").read_text().split())
            except OSError:  # the process has ended
                continue
            lines = [line for line in status.splitlines() if line.startswith("VmHWM")]
            if lines:
                peaks[each] = max(peaks.get(each, 0), int(lines[0].split()[1]) * 1024)
        time.sleep(0.05)
