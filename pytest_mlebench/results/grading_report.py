"""The grading report of several submissions, and a run group's files, as MLE-bench writes them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pytest_mlebench.io.values import write_json
from pytest_mlebench.records.outcome import Ending, Report
from pytest_mlebench.records.record import GRADING_REPORT, METADATA, RunRecord

_MAX_NAME = 150


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
        "competition_reports": [_as_mle_bench_writes(report) for report in reports],
    }


def _as_mle_bench_writes(report: Report) -> dict[str, Any]:
    """A report as JSON, its time without an offset: Python compares no time that has one with one that has none."""
    return report.to_json() | {"created_at": report.created_at.removesuffix("+00:00")}


def write_group(group_dir: Path, created_at: str, records: Iterable[RunRecord]) -> None:
    """Write ``metadata.json`` and ``grading_report.json`` of a run group, and where it has several agents, a
    ``grading_report_<agent>.json`` for each.

    The reports are ordered by agent, seed and competition: MLE-bench takes the i-th of a competition for seed i.
    """
    records = sorted(records, key=lambda record: (record.agent, record.seed, record.competition_id))
    runs = {r.run_id: {"success": r.ending == Ending.FINISHED, "outcome": r.outcome} for r in records}
    write_json(group_dir / METADATA, {"run_group": group_dir.name, "created_at": created_at, "runs": runs})
    write_json(group_dir / GRADING_REPORT, grading_report([record.report for record in records]))
    agents = sorted({record.agent for record in records})
    for agent in agents if len(agents) > 1 else ():
        own = [record.report for record in records if record.agent == agent]
        write_json(group_dir / report_name(agent), grading_report(own))


def report_name(agent: str) -> str:
    """The name of an agent's grading report: another one for each id, with ``+`` in place of ``/``."""
    text = quote(agent, safe="").replace("%2F", "+")
    if len(text) > _MAX_NAME:
        text = f"{text[:_MAX_NAME]}+{hashlib.sha256(agent.encode()).hexdigest()[:16]}"
    return f"{Path(GRADING_REPORT).stem}_{text}.json"
