"""The contract of a sandbox: what it is given, what it leaves, and every way in which it may end.

A sandbox runs one agent on one competition, from start to end, in a home of its own that looks alike everywhere:

==================  =============================================================
``DATA_DIR``        the public data, read-only (``/home/data`` in a container)
``SUBMISSION_DIR``  where the agent leaves ``submission.csv``
``LOGS_DIR``        the agent's own logs
``CODE_DIR``        the code that made the submission
``AGENT_DIR``       a copy of the agent's folder, with its start script
==================  =============================================================

beside them ``instructions.txt`` and ``validate_submission.sh``. ``COMPETITION_ID``, ``TIME_LIMIT_SECS`` and
``VALIDATION_URL`` are set as well. ``bash start.sh ARGUMENTS`` is what runs.

When ``run`` returns, or raises, nothing of the agent runs any more and nothing of the sandbox is left but what is in
the task's run directory: ``run.log`` (what the agent printed, written while it runs), ``submission/``, ``logs/`` and
``code/``, of regular files and folders only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from pytest_mlebench.agents.definition import Agent, Launch

SUBMISSION = "submission/submission.csv"
"""Where a run directory holds the agent's result."""
RUN_LOG = "run.log"
COLLECTED = ("submission", "logs", "code")


class Ending(StrEnum):
    """How an agent's run ended."""

    FINISHED = "finished"
    TIMED_OUT = "timed out"
    OUT_OF_MEMORY = "out of memory"
    CRASHED = "crashed"
    NOT_STARTED = "not started"


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a run may use. Sizes in bytes, the time limit in seconds; None is unlimited."""

    time_limit: float = 24 * 3600
    cpus: float | None = None
    memory: int | None = None
    gpus: int = 0
    disk: int | None = None
    """All that the agent writes, in total where the sandbox can tell, else for each file."""
    processes: int = 4096
    log_bytes: int = 64 << 20
    """Of the agent's output this much is kept, its head and its tail."""
    collect_bytes: int = 8 << 30
    """At most this much is collected from each of ``submission``, ``logs`` and ``code``."""
    collect_files: int = 100_000


@dataclass(frozen=True, kw_only=True)
class Task:
    """One run of an agent: everything that a sandbox is given.

    ``validate`` is the submission checker's verdict on a file on the host: a text for the agent, never a score.
    """

    competition_id: str
    agent: Agent
    launch: Launch
    public: Path
    run_dir: Path
    validate: Callable[[Path], str]
    limits: Limits = field(default_factory=Limits)
    labels: Mapping[str, str] = field(default_factory=dict)
    """What tells this run from others, for names and labels: run group, run id, worker."""
    keep: bool = False
    """Keep what the sandbox ran in, for a look afterwards; ``Execution.kept`` says where."""


@dataclass(frozen=True, kw_only=True)
class Execution:
    """How a task went. ``detail`` says in words what ``ending`` leaves open (exit code, signal, disk full, …)."""

    ending: Ending
    seconds: float
    exit_code: int | None = None
    signal: str | None = None
    detail: str = ""
    sandbox: Mapping[str, Any] = field(default_factory=dict)
    """What the sandbox knows of itself, for the record: its name, image, network policy, connections made, …"""
    kept: str = ""


class Sandbox(Protocol):
    """Where an agent runs."""

    name: str

    def check(self, agent: Agent) -> None:
        """Whether this agent could run here; raises SandboxError that says what is missing and how to mend it."""

    def prepare(self, agent: Agent) -> None:
        """Do once, before the first run, what takes long (such as building an image); raises SandboxError."""

    def run(self, task: Task) -> Execution:
        """Run a task to its end, whatever the agent does.

        Raises SandboxError only where the harness itself failed. On KeyboardInterrupt, or any other exception that
        comes from outside, it stops the agent, collects what is there, cleans up, and lets the exception through.
        """
