"""Options of the benchmarks, and the tables at the end."""

from __future__ import annotations

from typing import Any

import pytest

FIGURES = pytest.StashKey[dict[str, list[dict[str, Any]]]]()
LIMITS = {"low": (15, 3000), "dev": (15, 3000), "medium": (30, 4000), "high": (30, 4000)}
"""Limits on seconds and megabytes for reading and grading a submission, by split."""

WORST_MEGABYTES, WORST_SECONDS = 1000.0, 20.0
"""Limits for a worst case, beyond the figures of an honest submission."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("mlebench benchmarks")
    group.addoption("--grader-rounds", type=int, default=3, metavar="N", help="gradings of each submission (default 3)")
    group.addoption("--max-seconds", type=float, metavar="S", help="mark graders that take longer (default: by split)")
    group.addoption("--max-megabytes", type=float, metavar="MB", help="mark graders that use more (default: by split)")
    group.addoption("--case-megabytes", type=float, default=10, metavar="MB", help="size of worst cases (default 10)")
    group.addoption("--check-cases", action="store_true", help="also check the format of worst cases")
    group.addoption(
        "--worst-only", type=int, metavar="N", help="grade only the N worst by time, by memory and by growth of time"
    )
    group.addoption("--cases", metavar="FILE", help="append the figures of all worst cases to a file, as JSON Lines")


def pytest_configure(config: pytest.Config) -> None:
    figures: dict[str, list[dict[str, Any]]] = {
        "graders": [],
        "start": [],
        "prepare": [],
        "report": [],
        "worst cases": [],
        "gateway": [],
        "limits": [],
        "engines": [],
        "view": [],
        "export": [],
        "episodes": [],
        "episodes at once": [],
    }
    config.stash[FIGURES] = figures


@pytest.fixture
def figures(pytestconfig: pytest.Config) -> dict[str, list[dict[str, Any]]]:
    """The rows of the tables; benchmarks append theirs."""
    return pytestconfig.stash[FIGURES]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    figures = config.stash[FIGURES]
    if rows := figures["graders"]:
        terminalreporter.section("grading at full size, slowest first")
        over = _write_graders(terminalreporter, rows, config)
        terminalreporter.line(f"{len(rows)} graders, {over} over a limit (!)")
    for row in figures["prepare"]:
        terminalreporter.section("preparing")
        terminalreporter.line(
            f"{row['competition']}, {row['megabytes']:,} MB: {row['seconds']:.1f} s, unzip alone "
            f"{row['unzip_seconds']:.1f} s (ratios {', '.join(f'{ratio:.2f}' for ratio in row['ratios'])} x); CPU "
            f"{row['cpu']:.1f} s, unzip {row['unzip_cpu']:.1f} s; {row['written']:.3f} bytes written per byte of the "
            f"archive, at most {row['disk']:.2f} additional bytes of disk space, {row['peak_mb']} MB of memory"
        )
    if rows := figures["start"]:
        terminalreporter.section("start, in CPU seconds")
        for row in rows:
            terminalreporter.line(
                f"{row['what']:<44}{row['alone']:8.3f} s alone{row['with_it']:9.3f} s with it"
                f"{row['with_it'] - row['alone']:+9.3f} s{row['with_it'] / row['alone']:8.2f} x"
            )
    if rows := figures["engines"]:
        terminalreporter.section("what an engine adds to a run, in seconds: median (minimum to maximum)")
        for row in rows:
            parts = (("job", "submitted to process"), ("harness", "process to agent"), ("end", "ended to reported"))
            texts = [
                f"{text} {row[name]:.2f} ({row[f'{name}_least']:.2f} to {row[f'{name}_most']:.2f})"
                for name, text in (*parts, ("all", "in total"))
            ]
            terminalreporter.line(f"{row['engine']:<8}{', '.join(texts)}; a whole job: {row['cpu']:.2f} CPU seconds")
    if rows := figures["report"]:
        terminalreporter.section("report of 75 competitions × 3 seeds")
        for row in rows:
            terminalreporter.line(
                f"{row['format']:<8}{row['seconds']:8.3f} s{row['slowest']:8.3f} s at most{row['bytes']:>12,} bytes"
            )
    if rows := figures["gateway"]:
        terminalreporter.section("what the gateway adds, medians")
        for row in rows:
            terminalreporter.line(_gateway_line(row))
    if rows := figures["limits"]:
        terminalreporter.section("limits: limit, reached, exceeded by")
        for row in rows:
            over = max(0.0, row["reached"] / row["asked"] - 1)
            mark = " !" if over > 0.1 else ""
            terminalreporter.line(
                f"| {row['sandbox']:<7} | {row['limit']:<44} | {row['asked']:>8,g} {row['unit']:<8} | "
                f"{row['reached']:>8,.4g} | {over:>6.1%} |{mark}"
            )
    for name in ("view", "export"):
        if not (rows := figures[name]):
            continue
        terminalreporter.section(f"mlebench {name}")
        for row in rows:
            terminalreporter.line(f"{row['what']:<64}{row['figure']:>10,.2f}")
    if rows := figures["episodes"]:
        terminalreporter.section("episodes: CPU (mean) and wall (median)")
        for row in rows:
            terminalreporter.line(f"{row['what']:<44}{row['cpu_ms']:8.1f} ms CPU{row['wall_ms']:9.1f} ms wall")
    if rows := figures["episodes at once"]:
        terminalreporter.section("episodes at once")
        for row in rows:
            terminalreporter.line(
                f"{row['what']:<44}{row['parallel']:>2} at once{row['each_cpu']:8.2f} per CPU second"
                f"{row['each_wall']:8.2f} per second"
            )
    if rows := figures["worst cases"]:
        terminalreporter.section("worst case of each competition, beyond an honest submission")
        _write_worst_cases(terminalreporter, rows)


def _write_worst_cases(reporter: pytest.TerminalReporter, rows: list[dict[str, Any]]) -> None:
    def weight(row: dict[str, Any]) -> float:
        return max(float(row["mb"]) / WORST_MEGABYTES, float(row["seconds"]) / WORST_SECONDS)

    worst = {row["competition"]: row for row in sorted(rows, key=weight)}
    for row in sorted(worst.values(), key=weight, reverse=True):
        reporter.line(
            f"{row['competition']:<60}{row['mb']:+9,.0f} MB {row['seconds']:+8.1f} s  of {row['megabytes']:.0f} MB, "
            f"{row['what']}: {row['case']}{'  !' if weight(row) > 1 else ''}"
        )
    over = sum(weight(row) > 1 for row in rows)
    reporter.line(f"{len(rows)} cases, {over} over {WORST_MEGABYTES:,} MB or {WORST_SECONDS:g} s (!)")


def _gateway_line(row: dict[str, Any]) -> str:
    if "added_ms" in row:
        return (
            f"{row['what']:<28}{row['alone_ms']:7.2f} ms alone{row['with_it_ms']:8.2f} ms with it"
            f"{row['added_ms']:+8.2f} ms ({row['added_idle_ms']:+.2f} ms among the fastest 5 %)"
        )
    if "added_mb" in row:
        return (
            f"{row['what']:<28}{row['alone_s']:7.2f} s alone {row['with_it_s']:8.2f} s with it "
            f"{row['with_it_s'] / row['alone_s']:8.2f} x, {row['added_mb']:.0f} MB of memory"
        )
    return (
        f"{row['what']:<28}{row['start_s']:7.3f} s until the run continues, {row['first_call_s']:.3f} s for an "
        f"immediate call, {row['close_s']:.3f} s to close"
    )


COLUMNS = {
    "split": ("split", "<6", ""),
    "seconds": ("seconds", ">9", ",.3f"),
    "cpu_seconds": ("cpu", ">8", ",.3f"),
    "peak_mb": ("peak MB", ">9", ",.0f"),
    "rows": ("rows", ">12", ",.0f"),
    "megabytes": ("file MB", ">9", ",.1f"),
    "answers_seconds": ("answers: seconds", ">18", ",.3f"),
    "answers_peak_mb": ("peak MB", ">9", ",.0f"),
}


def _write_graders(reporter: pytest.TerminalReporter, rows: list[dict[str, Any]], config: pytest.Config) -> int:
    width = max(len(row["competition"]) for row in rows)
    reporter.line("  ".join([" " * width, *(f"{name:{size}}" for name, size, _ in COLUMNS.values())]))
    over = 0
    for row in sorted(rows, key=lambda row: -row["seconds"]):
        seconds, megabytes = LIMITS.get(row["split"], LIMITS["high"])
        too_slow = row["seconds"] > (config.getoption("--max-seconds") or seconds)
        too_large = row["peak_mb"] > (config.getoption("--max-megabytes") or megabytes)
        over += too_slow or too_large
        cells = (f"{format(row[key], number):{size}}" for key, (_, size, number) in COLUMNS.items())
        marks = "  ! seconds" * too_slow + "  ! MB" * too_large
        reporter.line("  ".join([f"{row['competition']:{width}}", *cells]) + marks)
    return over
