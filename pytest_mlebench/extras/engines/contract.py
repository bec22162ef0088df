"""The contract of an engine: it starts commands elsewhere, says how they are, and ends them.

An engine knows jobs, not runs. A job is one attempt at a run: its name is unique for good, so that a session that was
killed while it submitted one finds it again, even without the engine's id.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Protocol

from pytest_mlebench.errors import ClusterError
from pytest_mlebench.io.extensions import extensions, load_extension, renamed
from pytest_mlebench.options import Settings

ENGINES = "mlebench.engines"
"""Entry points of functions ``(settings, secret names) -> Engine``; without settings, an engine that is asked for jobs
that were submitted before."""


class QueueFull(ClusterError):
    """The engine takes no more jobs for now."""


class JobState(StrEnum):
    """Where a job is."""

    PENDING = "pending"
    RUNNING = "running"
    ENDED = "ended"


class Cause(StrEnum):
    """Why a job ended, where its run has left no word."""

    LOST = "lost"
    """It was no doing of the agent: the node failed, the job was preempted or cancelled, its process was killed."""
    TIMED_OUT = "timed out"
    OUT_OF_MEMORY = "out of memory"


@dataclass(frozen=True, kw_only=True)
class Resources:
    """What a job needs; memory in bytes, None is the engine's default. ``seconds`` is all that it may take."""

    seconds: float
    cpus: float | None = None
    memory: int | None = None
    gpus: int = 0


@dataclass(frozen=True, kw_only=True)
class Job:
    """A job as the session knows it. ``id`` is the engine's; empty if the session was killed before it noted it."""

    name: str
    folder: Path
    """Where its output goes, on storage that the session and all nodes share."""
    id: str = ""


@dataclass(frozen=True, kw_only=True)
class Status:
    """How a job is. ``reason`` is in the engine's words: why it waits, or how it ended."""

    state: JobState
    reason: str = ""
    node: str = ""
    cause: Cause = Cause.LOST


class Engine(Protocol):
    """What runs are handed to."""

    name: str
    max_parallel: int | None
    """How many jobs it is given at once unless the user says otherwise; None: all."""
    poll_seconds: float
    """Between two calls of ``poll``, at least, while nothing happens."""
    settle_seconds: float
    """How long after a job's end its files may take to be seen here."""

    def check(self) -> None:
        """Whether jobs can be submitted; raises ClusterError that says what is missing and how to fix it."""

    def check_resources(self, resources: Resources) -> None:
        """Whether a job can ever get these; raises ClusterError in the engine's words where none can."""

    def submit(self, job: Job, command: Sequence[str], resources: Resources) -> str:
        """Start a command, now or later, and return the job's id; its output goes to ``output.log`` in its folder.

        The job outlives this process. Raises QueueFull, or ClusterError where the job was refused.
        """

    def poll(self, jobs: Sequence[Job]) -> Mapping[str, Status]:
        """The status of jobs by name; those that the engine does not know (any more) are left out.

        Raises ClusterError where the engine does not answer now.
        """

    def cancel(self, jobs: Sequence[Job]) -> None:
        """End jobs, those that wait and those that run; what has ended already is no error. Raises ClusterError."""

    def describe(self) -> Mapping[str, str]:
        """What the manifest says of it: its name and version, and options."""


def engine(name: str, settings: Settings | None = None, secret_names: tuple[str, ...] = ()) -> Engine:
    """The engine of this name; raises ClusterError where none is installed, or its options cannot be read."""
    create: Callable[[Settings | None, tuple[str, ...]], Engine] | None = load_extension(ENGINES, name)
    if create is None:
        raise ClusterError(f"no engine {name} is installed; there are {', '.join(sorted(extensions(ENGINES)))}")
    return create(settings, secret_names)


def engines() -> Mapping[str, Callable[[], Engine]]:
    """Makes each engine without a user's options, to ask for jobs that were submitted before."""
    return {name: partial(engine, name) for name in extensions(ENGINES)}


renamed(__name__, "0.4", {"State": "JobState"})
