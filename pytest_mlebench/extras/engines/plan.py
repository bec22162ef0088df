"""The files that a session and its jobs share: a folder for each run below ``.jobs`` in the run group.

===============================  =======================================================================================
``.jobs/<run>/plan.json``        the run's latest attempt (see ``JobPlan``), written by the session before it submits it
``.jobs/<run>/id``               the engine's id of the job, written by the session after submission
``.jobs/<run>/alive.json``       the job that does the run, and its host; refreshed by the job while it is alive
``.jobs/<run>/output.log``       the output of the jobs
``.jobs/ended/<job>.json``       how a job ended: with a record or an error (see ``JobEnd``)
===============================  =======================================================================================

Plans contain no secrets.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import signal
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from glob import escape
from pathlib import Path
from typing import Any

from pytest_mlebench.errors import ClusterError, UsageError, reason
from pytest_mlebench.extras.engines.contract import Job
from pytest_mlebench.io.files import secret_lines
from pytest_mlebench.io.processes import owner_labels
from pytest_mlebench.io.values import read_json, write_json
from pytest_mlebench.records.record import JOBS, RECORD, RunKey, RunRecord

PLAN = "plan.json"
ALIVE = "alive.json"
OUTPUT = "output.log"
_ENDED = "ended"
_ID = "id"
_REFRESH_SECONDS = 5.0
_KEY_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=([^\0]*)")


@dataclass(frozen=True, kw_only=True)
class JobPlan:
    """One attempt at a run: everything that ``mlebench run-one`` needs to know."""

    name: str
    """The job's name."""
    engine: str
    agent: str
    competition_id: str
    seed: int
    competition_file: str
    options: Mapping[str, Any]
    """The session's options by name, as in a manifest. Paths are absolute."""
    version: str
    """Version of this package. A node with another version refuses the run."""
    agent_digest: str
    """Digest of the agent's folder. A node with other files in it refuses the run."""
    keys_file: str = ""
    """A file with keys of language models, which only the user can read."""
    workers: int = 1
    """Number of jobs that share one machine."""
    attempt: int = 0
    """Number of earlier jobs of this run that were lost."""
    earlier: tuple[str, ...] = ()
    """Names of these jobs. One that was wrongly considered lost may still write a record."""
    max_requeues: int = 2
    submitted: float = 0.0
    """Time in seconds since 1970."""

    @property
    def key(self) -> RunKey:
        return RunKey(self.agent, self.competition_id, self.seed)

    def account(self, **more: Any) -> dict[str, Any]:
        """The job, as the run's record describes it."""
        return {"name": self.name, "engine": self.engine, "attempt": self.attempt, "submitted": self.submitted, **more}

    @classmethod
    def read(cls, file: Path) -> JobPlan:
        """Read a plan. Raises UsageError if the file is not a plan."""
        try:
            return read_json(file, cls)
        except (OSError, ValueError) as error:
            raise UsageError(f"{file} is not the plan of a run: {reason(error)}") from error


@dataclass(frozen=True, kw_only=True)
class JobEnd:
    """How a job ended: with a record, or with an error instead of one. Without either, it was cancelled."""

    run_id: str = ""
    error: str = ""


@dataclass(frozen=True, kw_only=True)
class Alive:
    """The job that does a run, and its process."""

    name: str
    owner: Mapping[str, str] = field(default_factory=dict)
    restarts: int = 0
    """How often the engine itself has restarted the job."""


def new_name(key: RunKey | None = None) -> str:
    """Return a unique job name. It begins with the run, since ``squeue`` shows only a few characters."""
    parts = (key.competition_id[:24], key.agent[:16], str(key.seed)) if key else ("mlebench",)
    readable = re.sub(r"[^A-Za-z0-9]+", "-", "-".join(parts)).strip("-")
    return f"{readable}-{secrets.token_hex(6)}"  # ``sacct`` shows 64 characters


def job_folder(group: Path, key: RunKey) -> Path:
    """The folder of a run's jobs. Its name shows which run it is."""
    readable = re.sub(r"[^A-Za-z0-9.]+", "-", f"{key.competition_id}_{key.agent}-{key.seed}")
    digest = hashlib.md5(repr(tuple(key)).encode(), usedforsecurity=False).hexdigest()
    return group / JOBS / f"{readable[:120]}-{digest[:6]}"


def write_plan(folder: Path, plan: JobPlan) -> Job:
    """Store an attempt before it is submitted, so that the job can be found if the session is killed.

    Raises ClusterError if it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _ID).unlink(missing_ok=True)
        write_json(folder / PLAN, asdict(plan))
    except OSError as error:
        raise ClusterError(f"{folder.parent} cannot be written: {reason(error)}") from error
    return Job(name=plan.name, folder=folder)


def note_id(job: Job, id: str) -> Job:
    """The job with its id, which is stored if possible. Without it, engines find the job by its name."""
    with suppress(OSError):
        (job.folder / _ID).write_text(id)
    return replace(job, id=id)


def open_plans(group: Path) -> list[tuple[JobPlan, Job]]:
    """The latest attempts at runs, without those whose jobs have reported their end."""
    found, ended = [], ended_names(group)
    for file in sorted(group.glob(f"{JOBS}/*/{PLAN}")):
        with suppress(UsageError):
            if (plan := JobPlan.read(file)).name not in ended:
                job = Job(name=plan.name, folder=file.parent)
                with suppress(OSError):
                    job = replace(job, id=(file.parent / _ID).read_text().strip())
                found.append((plan, job))
    return found


def report_end(group: Path, name: str, end: JobEnd) -> None:
    """Report that a job has ended; must be called last. Raises OSError."""
    folder = group / JOBS / _ENDED
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / f"{name}.json", asdict(end))


def remove_end(group: Path, name: str) -> None:
    """Remove the report of a job's end, if possible, when another job has replaced it."""
    with suppress(OSError):
        (group / JOBS / _ENDED / f"{name}.json").unlink()


def ended_names(group: Path) -> frozenset[str]:
    """The names of all jobs of a group that have reported their end."""
    try:
        with os.scandir(group / JOBS / _ENDED) as entries:
            return frozenset(entry.name.removesuffix(".json") for entry in entries if entry.name.endswith(".json"))
    except (FileNotFoundError, NotADirectoryError):
        return frozenset()


def read_end(group: Path, name: str) -> JobEnd:
    """How a job ended. A report that cannot be read counts as an error."""
    try:
        return read_json(group / JOBS / _ENDED / f"{name}.json", JobEnd)
    except (OSError, ValueError) as error:
        return JobEnd(error=f"the job's report cannot be read: {reason(error)}")


def read_alive(folder: Path, name: str) -> Alive | None:
    """The process of a job; None if it has not started, or another job has replaced it."""
    try:
        alive = read_json(folder / ALIVE, Alive)
    except (OSError, ValueError):
        return None
    return alive if alive.name == name else None


@contextmanager
def signal_alive(folder: Path, name: str, *, restarts: int = 0) -> Iterator[None]:
    """Context manager: signal that the job is alive, and end it if the session has replaced it with another job.

    A node that was considered lost may come back, with a job that no session waits for any more.
    """
    path, stop = folder / ALIVE, threading.Event()
    write_json(path, asdict(Alive(name=name, owner=owner_labels(), restarts=restarts)))

    def refresh() -> None:
        while not stop.wait(_REFRESH_SECONDS):
            with suppress(OSError):
                os.utime(path)
            if is_superseded(folder, name):
                os.kill(os.getpid(), signal.SIGTERM)
                return

    thread = threading.Thread(target=refresh, name="mlebench-alive", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def record_by(group: Path, key: RunKey, jobs: Collection[str]) -> RunRecord | None:
    """The record of a run by one of these jobs; None if there is none, or it cannot be read yet."""
    for path in sorted(group.glob(f"{escape(key.run_prefix)}*/{RECORD}")):
        with suppress(OSError, ValueError):
            if (record := RunRecord.read(path.parent)).key == key and record.job.get("name") in jobs:
                return record
    return None


def is_superseded(folder: Path, name: str) -> bool:
    """Whether the run's plan now names another job."""
    try:
        return JobPlan.read(folder / PLAN).name != name
    except UsageError:  # shared storage may be briefly unavailable
        return False


def load_keys(file: Path) -> None:
    """Add the ``NAME=value`` lines of a ``--cluster-keys`` file to the environment, which nodes may not share.

    Raises UsageError if another user owns or can read the file, or if a line is invalid. The error does not quote it.
    """
    for number, line in secret_lines(file):
        if (match := _KEY_LINE.fullmatch(line)) is None:
            raise UsageError(f"{file}, line {number}: must be NAME=value, without NUL characters")
        name, value = match.groups()
        os.environ[name] = value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"" else value
