"""Trying again after failures that may pass, with growing delays."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event
from typing import TypeVar

from pytest_mlebench.errors import DataError
from pytest_mlebench.io.progress import Note, Reporter, silent
from pytest_mlebench.io.units import format_seconds, pluralize

T = TypeVar("T")


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
