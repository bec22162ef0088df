"""What a submission checker says of a file: whether it has the right form, from what is public alone."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

from pytest_mlebench.catalog.competition import Competition
from pytest_mlebench.defaults import MAX_SUBMISSION_BYTES
from pytest_mlebench.grading import bounded
from pytest_mlebench.grading.limits import GradingLimits
from pytest_mlebench.grading.process import Reply

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
        self._job = bounded.job_of(
            competition, public, public=str(public.absolute()), max_bytes=max_bytes, memory=self._limits.memory
        )
        self._lock = threading.Lock()
        self._stopped = False
        self._process: bounded.GradingProcess | None = None
        # What is broken is said before an agent runs for a day.
        self.confinement: dict[str, Any] = bounded.prepare(self._job, self._limits.seconds).get("confinement", {})
        """What confines the process that checks; ``landlock`` keeps it from opening other than public files."""

    def __call__(self, path: Path) -> str:
        """The verdict on a file: never a score."""
        job = {**self._job, "uploads": str(path.parent.absolute())}
        try:
            return self._verdict(bounded.ask(job, path, self._limits.seconds, using=self._use))
        except _StoppedError:
            return _STOPPED

    def _use(self, process: bounded.GradingProcess | None) -> None:
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
