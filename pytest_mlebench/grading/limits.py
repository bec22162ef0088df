"""What the process that grades a submission may use."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_mlebench import defaults


@dataclass(frozen=True)
class GradingLimits:
    """Limits for grading one submission, reading the answers included: memory in bytes, time in seconds."""

    memory: int = defaults.GRADING_MEMORY
    seconds: float = defaults.GRADING_SECONDS

    def exceeded(self, what: str) -> str:
        """The reason why a submission is invalid whose grading took more ``time`` or ``memory``."""
        return f"grading takes {self.beyond(what)} (--grading-{what})"

    def beyond(self, what: str) -> str:
        """``more than`` the limit of ``time`` or ``memory``."""
        return f"more than {self.seconds:g} s" if what == "time" else f"more than {self.memory:,} bytes of memory"
