"""A grader that exceeds its limits invalidates one run and affects nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.plugin.workers import in_one_process_and_with_xdist

pytestmark = [pytest.mark.serial, pytest.mark.full]

Run = Callable[..., pytest.RunResult]
Records = Callable[[], dict[str, dict[str, Any]]]

GRADER = """
import numpy as np
from sklearn.metrics import accuracy_score

from pytest_mlebench.authoring import predictions

def grade(submission, answers):
    score = accuracy_score(answers["odd"], predictions(submission, answers, "odd", on="id"))
    if score == 0.85:
        return np.ones(20 << 27).sum()
    while score == 0.75:
        pass
    return score
"""


@in_one_process_and_with_xdist
def test_a_grader_that_needs_20_gb_or_loops_forever_invalidates_only_one_run(
    run_toys: Run, records: Records, project: pytest.Pytester, workers: tuple[str, ...]
) -> None:
    (project.path / "competitions/toy-parity/grade.py").write_text(GRADER)
    result = run_toys("silver", "bronze", "gold", "no-medal", options=("--grading-time=2s", *workers))
    assert result.ret == 1
    assert all(f"1 {word}" in result.outlines[-1] for word in ("gold", "no medal"))
    assert "2 invalid submission" in result.outlines[-1]
    errors = {name: record["report"]["error"] for name, record in records().items()}
    assert errors == {
        "silver": "grading takes more than 8 GiB of memory (--grading-memory)",
        "bronze": "grading takes more than 2 s (--grading-time)",
        "gold": None,
        "no-medal": None,
    }


def test_grading_limits_are_also_ini_keys_and_are_resumed(
    run_toys: Run, records: Records, project: pytest.Pytester
) -> None:
    (project.path / "competitions/toy-parity/grade.py").write_text(GRADER)
    with (project.path / "tox.ini").open("a") as ini:
        ini.write("\nmlebench_grading_time = 1s\nmlebench_grading_memory = 1g\n")
    run_toys("silver")
    assert "1 GiB" in records()["silver"]["report"]["error"]
    (project.path / "tox.ini").write_text("[pytest]\n")
    resumed = project.runpytest_subprocess(
        "--resume=toys",
        "--agent=toy/bronze",
        "--agents-dir=agents",
        "--sandbox=local",
        "--trust-agent=toy/bronze",
        "-p",
        "no:cacheprovider",
    )
    assert "1 invalid submission" in resumed.outlines[-1]
    assert "more than 1 s" in records()["bronze"]["report"]["error"]
