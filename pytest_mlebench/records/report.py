"""The grade of one submission, with the fields of MLE-bench's grading report."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from pytest_mlebench.catalog.competition import FIRST
from pytest_mlebench.catalog.leaderboard import Medal

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
