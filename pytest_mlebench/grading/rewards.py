"""Rewards: pure functions of the measurements in an episode so far.

A reward is a function from ``Measured`` to a number. Those in ``REWARDS`` have names; others can be used too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

MILESTONES = ("exists", "valid", "beats_sample", "above_median", "bronze", "silver", "gold")
"""In the order in which they are reached; all have the same weight."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Measurements of the submission after a step. Scores are on the validation half of a twin's answers, and None if
    there is no valid submission. ``best`` is the best score of the earlier steps, and ``sample`` that of the sample
    submission. Higher is better unless ``lower_is_better`` is set."""

    exists: bool = False
    valid: bool = False
    score: float | None = None
    sample: float | None = None
    best: float | None = None
    lower_is_better: bool = False
    percentile: float | None = None
    above_median: bool = False
    medal: str | None = None
    seconds: float = 0.0
    """Seconds since the episode began."""
    time_limit: float = 0.0

    def is_better(self, than: float | None) -> bool:
        """Return whether the score is better than another one, or there is no other.

        >>> Measured(score=0.2, lower_is_better=True).is_better(0.3)
        True
        """
        if self.score is None:
            return False
        return than is None or (self.score < than if self.lower_is_better else self.score > than)


Reward = Callable[[Measured], float]


def milestones(measured: Measured) -> float:
    """The share of ``MILESTONES`` that the submission has reached: 0 to 1.

    >>> round(milestones(Measured(exists=True)), 3)
    0.143
    >>> milestones(Measured(exists=True, valid=True, score=0.9, sample=0.5, above_median=True, medal="gold"))
    1.0
    """
    medals = {"gold": 3, "silver": 2, "bronze": 1}.get(measured.medal or "", 0)
    beats_sample = measured.sample is not None and measured.is_better(measured.sample)
    reached = measured.exists + measured.valid + beats_sample + measured.above_median + medals
    return reached / len(MILESTONES)


def percentile(measured: Measured) -> float:
    """The share of the leaderboard's teams that the score beats or equals: 0 to 1."""
    return 0.0 if measured.percentile is None else measured.percentile / 100


def medal(measured: Measured) -> float:
    """1 for gold, 2/3 for silver, 1/3 for bronze.

    >>> round(medal(Measured(medal="silver")), 3)
    0.667
    """
    return {"gold": 3, "silver": 2, "bronze": 1}.get(measured.medal or "", 0) / 3


def improvement(measured: Measured) -> float:
    """1 if this is the best score of the episode so far, and it beats the sample submission; else 0."""
    beats_sample = measured.sample is None or measured.is_better(measured.sample)
    return float(measured.is_better(measured.best) and beats_sample)


def with_time_cost(reward: Reward, weight: float = 0.1) -> Reward:
    """Return a reward minus ``weight`` times the share of the episode's time that has passed.

    >>> with_time_cost(medal)(Measured(medal="gold", seconds=30, time_limit=60))
    0.95
    """
    return lambda measured: reward(measured) - weight * measured.seconds / max(measured.time_limit, 1e-9)


REWARDS: Mapping[str, Reward] = MappingProxyType(
    {"milestones": milestones, "percentile": percentile, "medal": medal, "improvement": improvement}
)
