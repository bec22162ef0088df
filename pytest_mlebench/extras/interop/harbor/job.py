"""Reads the trials of a Harbor job from disk. They are untrusted input, so sizes are limited."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from pytest_mlebench.errors import UsageError, reason
from pytest_mlebench.extras.interop.harbor.task import HIDDEN, ORGANISATION, SUBMISSION, TASK_FILE
from pytest_mlebench.io import files
from pytest_mlebench.io.units import MAX_SECONDS, one_line
from pytest_mlebench.io.values import as_number, as_object, loads
from pytest_mlebench.records.outcome import Ending
from pytest_mlebench.records.record import check_moment

RESULT = "result.json"
MAX_JSON = 16 << 20
MAX_TRAJECTORY = 64 << 20
_MAX_TRIALS = 100_000
_MAX_TEXT = 1000
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
_AGENT_NAME = 60
"""Maximum characters of an agent's name, and of its model's, since they become part of folder names."""

_ENDINGS: Mapping[str, Ending] = {
    "AgentTimeoutError": Ending.TIMED_OUT,
    "SandboxLikelyOutOfMemoryError": Ending.OUT_OF_MEMORY,
    "MemoryLimitExceededError": Ending.OUT_OF_MEMORY,
    "BudgetExceededError": Ending.BUDGET_ENDED,
    "VerifierTimeoutError": Ending.FINISHED,
    "RewardFileNotFoundError": Ending.FINISHED,
    "RewardFileEmptyError": Ending.FINISHED,
    "VerifierOutputParseError": Ending.FINISHED,
    "AddTestsDirError": Ending.FINISHED,
    "DownloadVerifierDirError": Ending.FINISHED,
}
"""How the agent ended, by the exception that Harbor recorded. Others are crashes, if the agent had started."""


class JobError(ValueError):
    """A trial that cannot be read."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One attempt of an agent at a task."""

    folder: Path
    competition_id: str
    agent: str
    harbor_agent: Mapping[str, str]
    """Name, version, model and provider, if they were recorded."""
    started_at: datetime
    ended_at: datetime
    seconds: float
    ending: Ending
    detail: str = ""
    error: str | None = None
    """Why Harbor could not run the agent."""
    usage: Mapping[str, Any] = field(default_factory=dict)
    rewards: Mapping[str, float] = field(default_factory=dict)
    task: Mapping[str, Any] = field(default_factory=dict)
    """The task's version, data and reward, as our verifier recorded them."""
    score: float | None = None
    graded: bool = False
    """Whether our verifier recorded a score, which may be None."""
    environment: str = ""

    @property
    def submission(self) -> Path:
        return self.folder / "artifacts" / SUBMISSION.lstrip("/")


@contextmanager
def opened(path: Path, below: Path, limit: int) -> Iterator[IO[bytes] | None]:
    """Context manager: open a regular file. Yields None if there is none, or its path leads out of ``below``.

    Raises JobError if the file is larger than ``limit`` bytes.
    """
    try:
        with files.opened(below, *path.relative_to(below).parts) as descriptor:
            file = os.fdopen(os.dup(descriptor), "rb")
    except files.NotReadable:
        yield None
        return
    with file:
        if (size := os.fstat(file.fileno()).st_size) > limit:
            raise JobError(f"{path} has {size:,} bytes; at most {limit:,} are read")
        yield file


def read_bytes(path: Path, below: Path, limit: int) -> bytes | None:
    """The content of a file, opened as by ``opened``."""
    with opened(path, below, limit) as file:
        return None if file is None else file.read(limit)


def read_object(path: Path, below: Path, limit: int = MAX_JSON) -> dict[str, Any] | None:
    """Parse a JSON file; returns None if it does not exist. Raises JobError if it does not contain an object."""
    content = read_bytes(path, below, limit)
    if content is None:
        return None
    try:
        found = loads(content)
    except ValueError as error:
        raise JobError(f"{path} is not valid JSON: {reason(error)}") from error
    if not isinstance(found, dict):
        raise JobError(f"{path} must be a JSON object")
    return found


def trial_folders(job: Path) -> list[Path]:
    """The folders of a job's trials. Raises UsageError if this is not a job."""
    try:
        entries = sorted(entry.name for entry in os.scandir(job) if entry.is_dir(follow_symlinks=False))
    except OSError as error:
        raise UsageError(f"{job} cannot be read: {reason(error)}") from error
    names = (name for name in entries if _NAME.fullmatch(name))
    folders = [job / name for name in names if (job / name / "config.json").is_file()]
    if not folders or not (job / RESULT).is_file():
        raise UsageError(f"{job} is not a job of Harbor: it has no {RESULT}, or no trial")
    if len(folders) > _MAX_TRIALS:
        raise UsageError(f"{job} has {len(folders):,} trials; at most {_MAX_TRIALS:,} are read")
    return folders


def read_trial(folder: Path) -> Trial | None:
    """Read a trial; returns None if it has no result yet. Raises JobError."""
    found = read_object(folder / RESULT, folder)
    if found is None:
        return None
    name = text(found.get("task_name"))
    organisation, _, task_name = name.rpartition("/")
    if organisation != ORGANISATION or not task_name:
        raise JobError(f"{folder}: its task {name!r} is not one that `mlebench export --to=harbor` wrote")
    verdict = read_object(folder / "verifier" / "report.json", folder) or {}
    report, task = as_object(verdict.get("report")), as_object(verdict.get("task")) or _task(found, folder)
    competition_id = task_name
    if HIDDEN.fullmatch(task_name):
        competition_id = text(task.get("competition_id"))
        if not competition_id:
            raise JobError(f"{folder}: its task hides its competition, and neither report nor task folder names it")
    started, ended = (_moment(found.get(key)) for key in ("started_at", "finished_at"))
    if started is None or ended is None:
        raise JobError(f"{folder}: its result lacks a valid start or end time")
    execution = as_object(found.get("agent_execution"))
    began, stopped = (_moment(execution.get(key)) for key in ("started_at", "finished_at"))
    seconds = max(0.0, ((stopped or ended) - (began or ended)).total_seconds())
    if seconds > MAX_SECONDS:
        raise JobError(f"{folder}: its agent cannot have run for more than a hundred years")
    exception = as_object(found.get("exception_info"))
    kind = text(exception.get("exception_type"))
    ending = _ending(kind, began is not None)
    about = ": ".join(filter(None, (kind, text(exception.get("exception_message")))))
    was_run = ending is not Ending.NOT_STARTED
    agent = _agent(found)
    return Trial(
        folder=folder,
        competition_id=competition_id,
        agent="/".join(_NOT_IN_NAMES.sub("-", agent[key])[:_AGENT_NAME] for key in ("name", "model") if key in agent),
        harbor_agent=agent,
        started_at=began or started,
        ended_at=stopped or ended,
        seconds=seconds,
        ending=ending,
        detail=about if was_run else "",
        error=None if was_run else f"Harbor could not run the agent: {about}",
        usage=as_object(found.get("agent_result")),
        rewards={
            name[:_MAX_TEXT]: known
            for name, value in as_object(as_object(found.get("verifier_result")).get("rewards")).items()
            if (known := as_number(value)) is not None
        },
        task=task,
        score=score if (score := report.get("score")) in (math.inf, -math.inf) else as_number(score),
        graded="score" in report,
        environment=text(as_object(as_object(found.get("config")).get("environment")).get("type")),
    )


def _task(found: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The task's description in its folder, for a trial without a verifier's report; empty if the folder is gone.

    Harbor records the path as it was given, and creates its folder ``jobs`` in the current folder.
    """
    where = as_object(as_object(found.get("config")).get("task")).get("path")
    if not isinstance(where, str):
        return {}
    path = folder / "../../.." / where
    return read_object(path / TASK_FILE, path) or {}


def _agent(found: Mapping[str, Any]) -> dict[str, str]:
    info = as_object(found.get("agent_info"))
    model = as_object(info.get("model_info"))
    known = {
        "name": text(info.get("name")) or "unknown",
        "version": text(info.get("version")),
        "model": text(model.get("name")),
        "provider": text(model.get("provider")),
    }
    return {name: value for name, value in known.items() if value}


def _ending(exception: str, began: bool) -> Ending:
    """How the agent ended: ``NOT_STARTED`` if Harbor failed rather than the agent."""
    if not exception:
        return Ending.FINISHED
    if exception == "CancelledError" or not began:  # a trial that Harbor stops for another reason has no result
        return Ending.NOT_STARTED
    return _ENDINGS.get(exception, Ending.CRASHED)


def text(value: Any) -> str:
    """A text in a result on one line, without control characters; empty if the value is not a text."""
    return one_line(value[:_MAX_TEXT]) if isinstance(value, str) else ""


def _moment(value: Any) -> datetime | None:
    """A time in a result that a record can have; without an offset, it is UTC."""
    try:
        moment = datetime.fromisoformat(value)
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        check_moment("it", moment.isoformat())
        return moment
    except (TypeError, ValueError, OverflowError):
        return None


def logs(trial: Trial) -> Iterator[Path]:
    """The log files that Harbor and the agent left for a trial."""
    yield trial.folder / "trial.log"
    folder = trial.folder / "agent"
    if folder.is_symlink() or not folder.is_dir():
        return
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries if entry.is_file(follow_symlinks=False))
    yield from (folder / name for name in names if name.endswith((".txt", ".log")))
