"""Shared parts of all downloads: results, errors, parallel calls and retries."""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from queue import SimpleQueue
from threading import Event, Thread
from typing import NamedTuple, TypeVar

from pytest_mlebench.errors import DataError
from pytest_mlebench.io.progress import Note, Reporter, silent
from pytest_mlebench.io.units import format_seconds, pluralize

SETTINGS = "https://www.kaggle.com/settings/api"


class Size(NamedTuple):
    """Sizes in bytes of a competition's archive, and of the files in it."""

    download: int
    unpacked: int


class Notebook(NamedTuple):
    """A public notebook or script: its source, kind (``notebook``, ``script``) and language, both in lower case."""

    source: str
    kind: str
    language: str


class CredentialsError(DataError):
    """Kaggle rejected the user's credentials, so that no other request would succeed."""


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """A user's credentials, as arguments of Kaggle's client, and where they were found, for messages."""

    source: str
    arguments: Mapping[str, str] = field(repr=False)


class RefusedError(DataError):
    """Kaggle refused a request: ``status`` is the HTTP status, ``message`` is Kaggle's message."""

    def __init__(self, status: int, message: str, advice: str = "", what: str = "") -> None:
        super().__init__(f"{what and f'{what}: '}Kaggle answered {status}: {message}{advice and f'; {advice}'}")
        self.status = status
        self.message = message


class NotebookGone(DataError):
    """A notebook was removed, is not public, or has no code; the message gives the reason."""


Item = TypeVar("Item")
T = TypeVar("T")


def in_parallel(
    call: Callable[[Item], T], items: Sequence[Item], threads: int, stopped: Event | None = None
) -> list[T]:
    """Return the results of ``call`` for all items, in the items' order.

    After an error, no further call starts; the error is raised when the running calls have ended. ``stopped`` is set
    after the first error, for calls that wait. Ctrl-C does not wait for running calls: an unresponsive server may block
    a thread for minutes, and Python would wait for the threads of an executor.
    """
    stopped = stopped or Event()
    results: dict[int, T] = {}
    waiting = deque(enumerate(items))
    ended: SimpleQueue[BaseException | None] = SimpleQueue()  # by completion: the first error causes others

    def work() -> None:
        with suppress(IndexError):  # no item is left
            while True:
                index, item = waiting.popleft()
                try:
                    results[index] = call(item)
                    ended.put(None)
                except BaseException as error:
                    waiting.clear()
                    ended.put(error)
                    stopped.set()

    running = [Thread(target=work, daemon=True) for _ in range(min(threads, len(items)))]
    for thread in running:
        thread.start()
    try:
        for _ in items:
            if error := ended.get():
                raise error
    except BaseException as error:
        waiting.clear()
        stopped.set()
        if isinstance(error, Exception):
            for thread in running:
                thread.join()
        raise
    return [results[index] for index in range(len(items))]


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """How often, and after which delays, a request is retried. Times are in seconds.

    The n-th delay in a row is ``delay`` · 2ⁿ⁻¹, at most ``longest_delay``, times a random factor from 0.5 to 1.5.
    """

    attempts: int = 8
    """Maximum number of attempts in a row without progress."""
    delay: float = 1.0
    longest_delay: float = 120.0
    longest_wait: float = 3600.0
    """Maximum delay that a server may request (``Retry-After``). A longer one is an error at once."""
    stall: float = 120.0
    """Maximum time that a connection may stay without data."""

    def delay_after(self, failures: int) -> float:
        return min(self.longest_delay, self.delay * 2.0 ** (failures - 1)) * random.uniform(0.5, 1.5)


class TransientError(Exception):
    """A temporary failure; the message is its cause. ``wait`` is the delay that the server requests, in seconds."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait


def retry(
    call: Callable[[], T],
    policy: RetryPolicy,
    subject: str,
    reporter: Reporter = silent,
    progress: Callable[[], int] = lambda: 0,
    stopped: Event | None = None,
) -> T:
    """Retry a call after each TransientError, and return its result. Every wait is reported.

    ``progress`` returns how much is done. An attempt that gets further than all before it resets attempts and
    delays. Raises DataError that begins with ``subject`` if the policy's attempts are exhausted, or if ``stopped`` is
    set during a wait (Ctrl-C reaches only the main thread).
    """
    failures, furthest = 0, progress()
    while True:
        try:
            return call()
        except TransientError as error:
            if progress() > furthest:
                failures, furthest = 0, progress()
            failures += 1
            if failures >= policy.attempts:
                attempts = pluralize(failures, "attempt")
                raise DataError(f"{subject}: gave up after {attempts}: {error}; call again later") from error
            if error.wait is not None and error.wait > policy.longest_wait:
                raise DataError(f"{subject}: {error}; call again in {format_seconds(error.wait)}") from error
            delay = policy.delay_after(failures) if error.wait is None else error.wait
            again = f"trying again in {format_seconds(delay)} (attempt {failures + 1} of {policy.attempts})"
            reporter(Note(f"{subject}: {error}; {again}"))
            if stopped is None:
                time.sleep(delay)
            elif stopped.wait(delay):
                raise DataError(f"{subject}: stopped") from error
