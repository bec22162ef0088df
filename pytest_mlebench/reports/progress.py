"""How the progress of work on several subjects is shown: bars on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pytest_mlebench.io.progress import SECONDS_BETWEEN_LINES, Event, Step, event_text
from pytest_mlebench.io.units import format_seconds, format_size
from pytest_mlebench.reports.untrusted import plain

if TYPE_CHECKING:
    from tqdm import tqdm

_BAR = "{desc:<55.55}{percentage:3.0f} %|{bar}| {n_fmt}iB/{total_fmt}iB {rate_fmt} {remaining}"
_PLAIN = "{desc:<55.55}{elapsed}"
_ALL = "{desc:<55.55}{percentage:3.0f} %|{bar}| {n_fmt}/{total_fmt} {elapsed}<{remaining}"


@contextmanager
def shown(total: int) -> Iterator[Lines | Bars]:
    """A reporter for work on ``total`` subjects, which writes to stderr."""
    if not sys.stderr.isatty():
        yield Lines()
        return
    bars = Bars(total)
    try:
        yield bars
    finally:
        bars.close()


class Lines:
    """A reporter that writes a line for each new step, and every 30 s one that says how far the step is.

    ``write`` writes a line, by default to stderr. Whatever a line holds, it cannot command a terminal.
    """

    def __init__(self, write: Callable[[str], None] | None = None) -> None:
        self._writer = write or _to_stderr
        self._activities: dict[str, str] = {}
        self._last: dict[str, float] = {}
        self._start: dict[str, tuple[float, int]] = {}

    def __call__(self, event: Event) -> None:
        if not isinstance(event, Step):
            self._write(event_text(event))
            return
        subject, now = event.subject, time.monotonic()
        if self._activities.get(subject) != event.activity:
            self._activities[subject] = event.activity
            self._last[subject] = now
            self._start[subject] = (now, event.done)
            self._write(f"{subject}: {event.activity}")
        elif event.total and now - self._last[subject] >= SECONDS_BETWEEN_LINES:
            self._last[subject] = now
            self._write(f"{subject}: {event.activity}: {self._how_far(event, event.total, now)}")

    def end(self, subject: str, text: str) -> None:
        """The work on a subject has ended; ``text`` says how."""
        self._activities.pop(subject, None)
        self._write(text)

    def _write(self, line: str) -> None:
        self._writer(plain(line))

    def _how_far(self, step: Step, total: int, now: float) -> str:
        start, done = self._start[step.subject]
        text = f"{format_size(step.done)} of {format_size(total)}"
        if step.done > done:
            text += f", {format_seconds((total - step.done) * (now - start) / (step.done - done))} left"
        return text


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


class Bars:
    """A reporter that draws a bar for each subject in work, with the time that its step will take, and one for all."""

    def __init__(self, total: int) -> None:
        from tqdm import tqdm

        self._new: type[tqdm] = tqdm
        self._bars: dict[str, tqdm] = {}
        self._all = self._new(desc="competitions", total=total, bar_format=_ALL, leave=False)

    def __call__(self, event: Event) -> None:
        if not isinstance(event, Step):
            self._new.write(plain(event_text(event)), file=sys.stderr)
            return
        name = f"{event.subject}: {event.activity}"
        bar = self._bars.get(event.subject)
        if bar is None or bar.desc != name:
            self._remove(event.subject)
            bar = self._bars[event.subject] = self._new(
                desc=name,
                total=event.total,
                initial=event.done,
                unit="iB",  # behind the prefix of a power of 1024, as in GiB
                unit_scale=True,
                unit_divisor=1024,
                leave=False,
            )
        bar.bar_format = _BAR if event.total else _PLAIN
        bar.total = event.total
        bar.update(event.done - bar.n)
        self._all.refresh()

    def end(self, subject: str, text: str) -> None:
        """The work on a subject has ended; ``text`` says how."""
        self._remove(subject)
        self._new.write(plain(text), file=sys.stderr)
        self._all.update()

    def close(self) -> None:
        for bar in self._bars.values():
            bar.close()
        self._all.close()

    def _remove(self, subject: str) -> None:
        if (bar := self._bars.pop(subject, None)) is not None:
            bar.close()
