"""The medal table at the end of a session."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pytest_mlebench.outcomes import BY_NAME, outcome_of
from pytest_mlebench.quantities import counted, format_score, format_seconds
from pytest_mlebench.results.group import RunGroupResults
from pytest_mlebench.results.record import REPORT, RunRecord
from pytest_mlebench.results.summary import SplitSummary, split_rank, summarise

_HEADS = ("competition", "agent", "seed", "medal", "score", "gold", "silver", "bronze", "median", "time", "ended")
_RIGHT = {"seed", "score", "gold", "silver", "bronze", "median", "time"}


def write_medal_table(writer: pytest.TerminalReporter, group: RunGroupResults) -> None:
    """All runs by split, then any-medal rates, then where the reports are."""
    ordered = sorted(group.records, key=lambda r: (split_rank(r.split), r.competition_id, r.agent, r.seed))
    rows = [_row(record) for record in ordered]
    widths = [max(len(row[k]) for row in [_HEADS, *rows]) for k in range(len(_HEADS))]
    writer.write_sep("=", "medals")
    writer.write_line(_line(_HEADS, widths), bold=True)
    split = None
    for record, row in zip(ordered, rows, strict=True):
        if record.split != split:
            split = record.split
            writer.write_line(f"-- {split}", bold=True)
        writer.write_line(_line(row, widths), **outcome_of(record).markup)
    writer.write_line("")
    for summary in summarise([group]):
        writer.write_line(summary_line(summary))
        if summary.note:
            writer.write_line(f"  {summary.note}")
    for reason in group.broken:
        writer.write_line(f"left out: {reason}", yellow=True)
    writer.write_line(f"run group: {group.folder}")
    if (report := group.folder / REPORT).exists():
        writer.write_line(f"report: {report.as_uri()}")


def summary_line(summary: SplitSummary) -> str:
    """For example ``baseline on smoke: any medal 66.7 % ± 0.0 (3 competitions × 2 seeds; 4 gold, 2 no medal)``."""
    counts = ", ".join(f"{count} {BY_NAME[name].category}" for name, count in summary.counts.items() if count)
    runs = f"{counted(summary.competitions, 'competition')} × {counted(summary.seeds, 'seed')}"
    return f"{summary.label} on {summary.split}: any medal {summary.any_medal} ({runs}; {counts or 'no run'})"


def _row(record: RunRecord) -> tuple[str, ...]:
    report = record.report
    thresholds = (report.gold_threshold, report.silver_threshold, report.bronze_threshold, report.median_threshold)
    return (
        record.competition_id,
        record.agent,
        str(record.seed),
        outcome_of(record).category,
        format_score(record.score),
        *map(format_score, thresholds),
        format_seconds(record.seconds),
        record.ending,
    )


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(
        cell.rjust(width) if head in _RIGHT else cell.ljust(width)
        for cell, width, head in zip(cells, widths, _HEADS, strict=True)
    ).rstrip()
