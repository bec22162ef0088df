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
        if what == "time":
            return f"grading takes more than {self.seconds:g} s (--grading-time)"
        return f"grading takes more than {self.memory:,} bytes of memory (--grading-memory)"
