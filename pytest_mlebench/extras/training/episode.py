"""``Bench.episode``: one attempt at a competition, driven step by step.

An episode is a run like any other, with its sandbox, limits, collection and record, whose agent does what it is told.
"""

from __future__ import annotations

import base64
import binascii
import math
import secrets
import tempfile
import threading
import time
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self

from pytest_mlebench.agents import Agent, AgentRegistry
from pytest_mlebench.bench import Bench
from pytest_mlebench.catalog import Competition
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.data.twins import SIZES
from pytest_mlebench.errors import SandboxError, UsageError
from pytest_mlebench.extras.training.channel import EpisodeOver, StepChannel
from pytest_mlebench.extras.training.halves import Half, halves
from pytest_mlebench.extras.training.recording import Recording, Trajectory
from pytest_mlebench.grading.process_client import VALID, FormChecker
from pytest_mlebench.grading.rewards import REWARDS, Measured, Reward
from pytest_mlebench.io.paths import AnyPath
from pytest_mlebench.records.record import RunRecord
from pytest_mlebench.records.report import Report
from pytest_mlebench.runs.run import run_agent

AGENT = "episode"
MAX_FILE = 32 << 20
"""Bytes that ``read_file`` and ``write_file`` move at most."""
_START_SECONDS = 600.0
_CLOSE_TO_THE_END = 1.0
"""Seconds before its time limit, when an episode's sandbox may have ended because of it."""
_ANSWER_SECONDS = 30.0
"""Beyond a step's own time limit."""
_SHOWN_FILES, _SHOWN_LINES, _SHOWN_BYTES = 100, 5, 2000


@dataclass(frozen=True, kw_only=True)
class Observation:
    """What an agent is shown at the beginning. ``files`` are those of the data folder: names and bytes; ``heads`` are
    the first lines of those that are text."""

    instructions: str
    description: str
    files: Mapping[str, int]
    heads: Mapping[str, str]
    time_limit: float
    step_timeout: float


@dataclass(frozen=True, kw_only=True)
class Step:
    """What came of a command. ``submission`` is ``absent``, ``valid``, or ``malformed: …`` with the checker's words.

    ``terminated``: the sandbox has ended; ``truncated``: the episode's time is over. ``info`` has what was measured.
    """

    output: str = ""
    exit_code: int | None = None
    seconds: float = 0.0
    submission: str = "absent"
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    info: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, kw_only=True)
class EpisodeOptions:
    """How episodes of a competition go. Times in seconds, ``output_bytes`` of each step."""

    data: str = "twin"
    size: str = "micro"
    world: int = 0
    """Mixed into the seeds of twins. Anyone who knows it and a seed can generate the answers: keep it secret where
    commands may come from an adversary."""
    reward: Reward | str = "milestones"
    time_limit: float = 3600.0
    step_timeout: float = 300.0
    output_bytes: int = 16_384

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        """Options by their names. Raises UsageError."""
        if unknown := sorted(options.keys() - cls.__dataclass_fields__.keys()):
            known = ", ".join(cls.__dataclass_fields__)
            raise UsageError(f"episode has no option {', '.join(unknown)}; it has {known}")
        return cls(**options)

    def __post_init__(self) -> None:
        choices: Mapping[str, Collection[str]] = {"data": ("twin", "real"), "size": SIZES, "reward": REWARDS}
        for name, known in choices.items():
            value = getattr(self, name)
            if value not in known and not (name == "reward" and callable(value)):
                raise UsageError(f"{name}: {value!r} is not one of {', '.join(known)}")
        if isinstance(self.world, bool) or not isinstance(self.world, int) or self.world < 0:
            raise UsageError(f"world: {self.world!r} is not a whole number of at least 0")
        for name in ("time_limit", "step_timeout", "output_bytes"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
                raise UsageError(f"{name}: {value!r} is not a positive number")


def agent_of_episodes() -> Agent:
    """The agent that does what it is told."""
    return AgentRegistry(Path(__file__).parent / "agent")[AGENT]


def bench_of_episodes(bench: Bench) -> Bench:
    """The benchmark as episodes use it: no models."""
    settings = bench.settings
    changed = bench.with_settings(llm_gateway="off")
    if settings.sandbox == "local":  # whoever asks for no isolation trusts the commands
        return changed.with_settings(trust_agents=(*settings.trust_agents, AGENT))
    return changed.with_settings(sandbox="docker") if settings.sandbox == "auto" else changed


class Episode:
    """A context manager; one episode runs at a time, and ``reset`` begins another one.

    >>> from pytest_mlebench import Bench
    >>> with Bench(sandbox="local").episode("smoke-diabetes", data="real") as episode:
    ...     _ = episode.reset(seed=0)
    ...     step = episode.step("cat $DATA_DIR/sample_submission.csv > $SUBMISSION_DIR/submission.csv")
    ...     report = episode.submit()
    >>> step.submission, step.info["measured"].score, report.score
    ('valid', None, 72.61873)
    """

    def __init__(
        self,
        bench: Bench,
        competition: str | Competition,
        options: EpisodeOptions,
        group: AnyPath | Recording | None = None,
    ) -> None:
        (self.competition,) = bench._chosen((competition,), None)
        self.options = options
        self._bench = bench_of_episodes(bench).with_settings(time_limit=options.time_limit)
        if options.data == "twin":
            self._bench = self._bench.with_settings(data=f"twin:{options.world}:{options.size}", twin_per_seed=True)
        self._agent = agent_of_episodes()
        reward = options.reward
        self._reward = REWARDS[reward] if isinstance(reward, str) else reward
        self._is_shared = isinstance(group, Recording)
        self._recording = group if group is None or isinstance(group, Recording) else Recording(group)
        if group is None:
            self._bench = self._bench.with_settings(snapshots="off")
        self._running: _Running | None = None
        self.seed: int | None = None
        """Of the last ``reset``."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def reset(self, seed: int | None = None) -> Observation:
        """Begin an episode in a fresh sandbox; the same seed gives the same task (default: one drawn at random).

        With twins each seed is another task; real data is the same for all. Raises UsageError, DataError, SandboxError.
        """
        self._end()
        self.seed = number = secrets.randbits(63) if seed is None else seed
        bench = self._bench
        dataset = bench.store_of(number).prepare(self.competition, reporter=bench.reporter, **bench.prepare_options)
        sandbox = bench.ready_sandbox(self._agent)
        if self._recording is not None:
            self._recording.plan(bench, self._agent, self.competition, sandbox.name, number)
        self._running = _Running(bench, self._agent, dataset, sandbox, self, number)
        try:
            return self._running.start()
        except BaseException:
            self._end()
            raise

    def step(self, command: str, *, timeout: float | None = None) -> Step:
        """Run a shell command as the agent's user, in the folder of its code. Files stay, and background processes do.

        A command that takes longer than ``timeout`` seconds is killed. After the episode's end nothing runs any more.
        """
        if not isinstance(command, str) or "\0" in command:
            raise UsageError("the command must be text without NUL characters")
        limit = self.options.step_timeout if timeout is None else timeout
        if not 0 < limit < math.inf:
            raise UsageError(f"timeout: {timeout!r} is not a positive number of seconds")
        return self._current.step(command, limit)

    def read_file(self, path: str) -> bytes:
        """A file of the sandbox, at most ``MAX_FILE`` bytes. Raises EpisodeOver, and UsageError for what cannot be
        read."""
        return self._current.read_file(path)

    def write_file(self, path: str, data: bytes | str) -> None:
        """Write a file of the sandbox, and the folders it is in. Raises EpisodeOver, and UsageError for what cannot be
        written."""
        content = data.encode() if isinstance(data, str) else data
        if len(content) > MAX_FILE:
            raise UsageError(f"{path}: {len(content):,} bytes, and at most {MAX_FILE:,} can be written")
        self._current.write_file(path, content)

    def submit(self) -> Report:
        """End the episode, and grade what is in the submission's place: with twins on the test half."""
        running = self._current
        self._running = None
        return running.submit()

    def close(self) -> None:
        """End the episode, if there is one, and complete the run group that episodes are recorded in, unless it is
        shared."""
        self._end()
        if self._recording is not None and not self._is_shared:
            self._recording.close()

    def _end(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            running.close()

    @property
    def record(self) -> RunRecord | None:
        """The record of the last episode that ended; its ``error`` says why the sandbox failed, if it did."""
        return self._record

    _record: RunRecord | None = None

    @property
    def _current(self) -> _Running:
        if self._running is None:
            raise UsageError("there is no episode: call reset() first")
        return self._running


class _Running:
    """An episode from ``reset`` to its end; its run goes on in a thread."""

    def __init__(
        self,
        bench: Bench,
        agent: Agent,
        dataset: Dataset,
        sandbox: Any,
        episode: Episode,
        seed: int,
    ) -> None:
        self._stack = ExitStack()
        self._scratch = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="mlebench-episode-")))
        self._dataset, self._episode = dataset, episode
        self._options, self._reward = episode.options, episode._reward
        self._channel = StepChannel()
        recording = episode._recording
        folder = self._scratch / "episodes" if recording is None else recording.folder
        self._trajectory = None if recording is None else Trajectory(AGENT)
        self._run_options = options = replace(bench.run_options(folder), steps=self._channel)
        self._secret = f"{dataset.competition.id} {episode.options.world} {seed}"  # the same on every machine
        self._result: RunRecord | BaseException | None = None
        self._folder = folder

        def run() -> None:
            try:
                competition = dataset.competition
                self._result = run_agent(agent, competition, dataset, sandbox, options, seed=seed)
            except BaseException as error:
                self._result = error

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()
        self._started = 0.0
        self._state: object = None
        lower = dataset.competition.lower_is_better
        self._measured = Measured(time_limit=self._options.time_limit, lower_is_better=lower)
        self._verdict = "absent"

    @cached_property
    def _halves(self) -> tuple[Half, Half] | None:
        """Made when there is something to grade."""
        if not self._dataset.competition.is_twin:
            return None
        made = halves(self._dataset, self._scratch / "halves", self._secret)
        if made is not None:
            sample = made[0].report(self._dataset.sample_submission, certainty=False)
            self._measured = replace(self._measured, sample=sample.score)
        return made

    @cached_property
    def _check(self) -> FormChecker:
        data, options = self._dataset, self._run_options
        return FormChecker(
            data.competition, data.public, max_bytes=options.max_submission_bytes, limits=options.grading
        )

    def start(self) -> Observation:
        deadline = time.monotonic() + _START_SECONDS
        while not self._channel.wait(0.05):
            if not self._thread.is_alive() or time.monotonic() > deadline:
                raise SandboxError(f"the episode's sandbox did not start: {self._why_ended()}")
        hello = self._channel.receive(_ANSWER_SECONDS)
        self._started = time.monotonic()
        return self._observe(hello)

    def _observe(self, hello: Mapping[str, Any]) -> Observation:
        public = self._dataset.public
        files = {str(path.relative_to(public)): path.stat().st_size for path in public.rglob("*") if path.is_file()}
        names = sorted(files)[:_SHOWN_FILES]
        heads = {name: text for name in names if (text := _head(public / name))}
        instructions = self._read_instructions(hello["folders"])
        if self._trajectory is not None:
            self._trajectory.begin(instructions)
        return Observation(
            instructions=instructions,
            description=(public / "description.md").read_text(encoding="utf-8"),
            files=files,
            heads=heads,
            time_limit=self._options.time_limit,
            step_timeout=self._options.step_timeout,
        )

    def _read_instructions(self, folders: Mapping[str, str]) -> str:
        """With variables in place of the folders of a local sandbox, which differ each time."""
        text = self._read("$INSTRUCTIONS", MAX_FILE).decode()
        if folders["$DATA_DIR"] != "/home/data":
            for variable, folder in folders.items():
                text = text.replace(folder, variable)
        return text

    def step(self, command: str, timeout: float) -> Step:
        step = self._step(command, timeout)
        if self._trajectory is not None:
            known = {name: getattr(step, name) for name in ("exit_code", "seconds", "submission", "reward")}
            self._trajectory.add("bash", {"command": command}, step.output, known)
        return step

    def _step(self, command: str, timeout: float) -> Step:
        left = self._options.time_limit - (time.monotonic() - self._started)
        if left <= 0:
            return self._ended(truncated=True)
        limit = min(timeout, left)
        try:
            answer = self._ask({"run": command, "timeout": limit, "keep": self._options.output_bytes}, limit)
            self._look(answer.get("submission"))
        except EpisodeOver as error:
            left = self._options.time_limit - (time.monotonic() - self._started)
            return self._ended(truncated=left < _CLOSE_TO_THE_END, why=str(error))  # the sandbox has a clock of its own
        killed = answer.get("killed") is True
        reward, measured = self._rewarded()
        return Step(
            output=_output(answer, killed, limit),
            exit_code=_integer(answer.get("exit_code")),
            seconds=_number(answer.get("seconds")),
            submission=self._verdict,
            reward=reward,
            truncated=measured.seconds >= self._options.time_limit,
            info={"killed": killed, "measured": measured},
        )

    def _ended(self, *, truncated: bool, why: str = "") -> Step:
        reward, measured = self._rewarded()
        text = "the episode's time is over" if truncated else f"the episode has ended: {why}"
        return Step(
            output=text,
            submission=self._verdict,
            reward=reward,
            terminated=not truncated,
            truncated=truncated,
            info={"killed": False, "measured": measured},
        )

    def _rewarded(self) -> tuple[float, Measured]:
        """The reward of what was measured, which then counts among the best."""
        now = replace(self._measured, seconds=time.monotonic() - self._started)
        best = now.score if now.is_better(now.best) else now.best
        self._measured = replace(now, best=best)
        return float(self._reward(now)), now

    def _look(self, state: object) -> None:
        """Measure the submission, if it is another one than after the last step."""
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
        said = self._check(copy)
        valid = said == VALID
        self._verdict = "valid" if valid else f"malformed: {said}"
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
        self._write(path, data)
        if self._trajectory is not None:
            self._trajectory.add("write_file", {"path": path, "data": data.decode("utf-8", "replace")}, "")

    def _read(self, path: str, most: int, *, plain: bool = False) -> bytes:
        answer = self._ask({"read": path, "most": most, "plain": plain}, _ANSWER_SECONDS)
        if "error" in answer:
            raise UsageError(f"{path} cannot be read: {_text(answer['error'])[:300]}")
        try:
            data = base64.b64decode(_text(answer.get("data")), validate=True)
        except (ValueError, binascii.Error) as error:
            raise EpisodeOver("the sandbox gave an answer that is not Base64") from error
        if len(data) > most:
            raise EpisodeOver("the sandbox gave more than was asked for")
        return data

    def _write(self, path: str, data: bytes) -> None:
        answer = self._ask({"write": path, "data": base64.b64encode(data).decode()}, _ANSWER_SECONDS)
        if "error" in answer:
            raise UsageError(f"{path} cannot be written: {_text(answer['error'])[:300]}")

    def _ask(self, order: dict[str, Any], seconds: float) -> dict[str, Any]:
        try:
            self._channel.send(order)
            return self._channel.receive(seconds + _ANSWER_SECONDS)
        except EpisodeOver:
            self._channel.is_over.set()
            raise

    def submit(self) -> Report:
        result = self._end()
        if not isinstance(result, RunRecord):
            self._stack.close()
            raise result if result is not None else SandboxError("the episode's run gave no record")
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
        """Let the run end by itself, or after a while without its consent; returns what came of it."""
        self._channel.close()
        if self._thread.ident is not None:
            self._thread.join(_ANSWER_SECONDS)
            self._channel.is_over.set()
            self._thread.join()
        if isinstance(self._result, RunRecord):
            self._episode._record = self._result
            if self._trajectory is not None:
                self._trajectory.write(self._folder / self._result.run_id)
        return self._result

    def _why_ended(self) -> str:
        if isinstance(self._result, BaseException):
            return str(self._result)
        if self._result is not None:
            return self._result.error or self._result.detail or str(self._result.ending)
        return "it took too long"


def episode(
    bench: Bench, competition: str | Competition, *, group: AnyPath | Recording | None = None, **options: Any
) -> Episode:
    """An episode of a competition, in the sandbox that the bench's options name.

    ``options`` are those of ``EpisodeOptions``: ``data`` (``twin``, or ``real``, where steps have no scores), ``size``,
    ``reward``, ``time_limit``, ``step_timeout``, ``output_bytes``. With ``group``, a folder, or a ``Recording`` that
    several episodes share, each episode is recorded there as a run. Raises UsageError.
    """
    return Episode(bench, competition, EpisodeOptions.of(options), group)


def _head(path: Path) -> str:
    """The first lines of a text; empty for anything else."""
    with path.open("rb") as file:
        data = file.read(_SHOWN_BYTES)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(data) - 4:
            return ""
        text = data[: error.start].decode("utf-8")
    return "" if "\0" in text else "\n".join(text.splitlines()[:_SHOWN_LINES])


def _output(answer: Mapping[str, Any], killed: bool, limit: float) -> str:
    """What a command printed: its beginning and its end."""
    head, tail = _text(answer.get("head")), _text(answer.get("tail"))
    omitted = _integer(answer.get("omitted")) or 0
    between = f"\n[… {omitted:,} bytes omitted …]\n" if omitted else ""
    after = f"\n[killed after {limit:g} s]" if killed else ""
    error = f"\n[{_text(answer['error'])}]" if "error" in answer else ""
    return f"{head}{between}{tail}{after}{error}"


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: object) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if is_number else 0.0  # type: ignore[arg-type]
