"""What the plugin adds to the start of pytest, and what collecting the whole benchmark takes.

Each is measured against the same without the plugin, by turns, so that both see the same machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from pytest_mlebench.catalog import default_catalogue

Figures = dict[str, list[dict[str, Any]]]
ROUNDS = 7
COLLECT = ("-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider")
ALONE = (*COLLECT, "-p", "no:mlebench")


def run(arguments: tuple[str, ...], folder: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    result = subprocess.run([sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True)
    assert result.returncode in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED), result.stdout + result.stderr
    return result.stdout


def compare(
    what: str,
    alone: tuple[str, ...],
    with_it: tuple[str, ...],
    folder: Path,
    benchmark: BenchmarkFixture,
    figures: Figures,
) -> None:
    seconds: list[float] = []

    def without_the_plugin() -> None:
        began = time.perf_counter()
        run(alone, folder)
        seconds.append(time.perf_counter() - began)

    run(with_it, folder)  # the first run compiles
    benchmark.pedantic(run, args=(with_it, folder), setup=without_the_plugin, rounds=ROUNDS)
    row = {"what": what, "alone": median(seconds), "with_it": median(benchmark.stats.stats.data)}
    benchmark.extra_info.update(row)
    figures["start"].append(row)


def test_importing_the_plugin(benchmark: BenchmarkFixture, tmp_path: Path, figures: Figures) -> None:
    compare(
        "importing pytest",
        ("-c", "import pytest"),
        ("-c", "import pytest, pytest_mlebench.plugin"),
        tmp_path,
        benchmark,
        figures,
    )


def test_starting_pytest_in_an_empty_folder(benchmark: BenchmarkFixture, tmp_path: Path, figures: Figures) -> None:
    compare("pytest in an empty folder", ALONE, COLLECT, tmp_path, benchmark, figures)


def test_collecting_all_competitions(benchmark: BenchmarkFixture, tmp_path: Path, figures: Figures) -> None:
    everything = (*COLLECT, "--split=all")
    assert run(everything, tmp_path).count("::scores") == len(default_catalogue().split("all"))
    compare("pytest in an empty folder, with --split=all", ALONE, everything, tmp_path, benchmark, figures)
