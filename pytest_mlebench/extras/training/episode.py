"""``Bench.episode``: one attempt at a competition, driven step by step.

An episode is a normal run, with a sandbox, limits, collection and a record. Its agent executes the caller's commands.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any, Self

from pytest_mlebench.agents import Agent, AgentRegistry
from pytest_mlebench.bench import Bench
from pytest_mlebench.catalog import Competition
from pytest_mlebench.errors import UsageError, reason
from pytest_mlebench.extras.training.observation import CommandResult, Observation
from pytest_mlebench.extras.training.options import EpisodeOptions, check_seconds, with_options
from pytest_mlebench.extras.training.recording import EpisodeRecording
from pytest_mlebench.extras.training.running import MAX_FILE, RunningEpisode
from pytest_mlebench.io.files import AnyPath
from pytest_mlebench.records.outcome import Report
from pytest_mlebench.records.record import RunRecord
from pytest_mlebench.runs.run import check_seed

AGENT = "episode"


def agent_of_episodes() -> Agent:
    """The agent that executes an episode's commands."""
    return AgentRegistry(Path(__file__).parent / "agent")[AGENT]


def bench_of_episodes(bench: Bench) -> Bench:
    """The bench for episodes, without models."""
    settings = bench.settings
    changed = bench.with_settings(llm_gateway="off")
    if settings.sandbox == "local":  # without isolation, the user trusts the commands
        return changed.with_settings(trust_agents=(*settings.trust_agents, AGENT))
    return changed.with_settings(sandbox="docker") if settings.sandbox == "auto" else changed


class Episode:
    """A context manager. One episode runs at a time, and ``reset`` starts another one.

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
        group: AnyPath | EpisodeRecording | None = None,
    ) -> None:
        (self.competition,) = bench._chosen((competition,), None)
        self.options = options
        self._bench = bench_of_episodes(bench).with_settings(time_limit=options.time_limit)
        if options.data == "twin":
            self._bench = self._bench.with_settings(data=f"twin:{options.world}:{options.size}", twin_per_seed=True)
        self._agent = agent_of_episodes()
        self._is_shared = isinstance(group, EpisodeRecording)
        self._recording = group if group is None or isinstance(group, EpisodeRecording) else EpisodeRecording(group)
        if group is None:
            self._bench = self._bench.with_settings(snapshots="off")
        self._running: RunningEpisode | None = None
        self.seed: int | None = None
        """Seed of the last ``reset``."""
        self.record: RunRecord | None = None
        """Record of the last episode that ended. If the sandbox failed, its ``error`` is the reason."""
        self.report: Report | None = None
        """Report of ``submit``, until the next ``reset``."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def reset(self, seed: int | None = None) -> Observation:
        """Start an episode in a fresh sandbox. The same seed gives the same task (default: a random seed).

        With twins, each seed is another task. Real data is always the same. Raises UsageError, DataError, SandboxError.
        """
        number = secrets.randbits(63) if seed is None else seed
        check_seed(number)
        self._end()
        self.seed, self.report = number, None
        bench = self._bench
        dataset = bench.store_of(number).prepare(self.competition, reporter=bench.reporter, **bench.prepare_options)
        sandbox = bench.ready_sandbox(self._agent)
        if self._recording is not None:
            self._recording.plan(bench, self._agent, self.competition, sandbox.name, number)
        self._running = RunningEpisode(bench, self._agent, dataset, sandbox, self.options, number, self._recording)
        try:
            return self._running.start()
        except BaseException:
            self._end()
            raise

    def step(self, command: str, *, timeout: float | None = None) -> CommandResult:
        """Run a shell command as the agent's user, in the code folder. Files and background processes persist.

        A command that takes longer than ``timeout`` seconds is killed. After the episode's end, no command is run.
        """
        if not isinstance(command, str) or "\0" in command:
            raise UsageError("the command must be text without NUL characters")
        limit = self.options.step_timeout if timeout is None else timeout
        check_seconds("timeout", limit)
        return self._current.step(command, limit)

    def read_file(self, path: str) -> bytes:
        """Read a file in the sandbox, of at most ``MAX_FILE`` bytes. Raises EpisodeOver, and UsageError if it cannot be
        read."""
        return self._current.read_file(path)

    def write_file(self, path: str, data: bytes | str) -> None:
        """Write a file in the sandbox, and create its folders. Raises EpisodeOver, and UsageError if the file cannot be
        written."""
        try:
            content = data.encode() if isinstance(data, str) else data
        except UnicodeEncodeError as error:
            raise UsageError(f"{path}: the text has a character that UTF-8 lacks: {reason(error)}") from error
        if len(content) > MAX_FILE:
            raise UsageError(f"{path}: at most {MAX_FILE:,} bytes can be written, not {len(content):,}")
        self._current.write_file(path, content)

    def submit(self) -> Report:
        """End the episode, and grade its submission; with twins, on the test half."""
        running, self._running = self._current, None
        try:
            self.report = running.submit()
            return self.report
        finally:
            self.record = running.record or self.record

    def close(self) -> None:
        """End the episode, if there is one. Completes the run group that episodes are recorded in, unless it is
        shared."""
        self._end()
        if self._recording is not None and not self._is_shared:
            self._recording.close()

    def _end(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            running.close()
            self.record = running.record or self.record

    @property
    def _current(self) -> RunningEpisode:
        if self._running is None:
            raise UsageError("there is no episode: call reset() first")
        return self._running


def episode(
    bench: Bench, competition: str | Competition, *, group: AnyPath | EpisodeRecording | None = None, **options: Any
) -> Episode:
    """Create an episode of a competition.

    ``options`` are those of ``EpisodeOptions``: ``data`` (``twin``, or ``real``, for which steps have no scores),
    ``size``, ``reward``, ``time_limit``, ``step_timeout``, ``output_bytes`` and ``answer_timeout``. Options of
    ``Bench``, such as ``sandbox`` and ``memory``, override the bench's. ``group`` is a folder, or an
    ``EpisodeRecording`` that several episodes share: each episode is recorded there as a run. Raises UsageError.
    """
    bench, episode_options = with_options(bench, options)
    return Episode(bench, competition, episode_options, group)
