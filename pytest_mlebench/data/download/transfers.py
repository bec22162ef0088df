"""Downloads of any kind: what they give, how they fail, several at once, and trying again after failures."""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
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
    """How many bytes a competition's archive has, and the files in it."""

    download: int
    unpacked: int


class Notebook(NamedTuple):
    """A public notebook or script: its text, its kind (``notebook``, ``script``) and its language in lower case."""

    source: str
    kind: str
    language: str


class CredentialsError(DataError):
    """The user's credentials are not accepted: no other request would succeed."""


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """A user's credentials for Kaggle, as arguments of its client, and where they were found, for messages."""

    source: str
    arguments: Mapping[str, str] = field(repr=False)


class RefusedError(DataError):
    """Kaggle refused a request: ``status`` is that of HTTP, ``message`` is Kaggle's own."""

    def __init__(self, status: int, message: str, advice: str = "", what: str = "") -> None:
        super().__init__(f"{what and f'{what}: '}Kaggle answered {status}: {message}{advice and f'; {advice}'}")
        self.status = status
        self.message = message


class NotebookGone(DataError):
    """A notebook that is no longer there, or not public, or that has no code; the text is why."""


Item = TypeVar("Item")
T = TypeVar("T")


def in_parallel(
    call: Callable[[Item], T], items: Sequence[Item], threads: int, stopped: Event | None = None
) -> list[T]:
    """What ``call`` returns for each item, in their order.

    An error of a call is raised when the calls that have begun have ended; no other begins. Ctrl-C leaves them behind:
    a server that does not answer may hold a thread for minutes, and Python waits for those of an executor. ``stopped``
    is set after the first error, for calls that wait.
    """
    stopped = stopped or Event()
    futures: list[Future[T]] = [Future() for _ in items]
    waiting = deque(zip(items, futures, strict=True))
    ended: SimpleQueue[Future[T]] = SimpleQueue()  # in this order: the first error is why others stop

    def work() -> None:
        with suppress(IndexError):  # none is waiting
            while True:
                item, future = waiting.popleft()
                try:
                    future.set_result(call(item))
                except BaseException as error:
                    waiting.clear()
                    future.set_exception(error)
                ended.put(future)
                if future.exception():
                    stopped.set()

    running = [Thread(target=work, daemon=True) for _ in range(min(threads, len(items)))]
    for thread in running:
        thread.start()
    try:
        for _ in futures:
            ended.get().result()
    except BaseException as error:
        waiting.clear()
        stopped.set()
        if isinstance(error, Exception):
            for thread in running:
                thread.join()
        raise
    return [future.result() for future in futures]


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """How often, and after which delays, a request is made again. Times are in seconds.

    The n-th delay in a row is drawn evenly from 50 % to 150 % of ``delay`` · 2ⁿ⁻¹, at most ``longest_delay``.
    """

    attempts: int = 8
    """How many attempts in a row may fail without progress."""
    delay: float = 1.0
    longest_delay: float = 120.0
    longest_wait: float = 3600.0
    """The longest delay that a server may ask for (``Retry-After``); one that asks for more is given up at once."""
    stall: float = 120.0
    """How long a connection may stay without data."""

    def delay_after(self, failures: int) -> float:
        return min(self.longest_delay, self.delay * 2.0 ** (failures - 1)) * random.uniform(0.5, 1.5)


class TransientError(Exception):
    """A failure that may pass; the text is its cause. ``wait``: the delay that the server asks for, in seconds."""

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
    """Call until there is no TransientError; returns what the call returns. Every wait is reported.

    ``progress`` returns how much is done: after an attempt that got further than all before, attempts and delays are
    counted anew. Raises DataError that begins with ``subject`` when the policy's attempts are used up, and as soon as
    ``stopped`` is set during a wait: Ctrl-C reaches the main thread alone.
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
                raise DataError(f"{subject}: given up after {attempts}: {error}; call again later") from error
            if error.wait is not None and error.wait > policy.longest_wait:
                raise DataError(f"{subject}: {error}; call again in {format_seconds(error.wait)}") from error
            delay = policy.delay_after(failures) if error.wait is None else error.wait
            again = f"trying again in {format_seconds(delay)} (attempt {failures + 1} of {policy.attempts})"
            reporter(Note(f"{subject}: {error}; {again}"))
            if stopped is None:
                time.sleep(delay)
            elif stopped.wait(delay):
                raise DataError(f"{subject}: stopped") from error
