"""Grades a submission in a Harbor verifier's container, where this program is next to ``task.json``.

The reward is written in one step, after grading. Until then, the zeros of ``test.sh`` apply. A separate process with
limits reads the submission as data.
"""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from pytest_mlebench.catalog.competition import Competition
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.grading.grader import Grader, GradingLimits
from pytest_mlebench.grading.rewards import REWARDS, Measured
from pytest_mlebench.grading.twins import medals_from_json
from pytest_mlebench.io import files
from pytest_mlebench.io.values import json_text, loads
from pytest_mlebench.records.outcome import Report

SUBMISSION = Path("/home/submission/submission.csv")
LOGS = Path("/logs/verifier")
BEATS_SAMPLE = "milestones"
"""The reward for which the sample submission is graded too."""


def main(folder: Path = Path(__file__).parent, submission: Path = SUBMISSION, logs: Path = LOGS) -> int:
    """Write ``reward.json``, and ``report.json`` with the full report."""
    task = loads((folder / "task.json").read_bytes())
    dataset = read_dataset(folder, task)
    limits = GradingLimits(memory=task["grading_memory"], seconds=task["grading_time"])
    grader = Grader(dataset.competition, dataset, max_bytes=task["max_submission_bytes"], limits=limits)
    if submission.exists() and submission.resolve() != submission:  # a link could lead to the answers
        submission = Path()
    report = grader.report(submission)
    sample = None
    if task["reward"] == BEATS_SAMPLE:
        sample = grader.report(dataset.sample_submission, certainty=False).score
    files.write_text(logs / "report.json", json_text({"task": task, "report": report.to_json()}) + "\n")
    files.write_text(logs / "reward.json", json.dumps(rewards(report, task["reward"], sample), allow_nan=False) + "\n")
    return 0


def read_dataset(folder: Path, task: dict[str, Any]) -> Dataset:
    """The competition's answers; for a twin, with the twin's medals."""
    competition = Competition.load(folder / "competitions" / task["competition_id"], version=task["bench_version"])
    dataset = Dataset(competition, folder / "data")
    if dataset.twin_record.exists():
        medals = medals_from_json(competition, loads(dataset.twin_record.read_bytes())["medals"])
        dataset = replace(dataset, competition=competition.as_twin(medals.leaderboard))
    return dataset


def rewards(report: Report, name: str, sample: float | None = None) -> dict[str, float | int]:
    """The numbers that Harbor shows, each finite."""
    measured = Measured(
        exists=report.submission_exists,
        valid=report.valid_submission,
        score=report.score,
        sample=sample,
        lower_is_better=report.is_lower_better,
        percentile=report.percentile,
        above_median=report.above_median,
        medal=report.medal,
    )
    reward = REWARDS[name](measured)
    return {
        "reward": reward if math.isfinite(reward) else 0.0,
        "valid": int(report.valid_submission),
        "above_median": int(report.above_median),
        "bronze": int(report.any_medal),
        "silver": int(report.silver_medal or report.gold_medal),
        "gold": int(report.gold_medal),
    }


if __name__ == "__main__":
    sys.exit(main())
