"""How the preparation of several competitions is shown: bars on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pytest_mlebench.catalog import Competition
from pytest_mlebench.data.jobs import Result
from pytest_mlebench.data.steps import Note, Step
from pytest_mlebench.quantities import format_seconds, format_size

if TYPE_CHECKING:
    from tqdm import tqdm

Message = Step | Note | Result
Show = Callable[[Competition, Message], None]
_SECONDS_BETWEEN_LINES = 30.0
_BAR = "{desc:<55.55}{percentage:3.0f} %|{bar}| {n_fmt}B/{total_fmt}B {rate_fmt} {remaining}"
_PLAIN = "{desc:<55.55}{elapsed}"
_ALL = "{desc:<55.55}{percentage:3.0f} %|{bar}| {n_fmt}/{total_fmt} {elapsed}<{remaining}"


@contextmanager
def shown(total: int, ended: Callable[[Result], str]) -> Iterator[Show]:
    """A function to tell of the steps of ``total`` competitions; ``ended`` words a result."""
    if sys.stderr.isatty():
        bars = _Bars(total, ended)
        try:
            yield bars
        finally:
            bars.close()
    else:
        yield Lines(lambda line: print(line, file=sys.stderr, flush=True), ended)


class Lines:
    """A line for each new step, and now and then one that says how far it is and how long it will take."""

    def __init__(self, write: Callable[[str], None], ended: Callable[[Result], str] = str) -> None:
        self._write = write
        self._ended = ended
        self._steps: dict[str, str] = {}
        self._last: dict[str, float] = {}
        self._start: dict[str, tuple[float, int]] = {}

    def __call__(self, competition: Competition, step: Message) -> None:
        if not isinstance(step, Step):
            self._write(step.text if isinstance(step, Note) else self._ended(step))
            return
        now = time.monotonic()
        if self._steps.get(competition.id) != step.doing:
            self._steps[competition.id] = step.doing
            self._last[competition.id] = now
            self._start[competition.id] = (now, step.done)
            self._write(f"{competition.id}: {step.doing}")
        elif step.total and now - self._last[competition.id] >= _SECONDS_BETWEEN_LINES:
            self._last[competition.id] = now
            self._write(f"{competition.id}: {step.doing}: {self._far(competition, step, now)}")

    def _far(self, competition: Competition, step: Step, now: float) -> str:
        assert step.total
        start, done = self._start[competition.id]
        text = f"{format_size(step.done)} of {format_size(step.total)}"
        if step.done > done:
            text += f", {format_seconds((step.total - step.done) * (now - start) / (step.done - done))} left"
        return text


class _Bars:
    """A bar for each competition that is being worked on, with the time that its step will take, and one for all."""

    def __init__(self, total: int, ended: Callable[[Result], str]) -> None:
        from tqdm import tqdm

        self._new: type[tqdm] = tqdm
        self._ended = ended
        self._bars: dict[str, tqdm] = {}
        self._all = self._new(desc="competitions", total=total, bar_format=_ALL, leave=False)

    def __call__(self, competition: Competition, step: Message) -> None:
        if isinstance(step, Note):
            self._new.write(step.text, file=sys.stderr)
            return
        if isinstance(step, Result):
            self._end(competition)
            self._new.write(self._ended(step), file=sys.stderr)
            self._all.update()
            return
        name = f"{competition.id}: {step.doing}"
        bar = self._bars.get(competition.id)
        if bar is None or bar.desc != name:
            self._end(competition)
            bar = self._bars[competition.id] = self._new(
                desc=name, total=step.total, initial=step.done, unit="B", unit_scale=True, leave=False
            )
        bar.bar_format = _BAR if step.total else _PLAIN
        bar.total = step.total
        bar.update(step.done - bar.n)
        self._all.refresh()

    def close(self) -> None:
        for bar in self._bars.values():
            bar.close()
        self._all.close()

    def _end(self, competition: Competition) -> None:
        if (bar := self._bars.pop(competition.id, None)) is not None:
            bar.close()
