"""What grading stored submissions again came to, beside the first results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_mlebench.io.units import format_score, pluralize
from pytest_mlebench.records.group import RunGroup
from pytest_mlebench.records.report import Report
from pytest_mlebench.reports.tables import Section, Table
from pytest_mlebench.runs.regrade import Regrading, latest_regradings

_SHOWN = 20


def regraded_sections(groups: Sequence[RunGroup]) -> Iterator[Section]:
    """The latest regrading of each group for each version of the benchmark; nothing where there is none."""
    for group in groups:
        found, broken = latest_regradings(group.folder)
        for one in found:
            title = f"Graded again: {group.name}, version {one.bench_version.removeprefix('v')}"
            table = changes_table(one)
            remarks = [f"{summary(one)} on {one.regraded_at[:10]}; all other tables are of the first grades"]
            more = not_graded_remarks(one)
            remarks += more[:_SHOWN] + ([f"and {len(more) - _SHOWN} more"] if len(more) > _SHOWN else [])
            yield Section(title, [table] if table else [], remarks)
        if broken:
            yield Section(f"Graded again: {group.name}", remarks=[f"cannot be read: {text}" for text in broken])


def changes_table(regrading: Regrading) -> Table | None:
    """The runs with another grade; None where there is none."""
    if not regrading.changed:
        return None
    rows = [
        (
            run.competition_id,
            run.agent,
            str(run.seed),
            _grade(run.before),
            _grade(run.after),
            "; ".join(run.changes),
        )
        for run in regrading.changed
    ]
    heads = ("competition", "agent", "seed", "before", "after", "changes")
    return Table(heads, rows, frozenset({"seed"}), ("changes",))


def not_graded_remarks(regrading: Regrading) -> list[str]:
    """Which runs could not be graded again, and why."""
    return [f"{run_id}: not graded: {why}" for run_id, why in regrading.not_graded.items()]


def summary(regrading: Regrading) -> str:
    """For example ``4 runs graded again, 1 with another grade``."""
    return f"{pluralize(len(regrading.runs), 'run')} graded again, {len(regrading.changed)} with another grade"


def _grade(report: Report) -> str:
    return f"{format_score(report.score)} {report.medal or ''}".strip()
