"""What a session and its jobs read and write: a folder for each run below ``.jobs`` in the run group.

===============================  =======================================================================================
``.jobs/<run>/plan.json``        the run's latest attempt (see ``JobPlan``), written by the session before it submits it
``.jobs/<run>/id``               the engine's id of it, written by the session after that
``.jobs/<run>/alive.json``       which job works on the run, and where; refreshed by it while it lives
``.jobs/<run>/output.log``       what jobs print
``.jobs/ended/<job>.json``       that a job has ended, and with which record or error (see ``JobEnd``)
===============================  =======================================================================================

No plan holds a secret.
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

from pytest_mlebench.errors import UsageError, reason
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
_REFRESH = 5.0
_KEY_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)")


@dataclass(frozen=True, kw_only=True)
class JobPlan:
    """One attempt at a run: everything that ``mlebench run-one`` needs to know."""

    name: str
    """The job's."""
    engine: str
    agent: str
    competition_id: str
    seed: int
    competition_file: str
    options: Mapping[str, Any]
    """The session's options by name, as a manifest has them; paths are absolute."""
    version: str
    """Of this package: a node with another one is refused."""
    agent_digest: str
    """Of the agent's folder: a node that has other files there is refused."""
    keys_file: str = ""
    """A file of the user's with the keys of language models, which nobody else can read."""
    workers: int = 1
    """How many such jobs share one machine."""
    attempt: int = 0
    """How many earlier jobs of this run were lost."""
    earlier: tuple[str, ...] = ()
    """Their names: one of them may have been taken for lost while it lived, and leave a record."""
    max_requeues: int = 2
    submitted: float = 0.0
    """When, in seconds since 1970."""

    @property
    def key(self) -> RunKey:
        return RunKey(self.agent, self.competition_id, self.seed)

    @classmethod
    def read(cls, file: Path) -> JobPlan:
        """Raises UsageError."""
        try:
            return read_json(file, cls)
        except (OSError, ValueError) as error:
            raise UsageError(f"{file} is not the plan of a run: {reason(error)}") from error


@dataclass(frozen=True, kw_only=True)
class JobEnd:
    """How a job ended: it left a record, or could not (``error``), or was cancelled by its session."""

    run_id: str = ""
    error: str = ""
    cancelled: bool = False


@dataclass(frozen=True, kw_only=True)
class Alive:
    """What works on a run: the job, and its process."""

    name: str
    node: str
    owner: Mapping[str, str] = field(default_factory=dict)
    restarts: int = 0
    """How often the engine itself has begun the job anew."""


def new_name(key: RunKey | None = None) -> str:
    """A job's name, unlike any other's: which run it does comes first, as ``squeue`` shows few characters."""
    parts = (key.competition_id[:24], key.agent[:16], str(key.seed)) if key else ("mlebench",)
    readable = re.sub(r"[^A-Za-z0-9]+", "-", "-".join(parts)).strip("-")
    return f"{readable}-{secrets.token_hex(6)}"  # ``sacct`` shows 64 characters


def job_folder(group: Path, key: RunKey) -> Path:
    """The folder of a run's jobs; its name shows the run to a reader."""
    readable = re.sub(r"[^A-Za-z0-9.]+", "-", f"{key.competition_id}_{key.agent}-{key.seed}")
    digest = hashlib.md5(repr(tuple(key)).encode(), usedforsecurity=False).hexdigest()
    return group / JOBS / f"{readable[:120]}-{digest[:6]}"


def write_plan(folder: Path, plan: JobPlan) -> Job:
    """Note an attempt before it is submitted, so that it can be found whatever happens."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _ID).unlink(missing_ok=True)
    write_json(folder / PLAN, asdict(plan))
    return Job(name=plan.name, folder=folder)


def note_id(job: Job, id: str) -> Job:
    (job.folder / _ID).write_text(id)
    return replace(job, id=id)


def open_plans(group: Path) -> list[tuple[JobPlan, Job]]:
    """The latest attempts at runs whose jobs have not said that they ended."""
    found, over = [], ended_names(group)
    for file in sorted(group.glob(f"{JOBS}/*/{PLAN}")):
        with suppress(UsageError):
            if (plan := JobPlan.read(file)).name not in over:
                found.append((plan, _job(file.parent, plan.name)))
    return found


def _job(folder: Path, name: str) -> Job:
    try:
        return Job(name=name, folder=folder, id=(folder / _ID).read_text().strip())
    except OSError:
        return Job(name=name, folder=folder)


def note_end(group: Path, name: str, end: JobEnd) -> None:
    """Say that a job has ended; to be called last. Raises OSError."""
    folder = group / JOBS / _ENDED
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / f"{name}.json", asdict(end))


def ended_names(group: Path) -> frozenset[str]:
    """The names of all jobs of a group that have said that they ended."""
    try:
        with os.scandir(group / JOBS / _ENDED) as entries:
            return frozenset(entry.name.removesuffix(".json") for entry in entries if entry.name.endswith(".json"))
    except FileNotFoundError:
        return frozenset()


def read_end(group: Path, name: str) -> JobEnd:
    """How a job ended; one whose word cannot be read left an error."""
    try:
        return read_json(group / JOBS / _ENDED / f"{name}.json", JobEnd)
    except (OSError, ValueError) as error:
        return JobEnd(error=f"the job's word cannot be read: {reason(error)}")


def read_alive(folder: Path, name: str) -> Alive | None:
    """The process of a job; None if it has not begun, or another job has taken its place."""
    try:
        alive = read_json(folder / ALIVE, Alive)
    except (OSError, ValueError):
        return None
    return alive if alive.name == name else None


@contextmanager
def shown_as_alive(folder: Path, name: str, node: str, *, restarts: int = 0) -> Iterator[None]:
    """Context manager: the job shows that it lives, and ends itself when the session has put another one in its place.

    A node that was given up may come back, and with it a job that nobody waits for any more.
    """
    path, stop = folder / ALIVE, threading.Event()
    write_json(path, asdict(Alive(name=name, node=node, owner=owner_labels(), restarts=restarts)))

    def refresh() -> None:
        while not stop.wait(_REFRESH):
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
    """The record that one of these jobs has left of a run; None if there is none, or it cannot be read yet."""
    for path in sorted(group.glob(f"{escape(key.run_prefix)}*/{RECORD}")):
        with suppress(OSError, ValueError):
            if (record := read_json(path, RunRecord)).key == key and record.job.get("name") in jobs:
                return record
    return None


def is_superseded(folder: Path, name: str) -> bool:
    """Whether the run's plan names another job by now."""
    try:
        return JobPlan.read(folder / PLAN).name != name
    except UsageError:  # shared storage that does not answer for a moment
        return False


def load_keys(file: Path) -> None:
    """Add the ``NAME=value`` lines of a ``--cluster-keys`` file to the environment.

    They are for jobs on machines that do not have the session's environment.

    Raises UsageError for a file that somebody else owns or may read, and for a line of another form, unquoted.
    """
    for number, line in secret_lines(file):
        if (match := _KEY_LINE.fullmatch(line)) is None:
            raise UsageError(f"{file}, line {number}: must be NAME=value")
        name, value = match.groups()
        os.environ[name] = value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"" else value
