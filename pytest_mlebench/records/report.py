"""The grade of one submission, with the fields of MLE-bench's grading report, and a run's grades over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pytest_mlebench.catalog.competition import FIRST
from pytest_mlebench.catalog.leaderboard import MEDALS, Medal

TWIN = "twin"
"""What ``Report.generated`` says of twins."""
TWIN_DATA = "twin data: not comparable with real scores"
"""The mark of every result on twins."""
NO_SUBMISSION = "the agent left no submission.csv"
"""The reason why such a run has no score, wherever it is shown."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """What grading says of one submission.

    ``score`` is rounded to five decimals; None for an invalid submission, and for a valid one without a score (NaN).
    ``error`` is the reason why a submission is invalid, ``grader_defect`` whether the grader broke on it.
    ``score_low`` and ``score_high`` are the score's interval of 95 % over resamples of the test's rows, ``firm`` says
    whether the medal holds in 95 % of them. None: there is no medal, or the metric is no mean over rows (see
    ``grading.resampling``).
    ``bench_version`` is that of the benchmark, ``thresholds`` whether medals mean in it what they did on Kaggle's
    leaderboard (see ``schema.THRESHOLDS``), ``contaminated`` whether the answers are publicly known.
    ``generated`` says what the data is if it is not the competition's: ``twin`` (thresholds are the twin's own), or
    ``synthetic``.

    >>> from pathlib import Path
    >>> from pytest_mlebench import read_group
    >>> report = read_group(Path("reports/first")).records[0].report
    >>> report.valid_submission, report.any_medal, report.score
    (True, False, 0.5)
    """

    competition_id: str
    score: float | None
    gold_threshold: float
    silver_threshold: float
    bronze_threshold: float
    median_threshold: float
    any_medal: bool
    gold_medal: bool
    silver_medal: bool
    bronze_medal: bool
    above_median: bool
    submission_exists: bool
    valid_submission: bool
    is_lower_better: bool
    created_at: str
    submission_path: str
    error: str | None = None
    grader_defect: bool = False
    percentile: float | None = None
    bench_version: str = FIRST
    thresholds: str = "apply"
    contaminated: bool = False
    score_low: float | None = None
    score_high: float | None = None
    firm: bool | None = None
    generated: str = ""

    @property
    def medal(self) -> Medal | None:
        return "gold" if self.gold_medal else "silver" if self.silver_medal else "bronze" if self.bronze_medal else None

    @property
    def firmness(self) -> str:
        """Whether the medal is ``firm``, ``not firm`` or of ``unknown`` firmness; empty where there is none."""
        if self.medal is None:
            return ""
        return "unknown" if self.firm is None else "firm" if self.firm else "not firm"

    def to_json(self) -> dict[str, Any]:
        """The report with plain values, of which a score may be infinite (see ``json_values.json_text``)."""
        return asdict(self)


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
