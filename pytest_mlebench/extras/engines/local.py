"""This machine as an engine, without a daemon: each job is a process in its own process session.

It survives a closed terminal and the end of the pytest session. Jobs that start later wait in the pytest session.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from pytest_mlebench.errors import ClusterError, reason
from pytest_mlebench.extras.engines.contract import Engine, Job, JobState, Resources, Status
from pytest_mlebench.extras.engines.plan import OUTPUT, read_alive
from pytest_mlebench.io.processes import LABEL, is_dead, owner_labels, start_time
from pytest_mlebench.io.units import pluralize
from pytest_mlebench.options import Settings

_MACHINE = ("boot", "pid-namespace", "host")
_CANCEL_SECONDS = 60.0
"""Time for a job to stop its agent and clean up."""


class LocalEngine:
    name = "local"
    max_parallel: int | None = 1
    poll_seconds = 1.0
    settle_seconds = 0.0

    def __init__(self) -> None:
        self._children: set[int] = set()

    def check(self) -> None:
        """Accept: this machine is always available."""

    def check_resources(self, resources: Resources) -> None:
        """Accept all: the sandbox compares its limits with this machine."""

    def submit(self, job: Job, command: Sequence[str], resources: Resources) -> str:
        """Start a process. Its job id names the process and the machine; the sandbox enforces the limits."""
        log = os.open(job.folder / OUTPUT, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            pid = os.posix_spawn(
                command[0],
                list(command),
                os.environ,
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_DUP2, log, 1),
                    (os.POSIX_SPAWN_DUP2, log, 2),
                ],
                setsid=True,
                setsigmask=(),
                setsigdef=[signal.SIGINT, signal.SIGTERM, signal.SIGHUP],
            )
        except OSError as error:
            raise ClusterError(f"{command[0]} cannot be started: {reason(error)}") from error
        finally:
            os.close(log)
        self._children.add(pid)
        host = owner_labels()
        return " ".join([str(pid), start_time(pid) or "0", *(host[LABEL + name] for name in _MACHINE)])

    def poll(self, jobs: Sequence[Job]) -> Mapping[str, Status]:
        self._reap()
        found = {}
        for job in jobs:
            if (owner := _owner(job)) is None:
                continue
            ended = is_dead(owner)
            found[job.name] = Status(
                state=JobState.ENDED if ended else JobState.RUNNING,
                reason="its process was killed" if ended else "",
                node=owner[f"{LABEL}host"],
            )
        return found

    def cancel(self, jobs: Sequence[Job]) -> None:
        """Terminate jobs, so that they stop their agents and clean up, then kill those that still run.

        Raises ClusterError if some cannot be ended from here, after it has ended the others.
        """
        for number in (signal.SIGTERM, signal.SIGKILL):
            for pid in _running(jobs):
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
            deadline = time.monotonic() + _CANCEL_SECONDS
            while list(_running(jobs)) and time.monotonic() < deadline:
                time.sleep(0.05)
        self._reap()
        alive = [(job, owner) for job in jobs if (owner := _owner(job)) is not None and not is_dead(owner)]
        if alive:
            job, owner = alive[0]
            raise ClusterError(
                f"{pluralize(len(alive), 'job')} cannot be ended from here, for example process {owner[f'{LABEL}pid']} "
                f"on {owner.get(f'{LABEL}host')}: run `mlebench stop` there, as the user who started it; if that "
                f"machine no longer exists, delete {job.folder}"
            )

    def describe(self) -> Mapping[str, str]:
        return {"engine": self.name}

    def _reap(self) -> None:
        """Reap the child processes that have ended."""
        for pid in list(self._children):
            with suppress(ChildProcessError):
                if os.waitpid(pid, os.WNOHANG)[0] == 0:
                    continue
            self._children.discard(pid)


def _owner(job: Job) -> Mapping[str, str] | None:
    """The labels of a job's process; None if it is unknown or was never started."""
    if (alive := read_alive(job.folder, job.name)) is not None:
        return alive.owner
    if not job.id:
        return None
    names, values = ("pid", "pid-start", *_MACHINE), job.id.split(" ")
    if len(values) < len(names) or not values[0].isdecimal():  # the file was not written completely
        return None
    return {LABEL + name: value for name, value in zip(names, values, strict=False)}


def _running(jobs: Sequence[Job]) -> Iterator[int]:
    """The process ids of jobs that run on this machine, and that this user may end."""
    here = owner_labels()
    for job in jobs:
        owner = _owner(job)
        if owner is None or is_dead(owner) or any(owner.get(LABEL + name) != here[LABEL + name] for name in _MACHINE):
            continue
        pid = int(owner[f"{LABEL}pid"])
        with suppress(OSError):
            os.kill(pid, 0)
            yield pid


def create(settings: Settings | None, secret_names: tuple[str, ...]) -> Engine:
    """This machine as an engine."""
    return LocalEngine()
