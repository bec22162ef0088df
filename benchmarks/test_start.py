"""Time that the plugin adds to pytest's start in an unrelated suite, to an import, and to collection.

Figures are CPU seconds. Processes with and without pytest-mlebench alternate, so that the machine is equally busy.
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
"""Excludes plugins that our tests need and that users may not have installed."""


def cpu_seconds() -> float:
    """CPU seconds of all child processes that have ended."""
    usage = getrusage(RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


_ALL = default_catalogue().split("all")
CHECKED = len(_ALL) + sum((competition.folder / "v2").is_dir() for competition in _ALL)
"""Number of checked graders: one per competition, or two if it has a version 2."""

pytestmark = pytest.mark.benchmark(timer=cpu_seconds)


def run(arguments: Arguments, folder: Path) -> str:
    strange = ("PYTEST_", "PYTHONDONTWRITEBYTECODE")  # users have compiled modules, so bytecode is allowed
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

    run(with_it, folder)  # the first run compiles the modules
    benchmark.pedantic(run, args=(with_it, folder), setup=without_it, rounds=ROUNDS)
    assert benchmark.stats is not None
    row = {"what": what, "alone": median(seconds), "with_it": median(benchmark.stats.stats.data)}
    benchmark.extra_info.update(row)
    figures["start"].append(row)


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A project unrelated to MLE-bench."""
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


def test_collecting_all_competitions_compared_with_as_many_files(
    benchmark: BenchmarkFixture, suite: Path, figures: Figures
) -> None:
    """Compare with pytest alone on the same number of folders, files and tests."""
    for number in range(CHECKED):
        folder = suite / f"theirs/competition-{number}"
        folder.mkdir(parents=True)
        (folder / f"test_competition_{number}.py").write_text(
            "".join(f"def test_{n}():\n    pass\n\n\n" for n in range(4))
        )
    theirs, ours = (*PYTEST, "-p", "no:mlebench", "--co", "theirs"), (*PYTEST, "--co", "--split=all")
    assert run(theirs, suite).count("::test_") == run(ours, suite).count("::")
    compare("the same, compared with as many files", theirs, ours, suite, benchmark, figures)
