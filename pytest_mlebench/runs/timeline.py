"""A run's timeline: what the submission was worth over time and over money, from its snapshots."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_mlebench import defaults
from pytest_mlebench.catalog.schema import Medal
from pytest_mlebench.io.values import loads
from pytest_mlebench.records.outcome import Report, TimelinePoint
from pytest_mlebench.records.record import SUBMISSION, VALIDATION
from pytest_mlebench.runs.files import FilesError, open_files
from pytest_mlebench.sandbox.collection import Snapshots, digest_of

_MAX_VALIDATION_BYTES = 1 << 16
NOT_GRADED = "not graded: "
"""How the error of a point begins that has no grade, though there may be nothing wrong with it."""
_LATE = f"{NOT_GRADED}grading the run's snapshots took too long"
_INTERRUPTED = f"{NOT_GRADED}the session was interrupted"


def timeline(
    snapshots: Snapshots,
    report: Report,
    run_dir: Path,
    *,
    seconds: float,
    spent: Mapping[str, Any],
    grade: Callable[[Path], Report] | None,
    limit: float = defaults.TIMELINE_SECONDS,
) -> tuple[TimelinePoint, ...]:
    """The snapshots by time, and last the submission that the run left, whose ``report`` is known.

    ``seconds`` and ``spent`` are those of the whole run. ``grade`` grades a snapshot; None: the others are not graded.
    Grading ends after ``limit`` seconds; until then the order is such that what is graded covers the whole run.
    """
    taken, final = list(snapshots.taken), run_dir / SUBMISSION
    final_digest = digest_of(final) if report.submission_exists and _is_file(final) else None
    reports = {final_digest: report} if final_digest else {}
    started = time.monotonic()
    for number in _spread(len(taken)):
        late = time.monotonic() - started > limit
        if grade is not None and not late and taken[number].digest not in reports:
            reports[taken[number].digest] = grade(taken[number].path)
    missing = _INTERRUPTED if grade is None else _LATE
    points = []
    for snapshot in taken:
        point = _point(
            reports.get(snapshot.digest),
            missing,
            seconds=min(snapshot.seconds, round(seconds, 3)),  # a sandbox measures the run a little later
            calls=snapshot.calls,
            cost=snapshot.cost,
            file=snapshot.path.relative_to(run_dir).as_posix(),
            final=snapshot is taken[-1] and snapshot.digest == final_digest,
        )
        points.append(point)
    if final_digest and not (points and points[-1].final):
        at = seconds if snapshots.changed_at is None else min(seconds, snapshots.changed_at)
        calls, cost = spent.get("calls"), spent.get("cost")
        points.append(
            _point(report, "", seconds=round(at, 3), calls=calls, cost=cost, file=SUBMISSION, final=True),
        )
    return tuple(points)


def read_validation_score(run_dir: Path) -> float | None:
    """The score that the agent itself expects, by its ``submission/validation.json``; None where it says nothing.

    Whatever it wrote there, this is a finite number or None.
    """
    try:
        with open_files(run_dir) as files:
            found = files.get(VALIDATION)
            if found is None or found.size > _MAX_VALIDATION_BYTES:
                return None
            values = loads(files.read(VALIDATION, _MAX_VALIDATION_BYTES))
    except (FilesError, ValueError):
        return None
    score = values.get("validation_score") if isinstance(values, dict) else None
    if isinstance(score, bool) or not isinstance(score, int | float) or abs(score) > 1e300:
        return None
    return float(score) if math.isfinite(score) else None


def _point(report: Report | None, missing: str, **known: Any) -> TimelinePoint:
    if report is None:
        return TimelinePoint(**known, error=missing)
    medal: Medal | None = report.medal
    return TimelinePoint(**known, score=report.score, medal=medal, error=report.error)


def _spread(count: int) -> Iterator[int]:
    """The numbers below ``count`` in an order that soon covers their whole range: the last, the first, the middle, …

    >>> list(_spread(5))
    [4, 0, 2, 1, 3]
    """
    if count:
        yield count - 1
    if count > 1:
        yield 0
    step = 1 << (count - 1).bit_length() >> 1
    while step:
        yield from range(step, count - 1, 2 * step)
        step //= 2


def _is_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()
