"""No test starts after CI's deadline; those that did not start are listed. Most cases of a test run late."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CASES = "tests/grading/test_leak_rules.py"


def run(*options: str, until: str, unreached: Path) -> list[str]:
    """Return pytest's output for a file with a few parametrized tests."""
    variables = {"MLEBENCH_TEST_UNTIL": until, "MLEBENCH_TEST_UNREACHED": str(unreached)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", *options, CASES]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | variables, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.mark.full
def test_tests_that_do_not_start_are_listed(tmp_path: Path) -> None:
    unreached = tmp_path / "unreached"
    collected = [line for line in run("--collect-only", until="9e9", unreached=unreached) if line.startswith(CASES)]
    tests = [line.partition("[")[0] for line in collected]
    early = sum((count + 3) // 4 for count in Counter(tests).values())
    assert not unreached.exists() and early < len(tests)
    assert set(tests[:early]) == set(tests), "one case of each test runs early"
    assert "skipped" in run(until="0", unreached=unreached)[-1]
    assert sorted(unreached.read_text().splitlines()) == sorted(collected)
