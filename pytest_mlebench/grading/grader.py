"""Grading: from a submission and the answers to a report.

Having a grading process, with its limits, do a job (see ``process``): the harness opens no submission.
"""

from __future__ import annotations

import atexit
import json
import logging
import math
import os
import select
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pytest_mlebench import defaults
from pytest_mlebench.catalog.competition import Competition
from pytest_mlebench.catalog.schema import MEDALS, Leaderboard
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.data.preparing import fork, is_third_party
from pytest_mlebench.defaults import MAX_SUBMISSION_BYTES
from pytest_mlebench.errors import CompetitionError, DataError, MLEBenchError, expect, number, reason
from pytest_mlebench.grading.process import MAX_REPLY, MAX_WORKERS, PRELOADED, Job, Reply, main
from pytest_mlebench.io.files import AnyPath, expanded
from pytest_mlebench.io.units import format_size
from pytest_mlebench.records.outcome import THRESHOLDS, TWIN, Report


@dataclass(frozen=True)
class GradingLimits:
    """Limits for grading one submission, reading the answers included: memory in bytes, time in seconds.

    >>> GradingLimits(memory=4 << 30, seconds=300)
    GradingLimits(memory=4294967296, seconds=300)
    """

    memory: int = defaults.GRADING_MEMORY
    seconds: float = defaults.GRADING_SECONDS

    def __post_init__(self) -> None:
        number(self.memory, "memory (bytes)")
        number(self.seconds, "seconds")

    def exceeded(self, what: str) -> str:
        """The reason why a submission is invalid whose grading took more ``time`` or ``memory``."""
        return f"{EXCEEDED}{self.beyond(what)} (--grading-{what})"

    def beyond(self, what: str) -> str:
        """``more than`` the limit of ``time`` or ``memory``."""
        return f"more than {self.seconds:g} s" if what == "time" else f"more than {format_size(self.memory)} of memory"


EXCEEDED = "grading takes "
"""How the reason begins why a submission is invalid whose grading exceeded a limit."""
_ERRORS = {"CompetitionError": CompetitionError, "DataError": DataError}
_STOP_SECONDS = 5.0
_ATTEMPTS = 3


class GradingProcess:
    """A process that grades; one request at a time. It ends when ``stop`` is called, or with this process."""

    def __init__(self) -> None:
        self.jobs: deque[Job] = deque(maxlen=MAX_WORKERS)
        """The latest ones, for which it may still have workers."""
        self._complaints = tempfile.TemporaryFile()  # noqa: SIM115
        request_reader, request_writer = os.pipe()
        reply_reader, reply_writer = os.pipe()
        self._requests, self._replies = os.fdopen(request_writer, "wb", buffering=0), os.fdopen(reply_reader, "rb")
        try:
            self._process = fork(main, (request_reader, reply_writer, self._complaints.fileno()), PRELOADED)
        except OSError as error:
            self.abandon()
            raise CompetitionError(f"there is no process for grading: {reason(error)}") from error
        finally:
            os.close(request_reader)
            os.close(reply_writer)

    def ask(self, job: Job, path: Path | None, seconds: float, *, certainty: bool = False) -> Reply:
        """The reply to a request, for the score's certainty where that is asked for.

        Raises ProcessDied, after which this process is of no more use.
        """
        if job in self.jobs:
            self.jobs.remove(job)
        self.jobs.append(job)
        asked = None if path is None else str(path.absolute())
        self._send({"job": job, "path": asked, "seconds": seconds, "certainty": certainty})
        line = self._replies.readline(MAX_REPLY + 1)
        if not line.endswith(b"\n"):
            raise ProcessDied(self._last_words())
        reply: Reply = json.loads(line)
        return reply

    def cancel(self) -> None:
        """End the request that another thread waits for, and what works on it."""
        with suppress(ProcessDied):
            self._send({"cancel": True})

    def stop(self) -> None:
        """End the process and what it does."""
        with suppress(OSError):
            self._requests.close()  # which it takes for its end
        with suppress(OSError, ValueError):
            select.select([self._replies], [], [], _STOP_SECONDS)
        self._process.end()
        self.abandon()

    def abandon(self) -> None:
        """Let go of a process that is the parent's, after a fork: replies would go to whichever reads first."""
        for file in (self._requests, self._replies, self._complaints):
            with suppress(OSError):
                file.close()

    def _send(self, request: Reply) -> None:
        try:
            os.write(self._requests.fileno(), json.dumps(request).encode() + b"\n")
        except OSError as error:
            raise ProcessDied(self._last_words()) from error

    def _last_words(self) -> str:
        self._complaints.seek(0)
        lines = self._complaints.read().decode("utf-8", "replace").strip().splitlines()
        return f"the grading process ended{f': {lines[-1]}' if lines else ''}"


class ProcessDied(MLEBenchError):
    """A grading process ended though nothing made it."""


def job_of(competition: Competition, data: Path, **parameters: Any) -> Job:
    """A job for a competition with the files at ``data``; another one when its code or these have changed."""
    code = competition.folder.glob("**/*.py")
    return {
        "competition": str(competition.folder.absolute()),
        "version": competition.version,
        "changed": max((file.stat().st_mtime_ns for file in code), default=0),
        "data_changed": data.stat().st_mtime_ns if data.exists() else 0,
        **({"third_party": True} if is_third_party(competition) else {}),
        **({"leaderboard": asdict(competition.leaderboard)} if competition.is_twin else {}),
        **parameters,
    }


_lock = threading.Lock()
_idle: list[GradingProcess] = []


@contextmanager
def grading_process(job: Job) -> Iterator[GradingProcess]:
    """A grading process, if possible the one that did this job before: starting one takes a second."""
    with _lock:
        known = next((process for process in _idle if job in process.jobs), _idle[-1] if _idle else None)
        if known is not None:
            _idle.remove(known)
    process = known or GradingProcess()
    try:
        yield process
    except BaseException:  # it may still be at work, or gone
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
    using: Callable[[GradingProcess | None], None] = lambda _: None,
) -> Reply:
    """The reply of a grading process; of another one, where it was killed by something else than its limits.

    ``certainty`` asks for that of the score, not for the score itself. ``using`` is called with the process that is at
    work, and with None afterwards. Raises CompetitionError and DataError as the job does.
    """
    reply: Reply = {}
    for _ in range(_ATTEMPTS):
        try:
            with grading_process(job) as process:
                using(process)
                try:
                    reply = process.ask(job, path, seconds, certainty=certainty)
                finally:
                    using(None)
        except ProcessDied as died:
            reply = {"defect": str(died)}
            continue
        if "killed" not in reply:
            break
        reply = {"defect": f"grading was killed {_ATTEMPTS} times: is this machine short of memory?"}
    if "error" in reply:
        raise _ERRORS.get(reply["kind"], MLEBenchError)(reply["error"])
    return reply


_prepared: dict[str, Reply] = {}


def prepare(job: Job, seconds: float) -> Reply:
    """Check that a job can be done, and how; raises CompetitionError or DataError where it cannot.

    What was prepared before is not prepared again. All twins of a competition count as one: their data is made alike.
    """
    data = "answers" if "answers" in job else "public"
    apart = ("leaderboard", data, "data_changed") if "leaderboard" in job else ()
    key = json.dumps({name: value for name, value in job.items() if name not in apart} | {"data": data})
    if key in _prepared and Path(job[data]).exists():
        return _prepared[key]
    reply = ask(job, None, seconds)
    if "ready" not in reply:
        reason = reply.get("defect") or f"it takes more {reply.get('beyond')} than grading may"
        raise CompetitionError(f"{Path(job['competition']) / 'grade.py'} cannot be used: {reason}")
    _prepared[key] = reply
    return reply


@atexit.register
def _stop_all() -> None:
    while _idle:
        _idle.pop().stop()


def _start_anew() -> None:
    """In the child of a fork, as ``multiprocessing`` makes them: its grading processes are its own."""
    global _lock
    _lock = threading.Lock()
    while _idle:
        _idle.pop().abandon()


os.register_at_fork(after_in_child=_start_anew)


logger = logging.getLogger(__name__)

VALID = "Submission is valid."
_INVALID = "Submission invalid! "
_DEFECT = "It could not be read as the competition asks."
_STOPPED = "The submission was not checked: the run is over."


class FormChecker:
    """Verdicts on files, each within limits, by a process that is given the public files and no others (see Form).

    The words are those that agents made for MLE-bench know. Raises CompetitionError where ``grade.py`` is broken.
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
        self._job = job_of(
            competition, public, public=str(public.absolute()), max_bytes=max_bytes, memory=self._limits.memory
        )
        self._lock = threading.Lock()
        self._stopped = False
        self._process: GradingProcess | None = None
        # This reports a broken competition before an agent runs for a day.
        self.confinement: dict[str, Any] = prepare(self._job, self._limits.seconds).get("confinement", {})
        """What confines the process that checks; ``landlock`` keeps it from opening other than public files."""

    def __call__(self, path: Path) -> str:
        """The verdict on a file: never a score."""
        job = {**self._job, "uploads": str(path.parent.absolute())}
        try:
            return self._verdict(ask(job, path, self._limits.seconds, using=self._use))
        except _StoppedError:
            return _STOPPED

    def _use(self, process: GradingProcess | None) -> None:
        with self._lock:
            if process is not None and self._stopped:
                raise _StoppedError
            self._process = process

    def stop(self) -> None:
        """End a check that is running in another thread, and do no more of them."""
        with self._lock:
            self._stopped = True
            if self._process is not None:
                self._process.cancel()

    def _verdict(self, reply: Reply) -> str:
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


class _StoppedError(Exception):
    """The run is over."""


def standing(leaderboard: Leaderboard, score: float | None) -> dict[str, Any]:
    """The fields of a report that follow from its score: thresholds, medals, and the place among the teams."""
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
    """Grades submissions of a competition, each within limits, in a process that has nothing else to lose.

    Submissions that are graded one after another share a process, which reads the answers once.
    Raises DataError where the data is not prepared, CompetitionError where the competition's folder is broken.

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
            raise DataError(f"the data is that of {dataset.competition.id}, the competition is {competition.id}")
        if dataset.competition.is_twin:  # which has a leaderboard of its own
            competition = dataset.competition
        self.competition = competition
        self._generated = TWIN if competition.is_twin else "synthetic" if dataset.is_synthetic else ""
        self.limits = limits or GradingLimits()
        self.max_bytes = max_bytes
        answers = dataset.answers.absolute()
        self._job = job_of(competition, answers, answers=str(answers), max_bytes=max_bytes, memory=self.limits.memory)
        # This reports a broken competition before an agent runs for a day.
        self.confinement: dict[str, Any] = prepare(self._job, self.limits.seconds).get("confinement", {})
        """What confines the process that grades."""

    def report(self, path: AnyPath, *, certainty: bool = True) -> Report:
        """Grade a submission; whatever happens is a report. ``grader_defect`` says that it was not the submission.

        Without ``certainty`` it is not resampled how certain the score is, and whether the medal is firm.
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
        """How certain the score of a submission is that has one (see ``resampling.Certainty``); empty if unknown."""
        try:
            reply = ask(self._job, path, self.limits.seconds, certainty=True)
        except (CompetitionError, DataError) as problem:
            reply = {"defect": str(problem)}
        found = reply.get("certainty")
        if "certainty" not in reply:
            what = reply.get("defect") or reply.get("invalid") or f"more {reply.get('beyond')} than grading may take"
            logger.warning("%s: whether the medal is firm is unknown: %s", self.competition.id, what)
        return found if isinstance(found, dict) else {}

    def _grade(self, path: Path) -> tuple[float | None, str | None, bool]:
        """The rounded score, the reason why there is none, and whether that is the grader's defect."""
        try:
            reply = ask(self._job, path, self.limits.seconds)
        except (CompetitionError, DataError) as problem:
            reply = {"defect": str(problem)}  # the folder or the data broke since the check at the start
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
    """Grade one submission against a prepared data set (see Report).

    Raises DataError where the data is not prepared, CompetitionError where the competition's folder is broken.

    >>> from pytest_mlebench import DataStore, default_catalogue
    >>> competition = default_catalogue()["smoke-diabetes"]
    >>> dataset = DataStore().prepare(competition)
    >>> grade(dataset.sample_submission, competition, dataset).any_medal
    False
    """
    return Grader(competition, dataset, max_bytes=max_bytes, limits=limits).report(submission_path)
