"""Time of ``mlebench report`` for 75 competitions × 3 seeds, from the start of the process to its end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

GROUPS = Path(__file__).parents[1] / "tests/groups.py"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run group of 225 runs."""
    folder = tmp_path_factory.mktemp("reports") / "group"
    subprocess.run([sys.executable, GROUPS, folder, "--seeds=3"], check=True)
    return folder


@pytest.mark.parametrize("form", ["table", "json", "csv", "md", "html"])
def test_report(benchmark: BenchmarkFixture, folder: Path, form: str, figures: dict[str, list[dict[str, Any]]]) -> None:
    command = [sys.executable, "-m", "pytest_mlebench.cli", "report", str(folder), f"--format={form}", "--by=category"]

    def report() -> int:
        return len(subprocess.run(command, check=True, capture_output=True).stdout)

    size = benchmark.pedantic(report, rounds=5, warmup_rounds=1)
    assert benchmark.stats is not None
    stats = benchmark.stats.stats
    row = {"format": form, "seconds": stats.median, "slowest": stats.max, "bytes": size}
    benchmark.extra_info.update(row)
    figures["report"].append(row)
