"""The card of a verified bundle: what was checked, and what it came to."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pytest_mlebench.audit.profile import ProfileLine


class Result(StrEnum):
    """What verifying came to, the best result first."""

    verified = "verified"
    unchecked = "cannot be checked"
    differs = "differs"


@dataclass(frozen=True)
class Check:
    """One line of the card: what was checked, and each reason why it differs or cannot be checked."""

    name: str
    result: Result
    detail: str
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Card:
    """What is known of a bundle. ``profile`` is empty where its group cannot be read."""

    run_group: str
    digest: str
    checks: tuple[Check, ...]
    left_out: tuple[str, ...]
    profile: tuple[ProfileLine, ...]

    @property
    def result(self) -> Result:
        """The worst of all checks."""
        return max((check.result for check in self.checks), key=list(Result).index)
