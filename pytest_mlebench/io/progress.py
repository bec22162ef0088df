"""Progress reports of long operations: typed events, from any call depth and from child processes.

Each long operation has a parameter ``reporter``, and calls it with events. An event is a plain value: it can be sent
through a pipe or stored in a file. The outermost caller decides where events are shown: on a terminal, in a pytest
session or in a run group's log.

>>> events: list[Event] = []
>>> reporter: Reporter = events.append
>>> reporter(Step("spaceship-titanic", "downloading", done=17, total=42))
>>> events[0].activity
'downloading'
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

SECONDS_BETWEEN_LINES = 30.0
"""Minimum time between two lines about the same step."""
_SECONDS_BETWEEN_STEPS = 0.1


@dataclass(frozen=True)
class Step:
    """An activity on a subject: ``Step("spaceship-titanic", "downloading", done=17, total=42)``.

    ``done`` and ``total`` are bytes; ``total`` is None if it is unknown or if nothing is counted.

    >>> Step("spaceship-titanic", "downloading", done=17).subject
    'spaceship-titanic'
    """

    subject: str
    activity: str
    done: int = 0
    total: int | None = None


@dataclass(frozen=True)
class Note:
    """Information for the user while the operation continues.

    >>> print(Note("3 of 22 are prepared").text)
    3 of 22 are prepared
    """

    text: str


@dataclass(frozen=True)
class WarningNote:
    """Something that the user may have to act on.

    >>> print(WarningNote("the disk is nearly full").text)
    the disk is nearly full
    """

    text: str


Event = Step | Note | WarningNote
"""What a long operation reports."""
Reporter = Callable[[Event], None]
"""A function that receives each event immediately."""
_KINDS: Mapping[str, type[Event]] = {"step": Step, "note": Note, "warning": WarningNote}


def silent(event: Event) -> None:
    """A reporter that ignores all events."""


def event_text(event: Event) -> str:
    """An event as a line of text; for a step, its subject and activity."""
    if isinstance(event, Step):
        return f"{event.subject}: {event.activity}"
    return f"warning: {event.text}" if isinstance(event, WarningNote) else event.text


def event_to_json(event: Event) -> dict[str, Any]:
    """An event as a JSON object; its ``kind`` is ``step``, ``note`` or ``warning``."""
    kind = next(kind for kind, cls in _KINDS.items() if type(event) is cls)
    return {"kind": kind, **asdict(event)}


def event_from_json(values: Mapping[str, Any]) -> Event:
    """Parse the result of ``event_to_json``. Raises ValueError or TypeError for anything else."""
    fields = dict(values)
    kind = _KINDS.get(fields.pop("kind", ""))
    if kind is None:
        raise ValueError(f"not an event: {values!r}")
    return kind(**fields)


class ByteCounter:
    """Reports transferred bytes, at most ten times a second: ``count(done)``, or ``count(done, total)``."""

    def __init__(self, reporter: Reporter, subject: str, activity: str, total: int | None = None) -> None:
        self._reporter = reporter
        self._step = Step(subject, activity, total=total)
        self._last = 0.0

    def __call__(self, done: int, total: int | None = None) -> None:
        step = replace(self._step, done=done, total=self._step.total if total is None else total)
        now = time.monotonic()
        if now - self._last >= _SECONDS_BETWEEN_STEPS or step.done == step.total:
            self._last = now
            self._reporter(step)


class ThrottledReporter:
    """A reporter that passes on notes, warnings and new steps, and repeats a step at most every 30 seconds."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._latest: dict[str, tuple[str, float]] = {}

    def __call__(self, event: Event) -> None:
        if isinstance(event, Step):
            now = time.monotonic()
            activity, last = self._latest.get(event.subject, ("", 0.0))
            if activity == event.activity and now - last < SECONDS_BETWEEN_LINES:
                return
            self._latest[event.subject] = (event.activity, now)
        self._reporter(event)


@contextmanager
def log_reported(reporter: Reporter, logger: logging.Logger, level: int = logging.INFO) -> Iterator[None]:
    """Context manager: this logger and its children log to the reporter, and nowhere else.

    Warnings and errors are reported as ``WarningNote``, the rest as ``Note``.
    """

    class Bridge(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            kind = WarningNote if record.levelno >= logging.WARNING else Note
            reporter(kind(record.getMessage()))

    bridge, before, propagate = Bridge(level), logger.level, logger.propagate
    logger.addHandler(bridge)
    logger.setLevel(level)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(bridge)
        logger.setLevel(before)
        logger.propagate = propagate
