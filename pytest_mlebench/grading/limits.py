"""What the process that grades a submission may use."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_mlebench import defaults
from pytest_mlebench.errors import number
from pytest_mlebench.io.units import format_size


@dataclass(frozen=True)
class GradingLimits:
    """Limits for grading one submission, reading the answers included: memory in bytes, time in seconds.

    >>> GradingLimits(memory=4 << 30, seconds=300)
    GradingLimits(memory=4294967296, seconds=300)
    """

    memory: int = defaults.GRADING_MEMORY
    seconds: float = defaults.GRADING_SECONDS

    def __post_init__(self) -> None:
        number(self.memory, "memory (bytes)")
        number(self.seconds, "seconds")

    def exceeded(self, what: str) -> str:
        """The reason why a submission is invalid whose grading took more ``time`` or ``memory``."""
        return f"grading takes {self.beyond(what)} (--grading-{what})"

    def beyond(self, what: str) -> str:
        """``more than`` the limit of ``time`` or ``memory``."""
        return f"more than {self.seconds:g} s" if what == "time" else f"more than {format_size(self.memory)} of memory"
