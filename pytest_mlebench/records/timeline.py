"""A submission's worth over time, as the record holds it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytest_mlebench.catalog.leaderboard import MEDALS
from pytest_mlebench.records.report import Report


@dataclass(frozen=True, kw_only=True)
class TimelinePoint:
    """A submission as it was ``seconds`` after the agent's start, and what had been spent on models by then.

    ``cost`` in US dollars. ``score`` and ``medal`` are those that it would have had as the last one; ``error`` says why
    it has no score. ``file`` is relative to the run's directory.
    """

    seconds: float
    calls: int | None = None
    cost: float | None = None
    score: float | None = None
    medal: str | None = None
    error: str | None = None
    file: str = ""
    final: bool = False
    """Whether this is the submission that the run left, and whose score is the run's."""


@dataclass(frozen=True, kw_only=True)
class LastChange:
    """What it cost to replace the best submission: by a worse one, or by none (then ``score`` and ``medal`` are None).

    ``best_seconds`` is when the best one was there.
    """

    best_seconds: float
    best_score: float
    best_medal: str | None
    score: float | None
    medal: str | None

    @property
    def medal_lost(self) -> bool:
        """Whether the best one earned a better medal."""
        return medal_rank(self.best_medal) < medal_rank(self.medal)


def medal_rank(medal: str | None) -> int:
    """0 for gold, and the higher the worse."""
    return MEDALS.index(medal) if medal in MEDALS else len(MEDALS)


def last_change(points: Sequence[TimelinePoint], report: Report) -> LastChange | None:
    """What replacing the best submission cost; None if the run's last one is as good as any before."""
    sign = 1 if report.is_lower_better else -1
    earlier = [point for point in points if point.score is not None and not point.final]
    best = min(earlier, key=lambda point: (sign * (point.score or 0.0), point.seconds), default=None)
    if best is None or best.score is None or report.grader_defect:
        return None
    if report.score is not None and sign * best.score >= sign * report.score:
        return None
    return LastChange(
        best_seconds=best.seconds,
        best_score=best.score,
        best_medal=best.medal,
        score=report.score,
        medal=report.medal,
    )
