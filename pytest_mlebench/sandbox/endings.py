"""What a container's end means."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from pytest_mlebench.sandbox.base import Ending
from pytest_mlebench.sandbox.instructions import format_duration


@dataclass(frozen=True, kw_only=True)
class End:
    """All that is known of an agent's end. ``lost`` says that nobody saw it: the container's first process died too.

    No agent can end that process, so ``judge`` is not for an end that is lost and has no other explanation.
    """

    exit_code: int | None = None
    signal: str | None = None
    oom_kills: int = 0
    time_limit: float | None = None
    """Seconds, where the time limit was what ended the agent."""
    disk_full: str = ""
    lost: bool = False

    @property
    def is_unexplained(self) -> bool:
        return self.lost and self.time_limit is None and not self.oom_kills and not self.disk_full

    def judge(self) -> tuple[Ending, str]:
        """The ending, and in words what it leaves open."""
        if self.time_limit is not None:
            return Ending.TIMED_OUT, self._with_kills(f"stopped after {_duration(self.time_limit)}")
        if self.disk_full:
            return Ending.CRASHED, self._with_kills(f"disk full: {self.disk_full}")
        if self.exit_code == 0:
            return Ending.FINISHED, self._with_kills("")
        if self.oom_kills:
            return Ending.OUT_OF_MEMORY, self._with_kills(self._how())
        return Ending.CRASHED, self._how()

    def _how(self) -> str:
        if self.lost:
            return "the container's first process was killed too"
        if self.signal:
            return f"killed by {self.signal}"
        code = self.exit_code or 0
        try:  # as a shell reports it
            name = signal.Signals(code - 128).name
        except ValueError:
            return f"exit code {code}"
        return f"exit code {code} (a process of the agent was killed by {name})"

    def _with_kills(self, text: str) -> str:
        if not self.oom_kills:
            return text
        number = "a process was" if self.oom_kills == 1 else f"{self.oom_kills} processes were"
        return "; ".join(filter(None, [text, f"{number} killed for memory"]))


def _duration(seconds: float) -> str:
    return format_duration(seconds) if seconds >= 60 else f"{seconds:g} s"
