"""A competition's private leaderboard and the medals that Kaggle's progression rules award on it."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from operator import index
from typing import Literal

Medal = Literal["gold", "silver", "bronze"]

MEDALS: tuple[Medal, ...] = ("gold", "silver", "bronze")


def medal_ranks(teams: int) -> dict[Medal, int]:
    """The last rank (1 is best) that earns each medal among this many teams.

    Source: Kaggle's progression rules. Ranks are rounded down and are at least 1.

    >>> medal_ranks(1500)
    {'gold': 13, 'silver': 75, 'bronze': 150}
    """
    teams = index(teams)
    if teams < 1:
        raise ValueError(f"a leaderboard has at least one team, not {teams}")
    # Integers throughout: 0.2 % of 1500 is 3, not 2.9999.
    if teams < 100:
        ranks = (teams * 10 // 100, teams * 20 // 100, teams * 40 // 100)
    elif teams < 250:
        ranks = (10, teams * 20 // 100, teams * 40 // 100)
    elif teams < 1000:
        ranks = (10 + teams * 2 // 1000, 50, 100)
    else:
        ranks = (10 + teams * 2 // 1000, teams * 5 // 100, teams * 10 // 100)
    return {medal: max(1, rank) for medal, rank in zip(MEDALS, ranks, strict=True)}


@dataclass(frozen=True, kw_only=True)
class Leaderboard:
    """What grading needs of a private leaderboard.

    ``percentiles[p - 1]`` is the score at rank ceil(p % of the teams), best first.

    >>> board = Leaderboard.from_scores([0.9, 0.8, 0.7, 0.6, 0.5], lower_is_better=False)
    >>> board.medal(0.95), board.medal(0.85), board.medal(0.1)
    ('gold', 'bronze', None)
    """

    teams: int
    lower_is_better: bool
    gold: float
    silver: float
    bronze: float
    median: float
    percentiles: tuple[float, ...] = ()
    source: str = ""

    @classmethod
    def from_scores(cls, scores: Iterable[float], *, lower_is_better: bool, source: str = "") -> Leaderboard:
        """The leaderboard that the final scores of all teams make (any order).

        The median is that of the scores, the mean of the middle two where their number is even. Raises ValueError
        where there are no scores, or one of them is not a finite number.
        """
        ranked = sorted((float(score) for score in scores), reverse=not lower_is_better)
        if strange := [score for score in ranked if not math.isfinite(score)]:
            raise ValueError(f"a team's score must be a finite number, not {strange[0]}: leave such teams out")
        n = len(ranked)
        thresholds = {medal: ranked[rank - 1] for medal, rank in medal_ranks(n).items()}
        median = (ranked[(n - 1) // 2] + ranked[n // 2]) / 2
        percentiles = tuple(ranked[math.ceil(p * n / 100) - 1] for p in range(1, 101))
        return cls(
            teams=n,
            lower_is_better=lower_is_better,
            median=median,
            percentiles=percentiles,
            source=source,
            **thresholds,
        )

    def threshold(self, medal: Medal) -> float:
        """The score that just earns the medal."""
        return {"gold": self.gold, "silver": self.silver, "bronze": self.bronze}[medal]

    def medal(self, score: float | None) -> Medal | None:
        """The medal that a score earns; equal to the threshold is enough. None for no score and for NaN."""
        if score is None or math.isnan(score):
            return None
        return next((medal for medal in MEDALS if self._as_good(score, self.threshold(medal))), None)

    def earns(self, medal: Medal, score: float) -> bool:
        """Whether a score earns this medal or a better one."""
        return self._as_good(score, self.threshold(medal))

    def is_above_median(self, score: float | None) -> bool:
        """Whether the score is strictly better than the median."""
        if score is None or math.isnan(score):
            return False
        return score < self.median if self.lower_is_better else score > self.median

    def percentile(self, score: float | None) -> float | None:
        """The share of the teams, in whole per cent, that the score leaves behind or equals (99 is the top 1 %)."""
        if score is None or math.isnan(score) or not self.percentiles:
            return None
        sign = 1.0 if self.lower_is_better else -1.0
        first_met = bisect_left([sign * p for p in self.percentiles], sign * score)
        return float(max(0, len(self.percentiles) - 1 - first_met))

    def _as_good(self, score: float, other: float) -> bool:
        return score <= other if self.lower_is_better else score >= other
