"""What the plugin adds to pytest's start in somebody's suite, what ``import pytest_mlebench`` and collecting cost.

In CPU seconds of the process, each by turns with the same without pytest-mlebench, so that both see the same machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from pytest_mlebench.catalog import default_catalogue

Figures = dict[str, list[dict[str, Any]]]
Arguments = tuple[str, ...]
ROUNDS = 15
PYTEST = (
    "-m",
    "pytest",
    "-q",
    *(f"-pno:{name}" for name in ("cacheprovider", "hypothesispytest", "benchmark", "anyio")),
)
"""Without the plugins that our tests need and others' may not have."""


def cpu_seconds() -> float:
    """What the children that have ended took."""
    usage = getrusage(RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


_ALL = default_catalogue().split("all")
CHECKED = len(_ALL) + sum((competition.folder / "v2").is_dir() for competition in _ALL)
"""Graders are checked in both versions of the benchmark."""

pytestmark = pytest.mark.benchmark(timer=cpu_seconds)


def run(arguments: Arguments, folder: Path) -> str:
    strange = ("PYTEST_", "PYTHONDONTWRITEBYTECODE")  # users have compiled modules
    environment = {name: value for name, value in os.environ.items() if not name.startswith(strange)}
    result = subprocess.run([sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def compare(
    what: str, alone: Arguments, with_it: Arguments, folder: Path, benchmark: BenchmarkFixture, figures: Figures
) -> None:
    seconds: list[float] = []

    def without_it() -> None:
        began = cpu_seconds()
        run(alone, folder)
        seconds.append(cpu_seconds() - began)

    run(with_it, folder)  # the first run compiles
    benchmark.pedantic(run, args=(with_it, folder), setup=without_it, rounds=ROUNDS)
    assert benchmark.stats is not None
    row = {"what": what, "alone": median(seconds), "with_it": median(benchmark.stats.stats.data)}
    benchmark.extra_info.update(row)
    figures["start"].append(row)


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A project that has nothing to do with MLE-bench."""
    (tmp_path / "test_theirs.py").write_text("def test_theirs():\n    pass\n")
    return tmp_path


def test_importing_the_package(benchmark: BenchmarkFixture, tmp_path: Path, figures: Figures) -> None:
    compare("import pytest_mlebench", ("-c", ""), ("-c", "import pytest_mlebench"), tmp_path, benchmark, figures)


def test_starting_pytest_in_an_unrelated_suite(benchmark: BenchmarkFixture, suite: Path, figures: Figures) -> None:
    compare("pytest in an unrelated suite", (*PYTEST, "-p", "no:mlebench"), PYTEST, suite, benchmark, figures)


def test_collecting_all_competitions(benchmark: BenchmarkFixture, suite: Path, figures: Figures) -> None:
    alone, everything = (*PYTEST, "-p", "no:mlebench", "--co"), (*PYTEST, "--co", "--split=all")
    assert run(everything, suite).count("::scores") == CHECKED
    compare("pytest --collect-only --split=all", alone, everything, suite, benchmark, figures)


def test_collecting_all_competitions_beside_as_many_files(
    benchmark: BenchmarkFixture, suite: Path, figures: Figures
) -> None:
    """What is left of the difference where pytest alone has as many folders, files and tests to collect."""
    for number in range(CHECKED):
        folder = suite / f"theirs/competition-{number}"
        folder.mkdir(parents=True)
        (folder / f"test_competition_{number}.py").write_text(
            "".join(f"def test_{n}():\n    pass\n\n\n" for n in range(4))
        )
    theirs, ours = (*PYTEST, "-p", "no:mlebench", "--co", "theirs"), (*PYTEST, "--co", "--split=all")
    assert run(theirs, suite).count("::test_") == run(ours, suite).count("::")
    compare("the same, beside as many files of tests", theirs, ours, suite, benchmark, figures)
