"""What a preparation tells of its progress."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

_SECONDS_BETWEEN = 0.1


@dataclass(frozen=True, kw_only=True)
class Step:
    """What is being done for a competition: ``doing`` ("downloading"), and how many of how many bytes of it."""

    doing: str
    done: int = 0
    total: int | None = None


@dataclass(frozen=True, kw_only=True)
class Note:
    """Something that the user should know, though the work goes on."""

    text: str


Tell = Callable[[Step], None]


def quiet(step: Step) -> None:
    """Tell nobody."""


def counter(tell: Tell, doing: str, total: int | None = None) -> Callable[..., None]:
    """A function that tells of bytes as they come, though not of every block: ``progress(done, total)``."""
    last = 0.0

    def progress(done: int, whole: int | None = total) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _SECONDS_BETWEEN or done == whole:
            last = now
            tell(Step(doing=doing, done=done, total=whole))

    return progress
