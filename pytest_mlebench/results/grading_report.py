"""The grading report of several submissions, and a run group's files, as MLE-bench writes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pytest_mlebench.grading.report import Report
from pytest_mlebench.runs.json_files import write_json
from pytest_mlebench.runs.layout import GRADING_REPORT, METADATA
from pytest_mlebench.runs.record import RunRecord
from pytest_mlebench.sandbox.contract import Ending


def grading_report(reports: Sequence[Report]) -> dict[str, Any]:
    """The totals and the single reports, with MLE-bench's keys."""

    def count(key: str) -> int:
        return sum(bool(getattr(report, key)) for report in reports)

    return {
        "total_runs": len(reports),
        "total_runs_with_submissions": count("submission_exists"),
        "total_valid_submissions": count("valid_submission"),
        "total_medals": count("any_medal"),
        "total_gold_medals": count("gold_medal"),
        "total_silver_medals": count("silver_medal"),
        "total_bronze_medals": count("bronze_medal"),
        "total_above_median": count("above_median"),
        "competition_reports": [report.to_json() for report in reports],
    }


def write_group(group_dir: Path, created_at: str, records: Iterable[RunRecord]) -> None:
    """Write ``metadata.json`` and ``grading_report.json`` of a run group."""
    records = list(records)
    runs = {r.run_id: {"success": r.ending == Ending.FINISHED, "outcome": r.outcome} for r in records}
    write_json(group_dir / METADATA, {"run_group": group_dir.name, "created_at": created_at, "runs": runs})
    write_json(group_dir / GRADING_REPORT, grading_report([record.report for record in records]))
