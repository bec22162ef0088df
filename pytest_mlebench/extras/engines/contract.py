"""The contract of an engine: it starts commands, reports their status, and ends them.

An engine knows jobs, not runs. A job is one attempt at a run. Its name is never reused, so a session that was killed
during a submission can find the job again without the engine's id.
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
"""Entry point group of functions ``(settings, secret names) -> Engine``. Without settings, the engine is only asked
about jobs that were submitted earlier."""


class QueueFull(ClusterError):
    """The engine currently accepts no more jobs."""


class JobState(StrEnum):
    """The state of a job."""

    PENDING = "pending"
    RUNNING = "running"
    ENDED = "ended"


class Cause(StrEnum):
    """Why a job ended without reporting its end."""

    LOST = "lost"
    """Not caused by the agent: the node failed, the job was preempted or cancelled, or its process was killed."""
    TIMED_OUT = "timed out"
    OUT_OF_MEMORY = "out of memory"


@dataclass(frozen=True, kw_only=True)
class Resources:
    """The resources of a job. ``memory`` is in bytes; None is the engine's default. ``seconds`` is the time limit."""

    seconds: float
    cpus: float | None = None
    memory: int | None = None
    gpus: int = 0


@dataclass(frozen=True, kw_only=True)
class Job:
    """A job as the session knows it. ``id`` is the engine's, or empty if the session was killed before it stored it."""

    name: str
    folder: Path
    """Folder of its output, on storage that the session and all nodes share."""
    id: str = ""


@dataclass(frozen=True, kw_only=True)
class Status:
    """The status of a job. ``reason`` is the engine's text: why the job waits, or how it ended."""

    state: JobState
    reason: str = ""
    node: str = ""
    cause: Cause = Cause.LOST


class Engine(Protocol):
    """A system that executes submitted runs."""

    name: str
    max_parallel: int | None
    """Maximum number of jobs submitted at once, unless the user sets another; None for no maximum."""
    poll_seconds: float
    """Minimum time between two calls of ``poll``."""
    settle_seconds: float
    """Maximum time after a job's end until its files are visible to the session."""

    def check(self) -> None:
        """Check that jobs can be submitted. Raises ClusterError with what is missing and how to fix it."""

    def check_resources(self, resources: Resources) -> None:
        """Check that a node can provide these resources. Raises ClusterError with the engine's reason if none can."""

    def submit(self, job: Job, command: Sequence[str], resources: Resources) -> str:
        """Start a command, now or later, and return the job's id. Its output goes to ``output.log`` in its folder.

        The job outlives this process. Raises QueueFull, or ClusterError if the engine refuses the job.
        """

    def poll(self, jobs: Sequence[Job]) -> Mapping[str, Status]:
        """Return the status of jobs by name. Jobs that the engine does not know (any more) are left out.

        Raises ClusterError if the engine does not answer.
        """

    def cancel(self, jobs: Sequence[Job]) -> None:
        """End waiting and running jobs. Jobs that have already ended are ignored. Raises ClusterError."""

    def describe(self) -> Mapping[str, str]:
        """Return the engine's name, version and options for the manifest."""


def engine(name: str, settings: Settings | None = None, secret_names: tuple[str, ...] = ()) -> Engine:
    """Return the engine of this name. Raises ClusterError if it is not installed, or its options are invalid."""
    create: Callable[[Settings | None, tuple[str, ...]], Engine] | None = load_extension(ENGINES, name)
    if create is None:
        raise ClusterError(f"engine {name} is not installed (installed: {', '.join(sorted(extensions(ENGINES)))})")
    return create(settings, secret_names)


def engines() -> Mapping[str, Callable[[], Engine]]:
    """Return functions that create each engine without a user's options, to ask about jobs submitted earlier."""
    return {name: partial(engine, name) for name in extensions(ENGINES)}


renamed(__name__, "0.4", {"State": "JobState"})
