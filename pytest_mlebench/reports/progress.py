"""Terminal output: progress, the state of a run group and its workers, and the medal table at the end."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_mlebench.io.extensions import extensions, load_extension
from pytest_mlebench.io.progress import SECONDS_BETWEEN_LINES, Event, Step, event_text
from pytest_mlebench.io.units import format_dollars, format_seconds, format_size, one_line, plain, pluralize
from pytest_mlebench.records.group import (
    GroupReader,
    RunGroup,
    RunInProgress,
    latest_events,
    runs_in_progress,
    runs_to_resume,
)
from pytest_mlebench.records.outcome import Outcome
from pytest_mlebench.records.record import REPORT, RUN_LOG
from pytest_mlebench.reports.palette import terminal_markup
from pytest_mlebench.reports.run_details import counted
from pytest_mlebench.reports.tables import Table, in_order, medal_table, terminal_width
from pytest_mlebench.results.findings import caveats
from pytest_mlebench.results.overview import Spending, spending
from pytest_mlebench.results.summary import SplitSummary, grader_defects, summarise
from pytest_mlebench.sandbox.redaction import TAIL_SUFFIX, tail

if TYPE_CHECKING:
    from tqdm import tqdm


def write_medal_table(writer: pytest.TerminalReporter, group: RunGroup) -> None:
    """Write all runs by split, then any-medal rates and costs, warnings, and the paths of group and report."""
    ordered = in_order(group.records)
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
    if missing := table.missing(fitted):
        writer.write_line(f"{missing}: `mlebench report {group.name} --runs` in a wider terminal or a file shows all")
    for summary in summarise([group]):
        writer.write_line(one_line(summary_line(summary)))
        if summary.note:
            writer.write_line(f"  {summary.note}")
        if summary.caution:
            writer.write_line(f"  {one_line(summary.caution)}")
    for spent in spending(ordered):
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
    """Return costs, calls, tokens and failures, for example ``aide on low: cost: $3.20, $0.80 a medal; 120 …``."""
    medal = "" if spent.cost_per_medal is None else f", {format_dollars(spent.cost_per_medal)} a medal"
    known = f" ({format_dollars(spent.known_cost)} known)" if spent.cost is None else ""
    failed = f"; requests that failed: {counted(spent.failures)}" if spent.failures else ""
    ended = f"; budget used up in {pluralize(spent.budgets_ended, 'run')}" if spent.budgets_ended else ""
    return (
        f"{spent.agent} on {spent.split}: cost: {format_dollars(spent.cost)}{known}{medal}; "
        f"{pluralize(spent.calls, 'model call')}, {spent.input_tokens:,} tokens in, {spent.output_tokens:,} out"
        f"{failed}{ended}"
    )


_BAR = "{desc:<55.55}{percentage:3.0f} %|{bar}| {n_fmt}iB/{total_fmt}iB {rate_fmt} {remaining}"
_PLAIN = "{desc:<55.55}{elapsed}"
_TOTAL_BAR = "{desc:<55.55}{percentage:3.0f} %|{bar}| {n_fmt}/{total_fmt} {elapsed}<{remaining}"


@contextmanager
def shown(total: int) -> Iterator[Lines | Bars]:
    """Context manager: a reporter for work on ``total`` subjects that writes to stderr."""
    if not sys.stderr.isatty():
        yield Lines()
        return
    with closing(Bars(total)) as bars:
        yield bars


class Lines:
    """A reporter that writes a line for each new step, and one about its progress every 30 s.

    ``write`` writes a line, by default to stderr. Control sequences are removed.
    """

    def __init__(self, write: Callable[[str], None] | None = None) -> None:
        self._writer = write or _to_stderr
        self._first_steps: dict[str, tuple[Step, float]] = {}
        self._last_written: dict[str, float] = {}

    def __call__(self, event: Event) -> None:
        if not isinstance(event, Step):
            self._write(event_text(event))
            return
        subject, now = event.subject, time.monotonic()
        first, start = self._first_steps.get(subject, (None, now))
        if first is None or first.activity != event.activity:
            self._first_steps[subject] = event, now
            self._last_written[subject] = now
            self._write(f"{subject}: {event.activity}")
        elif event.total and now - self._last_written[subject] >= SECONDS_BETWEEN_LINES:
            self._last_written[subject] = now
            text = f"{format_size(event.done)} of {format_size(event.total)}"
            if event.done > first.done:
                remaining = (event.total - event.done) * (now - start) / (event.done - first.done)
                text += f", {format_seconds(remaining)} left"
            self._write(f"{subject}: {event.activity}: {text}")

    def end(self, subject: str, text: str) -> None:
        """Report that the work on a subject has ended; ``text`` is the result."""
        self._first_steps.pop(subject, None)
        self._write(text)

    def _write(self, line: str) -> None:
        self._writer(plain(line))


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


class Bars:
    """A reporter that draws a bar with the remaining time for each current subject, and one for all subjects."""

    def __init__(self, total: int) -> None:
        from tqdm import tqdm

        self._new: type[tqdm] = tqdm
        self._bars: dict[str, tqdm] = {}
        self._total_bar = self._new(desc="competitions", total=total, bar_format=_TOTAL_BAR, leave=False)

    def __call__(self, event: Event) -> None:
        if not isinstance(event, Step):
            self._new.write(plain(event_text(event)), file=sys.stderr)
            return
        name = f"{event.subject}: {event.activity}"
        bar = self._bars.get(event.subject)
        if bar is None or bar.desc != name:
            self._remove(event.subject)
            bar = self._bars[event.subject] = self._new(
                desc=name,
                total=event.total,
                initial=event.done,
                unit="iB",  # follows a prefix, as in GiB
                unit_scale=True,
                unit_divisor=1024,
                leave=False,
            )
        bar.bar_format = _BAR if event.total else _PLAIN
        bar.total = event.total
        bar.update(event.done - bar.n)
        self._total_bar.refresh()

    def end(self, subject: str, text: str) -> None:
        """Report that the work on a subject has ended; ``text`` is the result."""
        self._remove(subject)
        self._new.write(plain(text), file=sys.stderr)
        self._total_bar.update()

    def close(self) -> None:
        for bar in self._bars.values():
            bar.close()
        self._total_bar.close()

    def _remove(self, subject: str) -> None:
        if (bar := self._bars.pop(subject, None)) is not None:
            bar.close()


_LATEST = 5
_WATCH = "mlebench.watch"
"""Entry points: functions ``(group folder, how many) -> lines`` about runs that are waiting."""
_CALLS = "llm/calls.jsonl"
_HEADS = ("worker", "competition", "agent", "seed", "elapsed of limit", "end of its log")


def progress(reader: GroupReader, *, width: int = 120) -> str:
    """Return the state of a group as lines of at most ``width`` characters; raises UsageError if there is none."""
    group = reader.read()
    in_progress = runs_in_progress(reader.folder)
    running = [run for run in in_progress if not run.interrupted]
    done = {record.key for record in group.records}
    current = {run.key for run in running}
    interrupted = {run.key for run in runs_to_resume(in_progress, done)}
    waiting = len(group.planned - done - current - interrupted)
    broken = [f"left out: {reason.removeprefix(f'{reader.folder}/')}" for reason in group.broken[:_LATEST]]
    spent = _spent(group, [run.run_dir for run in running])
    lines = [
        *broken,
        f"{group.name}: {len(done)} of {len(group.planned | done)} runs finished, {len(running)} running, "
        f"{waiting} to come" + (f", {len(interrupted)} interrupted: resume with --resume" if interrupted else ""),
        _outcomes(group) or "nothing yet",
        *([spent] if spent else []),
        "",
    ]
    if running:
        lines += [*Table(_HEADS, [_row(run) for run in running]).fitted(width).lines(), ""]
    for name in extensions(_WATCH):
        waiting_lines: Callable[[Path, int], list[str]] | None = load_extension(_WATCH, name)
        lines += waiting_lines(reader.folder, _LATEST) if waiting_lines else []
    for record in sorted(group.records, key=lambda record: record.ended_at)[-_LATEST:]:
        score = "" if record.score is None else f", score {record.score:.5f}"
        lines.append(
            f"{record.ended_at[11:19]} {record.competition_id}, {record.agent}, seed {record.seed}: "
            f"{record.outcome.label}{score} after {format_seconds(record.seconds)}"
        )
    if latest := latest_events(reader.folder, _LATEST):
        lines.append("")
        lines += [f"{own.at[11:19]} {f'{own.worker} ' * bool(own.worker)}{event_text(own.event)}" for own in latest]
    return "\n".join(plain(line)[:width].rstrip() for line in lines)


def pulse(reader: GroupReader, seconds: float) -> str:
    """Return a group's state, ``seconds`` after its session began, as one line; raises UsageError if there is none.

    For example ``3 of 22 runs finished, 4 running; 1 gold, 2 no medal; 2:10:00; cost so far: $3.20``.
    """
    group = reader.read()
    running = [run for run in runs_in_progress(reader.folder) if not run.interrupted]
    parts = [
        f"{len(group.runs)} of {len(group.planned | group.runs.keys())} runs finished, {len(running)} running",
        _outcomes(group),
        format_seconds(seconds),
        _spent(group, [run.run_dir for run in running]),
    ]
    return plain("; ".join(filter(None, parts)))


def _outcomes(group: RunGroup) -> str:
    counts = Counter(record.outcome for record in group.records)
    return ", ".join(f"{counts[outcome]} {outcome.label}" for outcome in Outcome if counts[outcome])


def _spent(group: RunGroup, running: Iterable[Path]) -> str:
    """Return the cost of language models so far, including runs in progress; empty if no models were called."""
    costs: list[float | None] = [record.cost for record in group.records if record.usage.calls]
    for run_dir in running:
        if (run_dir / _CALLS).exists():
            from pytest_mlebench.llm.ledger import read_calls

            costs += [call.get("cost") for call in read_calls(run_dir) if (call.get("status") or 500) < 400]
    if not costs:
        return ""
    known = sum(cost for cost in costs if cost is not None)
    if None not in costs:
        return f"cost so far: {format_dollars(known)}"
    return f"cost so far: {format_dollars(known)}, plus unknown costs" if known else "cost so far: unknown"


def _row(run: RunInProgress) -> tuple[str, ...]:
    elapsed = format_seconds(max(0.0, time.time() - run.started))
    return (
        run.worker or "-",
        run.competition_id,
        run.agent,
        str(run.seed),
        f"{elapsed} of {format_seconds(run.time_limit)}",
        _last_line(run.run_dir),
    )


def _last_line(run_dir: Path) -> str:
    log = run_dir / RUN_LOG
    text = plain(tail(log.with_name(log.name + TAIL_SUFFIX)) or tail(log))
    return next((line for line in reversed(text.splitlines()) if line.strip()), "")
