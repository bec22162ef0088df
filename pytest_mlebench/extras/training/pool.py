"""Many episodes at once: while some are played, the sandboxes of the next ones start."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import islice

from pytest_mlebench.bench import Bench
from pytest_mlebench.errors import UsageError
from pytest_mlebench.extras.training.episode import Episode, EpisodeOptions, Observation
from pytest_mlebench.records.report import Report


@dataclass(frozen=True)
class Job:
    """An episode to be played."""

    competition: str
    seed: int


@dataclass(frozen=True, kw_only=True)
class Played:
    """How an episode went. ``error`` says why it has no report: its sandbox did not start, or the policy raised."""

    job: Job
    report: Report | None = None
    seconds: float = 0.0
    error: BaseException | None = None


Policy = Callable[[Episode, Observation], Report | None]
"""Plays an episode that has been reset; what it does not submit itself is submitted after it."""


def play(
    bench: Bench, policy: Policy, jobs: Iterable[tuple[str, int]], *, parallel: int = 2, **options: object
) -> Iterator[Played]:
    """Play episodes, ``parallel`` at once in threads, and yield each as it ends: ``Bench.play``.

    ``jobs`` are competitions and seeds; they are taken as they are needed, and may be endless. ``options`` are those of
    ``Bench.episode`` but ``group``. An episode that fails is reported, and costs no other. Raises UsageError.
    """
    if isinstance(parallel, bool) or not isinstance(parallel, int) or parallel < 1:
        raise UsageError(f"parallel: {parallel!r} is not an integer of at least 1")
    if "group" in options:
        raise UsageError("group: episodes that are played at once are not recorded in a group")
    return _played(bench, policy, (Job(*job) for job in jobs), parallel, EpisodeOptions(**options))  # type: ignore[arg-type]


def _played(
    bench: Bench, policy: Policy, jobs: Iterator[Job], parallel: int, options: EpisodeOptions
) -> Iterator[Played]:
    def ready(job: Job) -> tuple[Episode, Observation]:
        episode = Episode(bench, job.competition, options)
        return episode, episode.reset(job.seed)

    def playing(job: Job, waiting: Future[tuple[Episode, Observation]]) -> Played:
        try:
            episode, observation = waiting.result()
        except BaseException as error:
            return Played(job=job, error=error)
        started = time.monotonic()
        try:
            with episode:
                report = policy(episode, observation) or episode.submit()
        except BaseException as error:
            return Played(job=job, seconds=time.monotonic() - started, error=error)
        return Played(job=job, report=report, seconds=time.monotonic() - started)

    with ThreadPoolExecutor(parallel) as starting, ThreadPoolExecutor(parallel) as players:
        running: dict[Future[Played], Future[tuple[Episode, Observation]]] = {}
        try:
            while True:
                for job in islice(jobs, 2 * parallel - len(running)):
                    waiting = starting.submit(ready, job)
                    running[players.submit(playing, job, waiting)] = waiting
                if not running:
                    return
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    del running[future]
                    yield future.result()
        finally:  # the caller wants no more: what is being played goes on to its end, and what has started is closed
            for future, waiting in running.items():
                if future.cancel() and not waiting.cancel():
                    waiting.add_done_callback(_close)


def _close(started: Future[tuple[Episode, Observation]]) -> None:
    if not started.cancelled() and started.exception() is None:
        started.result()[0].close()
