"""A run group's progress as text: what each worker does, and the medals so far."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

from pytest_mlebench.outcomes import BY_NAME
from pytest_mlebench.quantities import format_seconds
from pytest_mlebench.results.group import read_group
from pytest_mlebench.results.record import OUTCOMES
from pytest_mlebench.results.running import RunInProgress, runs_in_progress
from pytest_mlebench.sandbox.base import RUN_LOG
from pytest_mlebench.sandbox.logs import TAIL_SUFFIX, tail

_LATEST = 5
_HEADS = ("worker", "competition", "agent", "seed", "elapsed of limit", "end of its log")


def progress(folder: Path, *, width: int = 120) -> str:
    """What a group has come to and what is going on in it, in lines of at most ``width`` characters.

    Raises UsageError where there is no run group.
    """
    group = read_group(folder)
    in_progress = runs_in_progress(folder)
    running = [run for run in in_progress if not run.interrupted]
    done = {record.key for record in group.records}
    again = {run.key for run in running}
    interrupted = {run.key for run in in_progress if run.interrupted} - done - again
    waiting = len(group.planned - done - again - interrupted)
    counts = Counter(record.outcome for record in group.records)
    lines = [
        f"{group.name}: {len(done)} of {len(group.planned | done)} runs finished, {len(running)} running, "
        f"{waiting} to come" + (f", {len(interrupted)} interrupted: go on with --resume" if interrupted else ""),
        "; ".join(f"{counts[name]} {BY_NAME[name].category}" for name in OUTCOMES if counts[name]) or "nothing yet",
        "",
    ]
    if running:
        rows = [_HEADS, *(_row(run) for run in running)]
        widths = [max(len(row[k]) for row in rows) for k in range(len(_HEADS) - 1)]
        lines += ["  ".join([*map(str.ljust, row, widths), row[-1]]) for row in rows]
        lines.append("")
    for record in sorted(group.records, key=lambda record: record.ended_at)[-_LATEST:]:
        score = "" if record.score is None else f", score {record.score:.5f}"
        lines.append(
            f"{record.ended_at[11:19]} {record.competition_id}, {record.agent}, seed {record.seed}: "
            f"{BY_NAME[record.outcome].category}{score} after {format_seconds(record.seconds)}"
        )
    return "\n".join(line[:width].rstrip() for line in lines)


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
    """The end of a running agent's log; what is no plain text in it could command the reader's terminal."""
    log = run_dir / RUN_LOG
    text = tail(log.with_name(log.name + TAIL_SUFFIX)) or tail(log)
    lines = [line for line in text.splitlines() if line.strip()]
    return "".join(letter for letter in lines[-1] if letter.isprintable()) if lines else ""
