"""Grades submissions in a separate process with limits, and reports the results.

The harness never opens a submission; the grading process does (see ``process``).
"""

from __future__ import annotations

import atexit
import json
import logging
import math
import os
import socket
import tempfile
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pytest_mlebench import defaults
from pytest_mlebench.catalog.competition import Competition
from pytest_mlebench.catalog.schema import Leaderboard
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.data.preparing import ERRORS, fork, is_third_party
from pytest_mlebench.defaults import MAX_SUBMISSION_BYTES, MEDALS
from pytest_mlebench.errors import CompetitionError, DataError, MLEBenchError, expect, number, reason
from pytest_mlebench.grading.process import MAX_REPLY, MAX_WORKERS, PRELOADED, Job, Reply, main
from pytest_mlebench.io.files import AnyPath, expanded
from pytest_mlebench.io.processes import readable
from pytest_mlebench.io.units import format_size
from pytest_mlebench.records.outcome import THRESHOLDS, TWIN, Report


@dataclass(frozen=True)
class GradingLimits:
    """Limits for grading one submission, including reading the answers: memory in bytes, time in seconds.

    >>> GradingLimits(memory=4 << 30, seconds=300)
    GradingLimits(memory=4294967296, seconds=300)
    """

    memory: int = defaults.GRADING_MEMORY
    seconds: float = defaults.GRADING_SECONDS

    def __post_init__(self) -> None:
        number(self.memory, "memory (bytes)")
        number(self.seconds, "seconds")

    def exceeded(self, what: str) -> str:
        """Return the reason for an invalid submission whose grading exceeded the limit of ``time`` or ``memory``."""
        return f"{EXCEEDED}{self.beyond(what)} (--grading-{what})"

    def beyond(self, what: str) -> str:
        """Return the limit of ``time`` or ``memory`` as text, such as ``more than 300 s``."""
        return f"more than {self.seconds:g} s" if what == "time" else f"more than {format_size(self.memory)} of memory"


EXCEEDED = "grading takes "
"""Prefix of the reason for an invalid submission whose grading exceeded a limit."""
_POLL_SECONDS = 0.1
_STOP_SECONDS = 5.0
_ATTEMPTS = 3


class GradingProcess:
    """A process that grades, one request at a time. It ends when ``stop`` is called, or with this process."""

    def __init__(self) -> None:
        self.jobs: deque[Job] = deque(maxlen=MAX_WORKERS)
        """The latest jobs, for which the process may still have workers."""
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115
        self._channel, helpers_end = socket.socketpair(type=socket.SOCK_SEQPACKET)
        with helpers_end:
            try:
                self._process = fork(main, (helpers_end.fileno(), *[self._stderr.fileno()] * 2), PRELOADED)
            except OSError as error:
                self.abandon()
                raise ProcessDied(f"cannot start a grading process: {reason(error)}") from error

    def ask(self, job: Job, path: Path | None, seconds: float, certainty: bool, stopped: threading.Event) -> Reply:
        """Return the reply to a request (see ``ask``). Raises ProcessDied; the process cannot be used afterwards."""
        if job in self.jobs:
            self.jobs.remove(job)
        self.jobs.append(job)
        submission = None if path is None else str(path.absolute())
        self._send({"job": job, "path": submission, "seconds": seconds, "certainty": certainty})
        while not readable([self._channel.fileno()], _POLL_SECONDS):
            if stopped.is_set():
                self._send({"cancel": True})  # which kills the worker
                break
        try:
            reply: Reply = json.loads(self._channel.recv(MAX_REPLY))
        except (OSError, ValueError) as error:
            raise ProcessDied(self._death_message()) from error
        return reply

    def stop(self) -> None:
        """End the process and its workers."""
        with suppress(OSError):
            self._channel.shutdown(socket.SHUT_WR)  # then the process ends
            readable([self._channel.fileno()], _STOP_SECONDS)
        with suppress(OSError):  # its server has ended
            self._process.end()
        self.abandon()

    def abandon(self) -> None:
        """Close this process's files. After a fork, the child would take replies meant for its parent."""
        self._channel.close()
        self._stderr.close()

    def _send(self, request: Reply) -> None:
        try:
            self._channel.send(json.dumps(request).encode())
        except OSError as error:
            raise ProcessDied(self._death_message()) from error

    def _death_message(self) -> str:
        self._stderr.seek(0)
        lines = self._stderr.read().decode("utf-8", "replace").strip().splitlines()
        return f"the grading process ended{f': {lines[-1]}' if lines else ''}"


class ProcessDied(MLEBenchError):
    """A grading process ended unexpectedly."""


def job_of(competition: Competition, side: str, data: Path, max_bytes: int, limits: GradingLimits) -> Job:
    """Return a job for a competition and its ``answers``, or its ``public`` folder, at ``data``.

    The job differs if the competition's code or the data changed.
    """
    code = competition.folder.glob("**/*.py")
    return {
        "competition": str(competition.folder.absolute()),
        "version": competition.version,
        "changed": max((file.stat().st_mtime_ns for file in code), default=0),
        "data_changed": data.stat().st_mtime_ns if data.exists() else 0,
        **({"third_party": True} if is_third_party(competition) else {}),
        **({"leaderboard": asdict(competition.leaderboard)} if competition.is_twin else {}),
        side: str(data.absolute()),
        "max_bytes": max_bytes,
        "memory": limits.memory,
    }


_lock = threading.Lock()
_idle: list[GradingProcess] = []


@contextmanager
def grading_process(job: Job) -> Iterator[GradingProcess]:
    """Yield a grading process, if possible one that did this job before, because starting one takes a second."""
    with _lock:
        idle = next((process for process in _idle if job in process.jobs), _idle[-1] if _idle else None)
        if idle is not None:
            _idle.remove(idle)
    process = idle or GradingProcess()
    try:
        yield process
    except BaseException:  # the process may still be busy, or dead
        process.stop()
        raise
    with _lock:
        _idle.append(process)


def ask(
    job: Job,
    path: Path | None,
    seconds: float,
    *,
    certainty: bool = False,
    stopped: threading.Event | None = None,
) -> Reply:
    """Return the reply of a grading process; retries if something other than its limits ended it.

    ``certainty`` requests the certainty of the score instead of the score. The request is cancelled if another thread
    sets ``stopped``. An ``error`` is returned as a ``defect`` with its ``kind``.
    """
    reply: Reply = {}
    stopped = stopped or threading.Event()
    for _ in range(_ATTEMPTS):
        if stopped.is_set():
            return {"cancelled": True}
        try:
            with grading_process(job) as process:
                reply = process.ask(job, path, seconds, certainty, stopped)
        except ProcessDied as died:
            reply = {"defect": str(died)}
            continue
        if "killed" not in reply:
            break
        reply = {"defect": f"grading was killed {_ATTEMPTS} times: is this machine short of memory?"}
    return {"defect": reply["error"], "kind": reply.get("kind")} if "error" in reply else reply


_prepared: dict[str, Reply] = {}


def prepare(job: Job, seconds: float) -> Reply:
    """Check that a job can be done, and return the reply. Raises CompetitionError or DataError if it cannot.

    Replies are cached. All twins of a competition share one, because their data is generated in the same way.
    """
    data = "answers" if "answers" in job else "public"
    ignored = ("leaderboard", data, "data_changed") if "leaderboard" in job else ()
    key = json.dumps({name: value for name, value in job.items() if name not in ignored} | {"data": data})
    if key in _prepared and Path(job[data]).exists():
        return _prepared[key]
    reply = ask(job, None, seconds)
    if "ready" not in reply:
        if "defect" in reply and (kind := ERRORS.get(reply.get("kind", ""))):
            raise kind(reply["defect"])
        reason = reply.get("defect") or reply.get("invalid") or f"it exceeds the {reply.get('beyond')} limit of grading"
        raise CompetitionError(f"{Path(job['competition']) / 'grade.py'} cannot be used: {reason}")
    _prepared[key] = reply
    return reply


@atexit.register
def _stop_all() -> None:
    while _idle:
        _idle.pop().stop()


def _forget_parent() -> None:
    """Forget the parent's grading processes in the child of a fork, such as one by ``multiprocessing``."""
    global _lock
    _lock = threading.Lock()
    while _idle:
        _idle.pop().abandon()


os.register_at_fork(after_in_child=_forget_parent)


logger = logging.getLogger(__name__)

VALID = "Submission is valid."
_INVALID = "Submission invalid! "
_DEFECT = "It could not be read in the competition's format."
_STOPPED = "The submission was not checked: the run is over."


class FormChecker:
    """Checks the format of files within limits, in a process that can read only public files (see Form).

    The verdicts have MLE-bench's wording, which agents written for it know. Raises CompetitionError if ``grade.py`` is
    broken.
    """

    def __init__(
        self,
        competition: Competition,
        public: Path,
        *,
        max_bytes: int = MAX_SUBMISSION_BYTES,
        limits: GradingLimits | None = None,
    ) -> None:
        self._id = competition.id
        self._limits = limits or GradingLimits()
        self._job = job_of(competition, "public", public, max_bytes, self._limits)
        self._stopped = threading.Event()
        # Reports a broken competition before an agent runs for a day.
        self.confinement: dict[str, Any] = prepare(self._job, self._limits.seconds).get("confinement") or {}
        """Restrictions on the checking process. ``landlock`` is above 0 if it can open only public files."""

    def __call__(self, path: Path) -> str:
        """Return the verdict on a file, which never includes a score."""
        reply = ask(self._job, path, self._limits.seconds, stopped=self._stopped)
        if reply.get("valid") is True:
            return VALID
        if "invalid" in reply:
            return f"{_INVALID}{reply['invalid']}"
        if "beyond" in reply:
            return (
                f"{_INVALID}Checking it takes {self._limits.beyond(reply['beyond'])}; is it larger than it should be?"
            )
        if "cancelled" in reply:
            return _STOPPED
        logger.warning("%s: the checker failed: %s", self._id, reply.get("traceback") or reply.get("defect"))
        return f"{_INVALID}{_DEFECT}"

    def stop(self) -> None:
        """Cancel a check that runs in another thread, and refuse further checks."""
        self._stopped.set()


def standing(leaderboard: Leaderboard, score: float | None) -> dict[str, Any]:
    """Return the report fields that follow from the score: thresholds, medals and the percentile among the teams."""
    medal = leaderboard.medal(score)
    return {
        **{f"{name}_threshold": getattr(leaderboard, name) for name in THRESHOLDS},
        "any_medal": medal is not None,
        **{f"{name}_medal": medal == name for name in MEDALS},
        "above_median": leaderboard.is_above_median(score),
        "is_lower_better": leaderboard.lower_is_better,
        "percentile": leaderboard.percentile(score),
    }


class Grader:
    """Grades submissions of a competition, each within limits, in a separate process.

    Submissions that are graded one after another share a process, which reads the answers once.
    Raises DataError if the data is not prepared, CompetitionError if the competition's folder is broken.

    >>> from pytest_mlebench import DataStore, default_catalogue
    >>> competition = default_catalogue()["smoke-diabetes"]
    >>> dataset = DataStore().prepare(competition)
    >>> Grader(competition, dataset).report(dataset.sample_submission).score
    72.61873
    """

    def __init__(
        self,
        competition: Competition,
        dataset: Dataset,
        *,
        max_bytes: int = MAX_SUBMISSION_BYTES,
        limits: GradingLimits | None = None,
    ) -> None:
        expect(competition, Competition, "the competition", "default_catalogue()['smoke-digits'] is one")
        expect(dataset, Dataset, "the dataset", "DataStore().prepare(competition) is one")
        if dataset.competition.id != competition.id:
            raise DataError(f"the dataset is for {dataset.competition.id}, not for {competition.id}")
        if dataset.competition.is_twin:  # a twin has its own leaderboard
            competition = dataset.competition
        self.competition = competition
        self._generated = TWIN if competition.is_twin else "synthetic" if dataset.is_synthetic else ""
        self.limits = limits or GradingLimits()
        self.max_bytes = max_bytes
        self._job = job_of(competition, "answers", dataset.answers, max_bytes, self.limits)
        # Reports a broken competition before an agent runs for a day.
        self.confinement: dict[str, Any] = prepare(self._job, self.limits.seconds).get("confinement") or {}
        """Restrictions on the grading process."""

    def report(self, path: AnyPath, *, certainty: bool = True) -> Report:
        """Return a report on a submission, including any error. ``grader_defect`` means that the grader failed.

        Without ``certainty``, the report does not say how certain the score is, nor whether the medal is firm.
        """
        path = expanded(path)
        score: float | None = None
        error: str | None = "there is no submission"
        exists = defect = False
        try:
            exists = path.is_file() or path.is_symlink()
            if path != Path():
                error = f"{path} is a folder, not a file" if path.is_dir() else f"file not found: {path}"
        except OSError as problem:
            error = f"{path} cannot be read: {reason(problem)}"
        if exists:
            score, error, defect = self._grade(path)
        known = self._certainty(path) if certainty and score is not None else {}
        return Report(
            competition_id=self.competition.id,
            score=score,
            **standing(self.competition.leaderboard, score),
            submission_exists=exists,
            valid_submission=exists and error is None,
            created_at=datetime.now(UTC).isoformat(),
            submission_path=str(path),
            error=error,
            grader_defect=defect,
            bench_version=self.competition.version,
            thresholds=self.competition.thresholds,
            contaminated=bool(self.competition.contaminated),
            generated=self._generated,
            score_low=known.get("low"),
            score_high=known.get("high"),
            firm=known.get("firm"),
        )

    def _certainty(self, path: Path) -> dict[str, Any]:
        """Return how certain the score of a submission is (see ``resampling.Certainty``); empty if unknown."""
        reply = ask(self._job, path, self.limits.seconds, certainty=True)
        found = reply.get("certainty")
        if "certainty" not in reply:
            why = reply.get("defect") or reply.get("invalid") or f"it exceeds the {reply.get('beyond')} limit"
            logger.warning("%s: it is unknown whether the medal is firm: %s", self.competition.id, why)
        return found if isinstance(found, dict) else {}

    def _grade(self, path: Path) -> tuple[float | None, str | None, bool]:
        """Return the rounded score, the reason if there is none, and whether the grader is at fault."""
        reply = ask(self._job, path, self.limits.seconds)
        if "invalid" in reply:
            return None, str(reply["invalid"]), False
        if "beyond" in reply:
            return None, self.limits.exceeded(reply["beyond"]), False
        score = reply.get("rounded")
        if isinstance(score, float):
            return None if math.isnan(score) else score, None, False
        defect = str(reply.get("defect", "the grading process gave no score"))
        logger.warning("%s: the grader failed on %s: %s", self.competition.id, path, reply.get("traceback", defect))
        return None, defect, True


def grade(
    submission_path: AnyPath,
    competition: Competition,
    dataset: Dataset,
    *,
    max_bytes: int = MAX_SUBMISSION_BYTES,
    limits: GradingLimits | None = None,
) -> Report:
    """Grade one submission against a prepared dataset (see Report).

    Raises DataError if the data is not prepared, CompetitionError if the competition's folder is broken.

    >>> from pytest_mlebench import DataStore, default_catalogue
    >>> competition = default_catalogue()["smoke-diabetes"]
    >>> dataset = DataStore().prepare(competition)
    >>> grade(dataset.sample_submission, competition, dataset).any_medal
    False
    """
    return Grader(competition, dataset, max_bytes=max_bytes, limits=limits).report(submission_path)
