"""Plays many episodes in parallel. While some are played, the sandboxes of the next ones start."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

from pytest_mlebench.bench import Bench
from pytest_mlebench.errors import SandboxError, UsageError
from pytest_mlebench.extras.training.episode import Episode
from pytest_mlebench.extras.training.observation import Observation
from pytest_mlebench.extras.training.options import check_count, with_options
from pytest_mlebench.extras.training.recording import EpisodeRecording
from pytest_mlebench.io.extensions import renamed
from pytest_mlebench.io.files import AnyPath
from pytest_mlebench.records.outcome import Report


@dataclass(frozen=True)
class EpisodeJob:
    """An episode to be played."""

    competition: str
    seed: int


@dataclass(frozen=True, kw_only=True)
class Played:
    """The result of an episode. ``error`` is the reason why it has no report: its sandbox failed, or the policy raised.

    ``crashes`` has the reasons why earlier sandboxes of the episode failed. Each of them was replaced.
    """

    job: EpisodeJob
    report: Report | None = None
    seconds: float = 0.0
    error: BaseException | None = None
    crashes: tuple[str, ...] = ()


Policy = Callable[[Episode, Observation], Report | None]
"""Plays an episode that has been reset. The episode is submitted afterwards, unless the policy did that."""


def play(
    bench: Bench,
    policy: Policy,
    jobs: Iterable[tuple[str, int]],
    *,
    parallel: int = 2,
    replacements: int = 2,
    group: AnyPath | None = None,
    **options: object,
) -> Iterator[Played]:
    """Play episodes, ``parallel`` at once in threads, and yield the result of each as it ends: ``Bench.play``.

    ``jobs`` are pairs of competition and seed, which are consumed as needed and may be endless. ``options`` are those
    of ``Bench.episode``. If a sandbox fails for another reason than its commands, the episode restarts with the same
    seed, at most ``replacements`` times. A failed episode does not affect the others. Raises UsageError.
    """
    check_count("parallel", parallel, 1)
    check_count("replacements", replacements, 0)
    bench, asked = with_options(bench, options)
    recording = None if group is None else EpisodeRecording(group)

    def start(job: EpisodeJob) -> _Started:
        episode = Episode(bench, job.competition, asked, recording)
        return episode, episode.reset(job.seed)

    def played(job: EpisodeJob, waiting: Future[_Started]) -> Played:
        crashes: list[str] = []
        last, crash = _attempt(policy, job, waiting.result)
        while crash is not None and len(crashes) < replacements:
            crashes.append(crash)
            last, crash = _attempt(policy, job, partial(start, job))
        return replace(last, crashes=tuple(crashes))

    return _played(start, played, map(_job, jobs), parallel, recording)


def _job(job: object) -> EpisodeJob:
    match job:
        case (str(competition), int(seed)):
            return EpisodeJob(competition, seed)
    raise UsageError(f"a job is a competition and a seed, such as ('spaceship-titanic', 0), not {job!r}")


_Started = tuple[Episode, Observation]


def _attempt(policy: Policy, job: EpisodeJob, start: Callable[[], _Started]) -> tuple[Played, str | None]:
    """Play an episode once. Returns the result, and why its sandbox failed, if it did."""
    started = time.monotonic()
    try:
        episode, observation = start()
    except BaseException as error:
        return Played(job=job, error=error), str(error) if isinstance(error, SandboxError) else None
    report, problem = None, None
    try:
        with episode:
            report = policy(episode, observation) or episode.report or episode.submit()
    except BaseException as error:
        problem = error
    crash = None if episode.record is None else episode.record.error
    if crash is not None:
        report, problem = None, SandboxError(crash)
    return Played(job=job, report=report, seconds=time.monotonic() - started, error=problem), crash


def _played(
    start: Callable[[EpisodeJob], _Started],
    played: Callable[[EpisodeJob, Future[_Started]], Played],
    jobs: Iterator[EpisodeJob],
    parallel: int,
    recording: EpisodeRecording | None,
) -> Iterator[Played]:
    with (
        closing(recording or ExitStack()),
        ThreadPoolExecutor(parallel) as starting,
        ThreadPoolExecutor(parallel) as players,
    ):
        running: dict[Future[Played], Future[_Started]] = {}
        try:
            while True:
                for job in islice(jobs, 2 * parallel - len(running)):
                    waiting = starting.submit(start, job)
                    running[players.submit(played, job, waiting)] = waiting
                if not running:
                    return
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    del running[future]
                    yield future.result()
        finally:  # the caller stopped: episodes in play continue to their end, and started ones are closed
            for future, waiting in running.items():
                if future.cancel() and not waiting.cancel():
                    waiting.add_done_callback(_close)


def _close(started: Future[_Started]) -> None:
    if not started.cancelled() and started.exception() is None:
        started.result()[0].close()


renamed(__name__, "0.4", {"Job": "EpisodeJob"})
