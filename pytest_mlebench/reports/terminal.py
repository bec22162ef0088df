"""The medal table at the end of a session."""

from __future__ import annotations

import pytest

from pytest_mlebench.io.units import format_dollars, pluralize
from pytest_mlebench.records.group import RunGroup
from pytest_mlebench.records.record import REPORT
from pytest_mlebench.reports.medals import in_order, medal_table
from pytest_mlebench.reports.palette import terminal_markup
from pytest_mlebench.reports.run_details import counted
from pytest_mlebench.reports.tables import terminal_width
from pytest_mlebench.reports.untrusted import one_line
from pytest_mlebench.results.findings import caveats
from pytest_mlebench.results.overview import Spending, spending
from pytest_mlebench.results.summary import SplitSummary, grader_defects, summarise


def write_medal_table(writer: pytest.TerminalReporter, group: RunGroup) -> None:
    """Write all runs by split, then any-medal rates, then where the reports are."""
    ordered = in_order(group.records)
    costs = spending(ordered)
    table = medal_table(ordered)
    fitted = table.fitted(terminal_width(is_terminal=writer.isatty()))
    heads, *lines = fitted.lines()
    writer.write_sep("=", "medals")
    writer.write_line(heads, bold=True)
    split = None
    for record, line in zip(ordered, lines, strict=True):
        if record.split != split:
            split = record.split
            writer.write_line(f"-- {one_line(split)}", bold=True)
        writer.write_line(line, **terminal_markup(record.outcome.colour))
    writer.write_line("")
    for line in table.missing(fitted):
        writer.write_line(f"{line}: `mlebench report {group.name} --runs` in a wider terminal or a file shows all")
    for summary in summarise([group]):
        writer.write_line(one_line(summary_line(summary)))
        if summary.note:
            writer.write_line(f"  {summary.note}")
        if summary.caution:
            writer.write_line(f"  {one_line(summary.caution)}")
    for spent in costs:
        writer.write_line(one_line(spending_line(spent)))
    for caveat in caveats(group):
        writer.write_line(one_line(caveat), yellow=True)
    for defect in grader_defects(group.records):
        writer.write_line(one_line(defect), red=True)
    for reason in group.broken:
        writer.write_line(f"left out: {one_line(reason)}", yellow=True)
    writer.write_line(f"run group: {group.folder}")
    if (report := group.folder / REPORT).exists():
        writer.write_line(f"report: {report.as_uri()}")


def summary_line(summary: SplitSummary) -> str:
    """For example ``baseline on smoke: any medal 66.7 % ± 0.0 (3 competitions × 2 seeds; 4 gold, 2 no medal)``."""
    counts = ", ".join(f"{count} {outcome.label}" for outcome, count in summary.counts.items() if count)
    if summary.is_provisional:
        competitions = pluralize(summary.competitions, "competition")
        return f"{summary.label} on {summary.split}: no complete seed of {competitions} yet ({counts or 'no run'})"
    runs = f"{pluralize(summary.competitions, 'competition')} × {pluralize(summary.seeds, 'seed')}"
    return f"{summary.label} on {summary.split}: any medal {summary.any_medal} ({runs}; {counts or 'no run'})"


def spending_line(spent: Spending) -> str:
    """For example ``aide on low: cost: $3.20, $0.80 a medal; 120 model calls, 1,200,000 tokens in, 34,000 out``, and
    what did not go well."""
    medal = "" if spent.cost_per_medal is None else f", {format_dollars(spent.cost_per_medal)} a medal"
    known = f" ({format_dollars(spent.known_cost)} known)" if spent.cost is None else ""
    failed = f"; requests that failed: {counted(spent.failures)}" if spent.failures else ""
    ended = f"; the budget of {pluralize(spent.budgets_ended, 'run')} ended" if spent.budgets_ended else ""
    return (
        f"{spent.agent} on {spent.split}: cost: {format_dollars(spent.cost)}{known}{medal}; "
        f"{pluralize(spent.calls, 'model call')}, {spent.input_tokens:,} tokens in, {spent.output_tokens:,} out"
        f"{failed}{ended}"
    )
