"""The outcomes of a run: what an agent earned, or why it earned nothing."""

from __future__ import annotations

from enum import StrEnum

from pytest_mlebench.catalog.leaderboard import MEDALS
from pytest_mlebench.records.account import Ending


class Outcome(StrEnum):
    """What a run came to, the best outcome first. A member equals its name, as records and options have it.

    A line gives: the name; whether a test passes with it; the letter in pytest's progress line; its colour (see
    ``reports.palette``); and what leads to it: a threshold of the leaderboard that the score meets, or how a run ended
    that left no submission. A new outcome is one line more.

    >>> Outcome.gold == "gold", Outcome.gold.letter, Outcome.gold.passed
    (True, 'G', True)
    >>> Outcome.crashed.passed
    False
    """

    passed: bool
    letter: str
    colour: str
    threshold: str | None
    ending: Ending | None

    gold = "gold", True, "G", "gold", "gold"
    silver = "silver", True, "S", "silver", "silver"
    bronze = "bronze", True, "B", "bronze", "bronze"
    above_median = "above_median", True, "M", "above", "median"
    no_medal = "no_medal", True, "-", "none"
    invalid_submission = "invalid_submission", False, "I", "failure"
    no_submission = "no_submission", False, "N", "failure"
    timed_out = "timed_out", False, "T", "failure", None, Ending.TIMED_OUT
    out_of_memory = "out_of_memory", False, "O", "failure", None, Ending.OUT_OF_MEMORY
    crashed = "crashed", False, "C", "failure", None, Ending.CRASHED
    budget_ended = "budget_ended", False, "$", "failure", None, Ending.BUDGET_ENDED
    error = "error", False, "E", "failure"
    """The harness or the grader failed, not the agent: the run has no result."""

    def __new__(
        cls,
        name: str,
        passed: bool,
        letter: str,
        colour: str,
        threshold: str | None = None,
        ending: Ending | None = None,
    ) -> Outcome:
        member = str.__new__(cls, name)
        member._value_ = name
        member.passed, member.letter, member.colour = passed, letter, colour
        member.threshold, member.ending = threshold, ending
        return member

    @property
    def label(self) -> str:
        """The outcome in words, for example ``above median``."""
        return self.replace("_", " ")

    @property
    def rank(self) -> int:
        """0 for the best outcome."""
        return list(Outcome).index(self)

    @property
    def medal(self) -> str | None:
        return self.threshold if self.threshold in MEDALS else None

    def is_below(self, min_medal: str | None) -> bool:
        """Whether this is a graded run that earned less than ``--min-medal`` requires."""
        return self.passed and min_medal is not None and self.rank > _earned_by(min_medal).rank


THRESHOLDS = tuple(outcome.threshold for outcome in Outcome if outcome.threshold)
"""What ``--min-medal`` may require: gold, silver, bronze, median."""
FAILURES = tuple(outcome for outcome in Outcome if not outcome.passed)


def _earned_by(threshold: str) -> Outcome:
    return next(outcome for outcome in Outcome if outcome.threshold == threshold)


def without_submission(ending: Ending) -> Outcome:
    """The outcome of a run that ended like this and left no submission."""
    return next((outcome for outcome in Outcome if outcome.ending == ending), Outcome.no_submission)
