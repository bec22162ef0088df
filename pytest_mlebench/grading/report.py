"""The grade of one submission, with the fields of MLE-bench's grading report."""

from __future__ import annotations

from typing import Any

from pytest_mlebench.catalog.leaderboard import Leaderboard


def standing(leaderboard: Leaderboard, score: float | None) -> dict[str, Any]:
    """The fields of a report that follow from its score: thresholds, medals, and the place among the teams."""
    medal = leaderboard.medal(score)
    return {
        "gold_threshold": leaderboard.gold,
        "silver_threshold": leaderboard.silver,
        "bronze_threshold": leaderboard.bronze,
        "median_threshold": leaderboard.median,
        "any_medal": medal is not None,
        "gold_medal": medal == "gold",
        "silver_medal": medal == "silver",
        "bronze_medal": medal == "bronze",
        "above_median": leaderboard.is_above_median(score),
        "is_lower_better": leaderboard.lower_is_better,
        "percentile": leaderboard.percentile(score),
    }
