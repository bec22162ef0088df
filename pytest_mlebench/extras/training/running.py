"""An episode from ``reset`` to its end. Its run executes in a thread."""

from __future__ import annotations

import base64
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pytest_mlebench.agents import Agent
from pytest_mlebench.bench import Bench
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.errors import SandboxError, UsageError
from pytest_mlebench.extras.training import observation
from pytest_mlebench.extras.training.channel import MAX_ANSWER, EpisodeOver, StepChannel
from pytest_mlebench.extras.training.halves import Half, halves
from pytest_mlebench.extras.training.options import EpisodeOptions
from pytest_mlebench.extras.training.recording import EpisodeRecording, Trajectory
from pytest_mlebench.grading.grader import VALID, FormChecker
from pytest_mlebench.grading.rewards import REWARDS, Measured
from pytest_mlebench.io.values import as_number
from pytest_mlebench.records.outcome import Report
from pytest_mlebench.records.record import RunRecord
from pytest_mlebench.runs.run import run_agent

MAX_FILE = 32 << 20
"""Maximum bytes of a file for ``read_file`` and ``write_file``."""
_MAX_ASKED = 64 << 20
"""Maximum bytes of an answer, besides ``MAX_ANSWER``."""
_ESCAPED = 6
"""Bytes of JSON for one byte of output: at most ``\\u0000``."""
_START_SECONDS = 600.0
_LIMIT_MARGIN = 1.0
"""If a sandbox ends this many seconds before the time limit or later, the limit may be the cause."""


class RunningEpisode:
    """An episode from ``reset`` to its end."""

    def __init__(
        self,
        bench: Bench,
        agent: Agent,
        dataset: Dataset,
        sandbox: Any,
        options: EpisodeOptions,
        seed: int,
        recording: EpisodeRecording | None,
    ) -> None:
        self._stack = ExitStack()
        self._scratch = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="mlebench-episode-")))
        self._dataset, self._options = dataset, options
        self._reward = REWARDS[options.reward] if isinstance(options.reward, str) else options.reward
        self._channel = StepChannel()
        self._folder = self._scratch / "episodes" if recording is None else recording.folder
        self._trajectory = None if recording is None else Trajectory(agent.id)
        self._run_options = run_options = replace(bench.run_options(self._folder), steps=self._channel)
        self._secret = f"{dataset.competition.id} {options.world} {seed}"  # the same on every machine
        self._result: RunRecord | BaseException | None = None

        def run() -> None:
            try:
                competition = dataset.competition
                self._result = run_agent(agent, competition, dataset, sandbox, run_options, seed=seed)
            except BaseException as error:
                self._result = error

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()
        self._started = 0.0
        self._state: object = None
        lower = dataset.competition.lower_is_better
        self._measured = Measured(time_limit=options.time_limit, lower_is_better=lower)
        self._verdict = "absent"

    @cached_property
    def _halves(self) -> tuple[Half, Half] | None:
        """The halves, created for the first grading; None if steps have no scores."""
        if not self._dataset.competition.is_twin:
            return None
        result = halves(self._dataset, self._scratch / "halves", self._secret)
        if result is not None:
            sample = result[0].report(self._dataset.sample_submission, certainty=False)
            self._measured = replace(self._measured, sample=sample.score)
        return result

    @cached_property
    def _check(self) -> FormChecker:
        data, options = self._dataset, self._run_options
        return FormChecker(
            data.competition, data.public, max_bytes=options.max_submission_bytes, limits=options.grading
        )

    @property
    def record(self) -> RunRecord | None:
        """The record of the run, if it has ended."""
        return self._result if isinstance(self._result, RunRecord) else None

    def start(self) -> observation.Observation:
        deadline = time.monotonic() + _START_SECONDS
        while not self._channel.wait(0.05):
            if not self._thread.is_alive() or time.monotonic() > deadline:
                raise SandboxError(f"the episode's sandbox did not start: {self._why_ended()}")
        hello = self._channel.receive(self._options.answer_timeout)
        self._started = time.monotonic()
        instructions = self._read_instructions(hello["folders"])
        if self._trajectory is not None:
            self._trajectory.begin(instructions)
        return observation.observe(
            self._dataset.public,
            instructions=instructions,
            time_limit=self._options.time_limit,
            step_timeout=self._options.step_timeout,
        )

    def _read_instructions(self, folders: Mapping[str, str]) -> str:
        """The instructions, with variables in place of a local sandbox's folders, which differ each time."""
        text = self._read("$INSTRUCTIONS", MAX_FILE).decode()
        if folders["$DATA_DIR"] != "/home/data":
            for variable, folder in folders.items():
                text = text.replace(folder, variable)
        return text

    def step(self, command: str, timeout: float) -> observation.CommandResult:
        step = self._step(command, timeout)
        if self._trajectory is not None:
            known = {name: getattr(step, name) for name in ("exit_code", "seconds", "submission", "reward")}
            self._trajectory.add("bash", {"command": command}, step.output, known)
        return step

    def _step(self, command: str, timeout: float) -> observation.CommandResult:
        if (remaining := self._seconds_left()) <= 0:
            return self._rewarded("the episode's time is over", truncated=True)
        limit = min(timeout, remaining)
        try:
            keep = self._options.output_bytes
            answer = self._ask({"run": command, "timeout": limit, "keep": keep}, limit, most=_ESCAPED * keep)
            self._measure_submission(answer.get("submission"))
        except EpisodeOver as error:
            if self._seconds_left() < _LIMIT_MARGIN:  # the sandbox has its own clock
                return self._rewarded("the episode's time is over", truncated=True)
            return self._rewarded(f"the episode has ended: {error}", terminated=True)
        killed = answer.get("killed") is True
        return self._rewarded(
            observation.printed(answer, killed, limit, self._options.output_bytes),
            killed=killed,
            exit_code=observation.integer(answer.get("exit_code")),
            seconds=as_number(answer.get("seconds")) or 0.0,
            truncated=self._seconds_left() <= 0,
        )

    def _seconds_left(self) -> float:
        return self._options.time_limit - (time.monotonic() - self._started)

    def _rewarded(self, output: str, *, killed: bool = False, **known: Any) -> observation.CommandResult:
        """The result of a step, with the reward for the measurements. Updates the best score."""
        now = replace(self._measured, seconds=time.monotonic() - self._started)
        best = now.score if now.is_better(now.best) else now.best
        self._measured = replace(now, best=best)
        return observation.CommandResult(
            output=output,
            submission=self._verdict,
            reward=float(self._reward(now)),
            info={"killed": killed, "measured": now},
            **known,
        )

    def _measure_submission(self, state: object) -> None:
        """Check and grade the submission, if it has changed since the last step."""
        if state == self._state:
            return
        self._state = state
        self._measured = replace(
            self._measured, exists=False, valid=False, score=None, percentile=None, above_median=False, medal=None
        )
        self._verdict = "absent"
        if state is None:
            return
        copy = self._scratch / "submission.csv"
        try:
            copy.write_bytes(self._read("$SUBMISSION_DIR/submission.csv", MAX_FILE, plain=True))
        except UsageError as error:
            self._verdict = f"malformed: {error}"
            return
        message = self._check(copy)
        valid = message == VALID
        self._verdict = "valid" if valid else f"malformed: {message}"
        self._measured = replace(self._measured, exists=True, valid=valid)
        if valid and self._halves is not None:
            report = self._halves[0].report(copy, certainty=False)
            board = self._dataset.competition.leaderboard
            self._measured = replace(
                self._measured,
                score=report.score,
                percentile=board.percentile(report.score),
                above_median=report.above_median,
                medal=report.medal,
            )

    def read_file(self, path: str) -> bytes:
        data = self._read(path, MAX_FILE)
        if self._trajectory is not None:
            self._trajectory.add("read_file", {"path": path}, data.decode("utf-8", "replace"))
        return data

    def write_file(self, path: str, data: bytes) -> None:
        order = {"write": path, "data": base64.b64encode(data).decode()}
        answer = self._ask(order, self._options.answer_timeout)
        if "error" in answer:
            raise UsageError(f"{path} cannot be written: {observation.error_of(answer)}")
        if self._trajectory is not None:
            self._trajectory.add("write_file", {"path": path, "data": data.decode("utf-8", "replace")}, "")

    def _read(self, path: str, limit: int, *, plain: bool = False) -> bytes:
        order = {"read": path, "most": limit, "plain": plain}
        answer = self._ask(order, self._options.answer_timeout, most=2 * limit, one_value=True)
        if "error" in answer:
            raise UsageError(f"{path} cannot be read: {observation.error_of(answer)}")
        try:
            data = base64.b64decode(observation.text_of(answer.get("data")), validate=True)
        except ValueError as error:
            raise EpisodeOver("the sandbox's answer is not Base64") from error
        if len(data) > limit:
            raise EpisodeOver("the sandbox's answer is longer than requested")
        return data

    def _ask(self, order: dict[str, Any], seconds: float, *, most: int = 0, one_value: bool = False) -> dict[str, Any]:
        """Give the sandbox an order that asks for at most this many bytes, and return the answer."""
        try:
            self._channel.send(order)
            wait, limit = seconds + self._options.answer_timeout, MAX_ANSWER + min(most, _MAX_ASKED)
            return self._channel.receive(wait, limit, one_value=one_value)
        except EpisodeOver:
            self._channel.is_over.set()
            raise

    def submit(self) -> Report:
        result = self._end()
        if not isinstance(result, RunRecord):
            self._stack.close()
            raise result if result is not None else SandboxError("the episode's run has no record")
        report = result.report
        submission = self._folder / result.run_id / "submission" / "submission.csv"
        if self._halves is not None and report.valid_submission:
            report = self._halves[1].report(submission)
        self._stack.close()
        return report

    def close(self) -> None:
        self._end()
        self._stack.close()

    def _end(self) -> RunRecord | BaseException | None:
        """Let the run end by itself, or force it to end after ``answer_timeout``. Returns its result."""
        self._channel.close()
        self._thread.join(self._options.answer_timeout)
        self._channel.is_over.set()
        self._thread.join()
        if isinstance(self._result, RunRecord) and self._trajectory is not None:
            self._trajectory.write(self._folder / self._result.run_id)
        return self._result

    def _why_ended(self) -> str:
        if isinstance(self._result, BaseException):
            return str(self._result)
        if self._result is not None:
            return self._result.error or self._result.detail or str(self._result.ending)
        return "it took too long"
