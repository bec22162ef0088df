"""Trying again after trouble that may pass, with growing delays."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from pytest_mlebench.errors import DataError
from pytest_mlebench.quantities import format_seconds

logger = logging.getLogger("pytest_mlebench")

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How much trouble with a server to put up with. Times are in seconds.

    The n-th delay in a row is drawn evenly from 50 % to 150 % of ``delay`` · 2ⁿ⁻¹, at most ``longest_delay``.
    """

    attempts: int = 8
    """Attempts in a row without progress, then it is given up."""
    delay: float = 1.0
    longest_delay: float = 120.0
    longest_wait: float = 3600.0
    """A server may ask for up to this delay (``Retry-After``); if it asks for more, it is given up at once."""
    stall: float = 120.0
    """A connection on which nothing comes for so long is given up."""

    def delay_after(self, failures: int) -> float:
        return min(self.longest_delay, self.delay * 2.0 ** (failures - 1)) * random.uniform(0.5, 1.5)


class TransientError(Exception):
    """Trouble that may pass; the text says what it is. ``wait``: the delay that the server asks for, in seconds."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait


def retry(call: Callable[[], T], patience: Patience, what: str, progress: Callable[[], int] = lambda: 0) -> T:
    """Call until there is no TransientError; returns what the call returns.

    ``progress`` tells how much is done: after an attempt that got further than all before, attempts and delays are
    counted anew. Raises DataError that begins with ``what`` when patience is at an end.
    """
    failures, furthest = 0, progress()
    while True:
        try:
            return call()
        except TransientError as error:
            if progress() > furthest:
                failures, furthest = 0, progress()
            failures += 1
            if failures >= patience.attempts:
                raise DataError(f"{what}: given up after {failures} attempts: {error}; call again later") from error
            if error.wait is not None and error.wait > patience.longest_wait:
                raise DataError(f"{what}: {error}; call again in {format_seconds(error.wait)}") from error
            delay = patience.delay_after(failures) if error.wait is None else error.wait
            logger.info("%s: %s; trying again in %s", what, error, format_seconds(delay))
            time.sleep(delay)
