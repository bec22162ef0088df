"""How an agent's run ended: one judge for all sandboxes."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass, replace

from pytest_mlebench.agents import Agent, Permissions
from pytest_mlebench.errors import SandboxError
from pytest_mlebench.io.units import format_size
from pytest_mlebench.records.outcome import Ending, Limits
from pytest_mlebench.sandbox.contract import Sandbox, format_duration

_MEMORY_ERRORS = ("MemoryError", "Cannot allocate memory", "std::bad_alloc")


@dataclass(frozen=True, kw_only=True)
class End:
    """Everything a sandbox knows about an agent's end.

    ``lost``: nobody saw the end, because the container's first process died too. No agent can kill that process, so a
    lost end without another explanation is not the agent's doing and has no ending.
    """

    exit_code: int | None = None
    signal: str | None = None
    oom_kills: int = 0
    """Processes that the kernel killed for memory."""
    time_limit: float | None = None
    """Seconds, if the time limit ended the agent."""
    out_of_memory: str = ""
    """In words, if the sandbox stopped the agent for memory or a process of it was refused memory."""
    disk_full: str = ""
    lost: bool = False

    @property
    def is_unexplained(self) -> bool:
        return self.lost and self.time_limit is None and not self.oom_kills and not self.disk_full

    def with_clues(self, limits: Limits, log_tail: str, *, memory: bool = False) -> End:
        """Add what limits and the end of the log suggest about a failure.

        ``memory``: a failed allocation in the log counts as out of memory, where the kernel kills no process for it.
        """
        if self.exit_code == 0:
            return self
        disk_full = self.disk_full
        if limits.disk is not None and not disk_full:
            too_large = self.signal == "SIGXFSZ" or self.exit_code == 128 + signal.SIGXFSZ
            if too_large or "File too large" in log_tail:
                disk_full = f"a file grew over the limit of {format_size(limits.disk)}"
            elif "No space left on device" in log_tail:
                disk_full = f"the limit is {format_size(limits.disk)}"
        out_of_memory = self.out_of_memory
        if memory and limits.memory is not None and any(word in log_tail for word in _MEMORY_ERRORS):
            out_of_memory = out_of_memory or f"a process asked for more than {format_size(limits.memory)}"
        return replace(self, disk_full=disk_full, out_of_memory=out_of_memory)

    def judge(self) -> tuple[Ending, str]:
        """The ending, and in words the details it leaves open."""
        if self.time_limit is not None:
            return Ending.TIMED_OUT, self._with_kills(f"stopped after {_duration(self.time_limit)}")
        if self.disk_full:
            return Ending.CRASHED, self._with_kills(f"disk full: {self.disk_full}")
        if self.out_of_memory:
            return Ending.OUT_OF_MEMORY, self._with_kills(self.out_of_memory)
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


def choose(
    kind: str,
    agent: Agent,
    permissions: Permissions,
    *,
    local: Callable[[], Sandbox],
    container: Callable[[str], Sandbox],
) -> Sandbox:
    """The sandbox for ``auto``, ``docker``, ``podman`` or ``local``; raises SandboxError where there is none.

    ``auto`` is Docker where an engine answers, else local for agents that are trusted: by the user, or because they
    are bundled and made for it. ``local`` runs other bundled agents as well, but no agent of somebody else.
    """
    if kind == "local":
        if agent.bundled or permissions.trusts(agent):
            return local()
        raise SandboxError(
            f"agent {agent.id} would run without isolation, with your user's rights, in the local sandbox: "
            f"--trust-agent={agent.id} permits it, --sandbox=docker gives it a container"
        )
    try:
        return container("docker" if kind == "auto" else kind)
    except SandboxError as error:
        if kind != "auto":
            raise
        if permissions.trusts(agent):
            return local()
        raise SandboxError(
            f"agent {agent.id} is not trusted and needs a container: {error}; or run it without isolation, with your "
            f"user's rights: --trust-agent={agent.id}"
        ) from error
