"""Live data while agents run: the time and cost of runs in progress, and server-sent events about changes."""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from starlette.concurrency import run_in_threadpool

from pytest_mlebench.extras.viewer.folder import changed_at, read, size_of
from pytest_mlebench.extras.viewer.pictures import CallMark
from pytest_mlebench.extras.viewer.steps import timestamp
from pytest_mlebench.io.files import NotReadable, opened
from pytest_mlebench.io.units import plain
from pytest_mlebench.io.values import as_count, as_number, as_object, loads
from pytest_mlebench.llm.ledger import CALLS
from pytest_mlebench.records.group import RunInProgress
from pytest_mlebench.records.record import GRADING_REPORT, MANIFEST, RECORD, RUN_LOG, RUNNING
from pytest_mlebench.sandbox.redaction import TAIL_SUFFIX

_INTERVAL = 1.0
_HEARTBEAT = 15.0
_READ = 8 << 20
_MAX_MARKS = 20_000
_LOG_LINES = 3


@dataclass(frozen=True, kw_only=True)
class LiveRun:
    """A run in progress, as shown on the page of its group. Times are in seconds."""

    run: RunInProgress
    elapsed: float
    calls: CallsSoFar
    log: list[str]

    @property
    def left(self) -> float:
        return max(0.0, self.run.time_limit - self.elapsed)

    @property
    def share(self) -> float:
        return min(1.0, self.elapsed / self.run.time_limit) if self.run.time_limit > 0 else 0.0

    @property
    def id(self) -> str:
        return self.run.run_dir.name


@dataclass(frozen=True, kw_only=True)
class CallsSoFar:
    """The model calls of a run so far. ``marks`` are the first ones, with seconds since 1970; the totals are of all."""

    marks: tuple[CallMark, ...] = ()
    count: int = 0
    cost: float = 0.0
    """The sum of the known costs."""
    cost_is_complete: bool = True
    size: int = 0
    """Bytes of the ledger that have been read."""

    def with_lines(self, content: bytes, max_marks: int) -> CallsSoFar:
        calls = [call for line in content.splitlines() if (call := _mark(line)) is not None]
        return CallsSoFar(
            marks=(*self.marks, *calls[: max_marks - len(self.marks)]),
            count=self.count + len(calls),
            cost=self.cost + sum(call.cost or 0.0 for call in calls),
            cost_is_complete=self.cost_is_complete and all(call.failed or call.cost is not None for call in calls),
            size=self.size + len(content),
        )


class Calls:
    """The model calls of runs, from their ledgers. Each byte is read only once. Usable from any thread."""

    def __init__(self, *, block: int = _READ, max_marks: int = _MAX_MARKS) -> None:
        self._block, self._max_marks = block, max_marks
        self._known: dict[Path, CallsSoFar] = {}
        self._lock = threading.Lock()

    def of(self, group_dir: Path, run: str) -> CallsSoFar:
        with self._lock:
            found = self._known.get(group_dir / run, CallsSoFar())
            try:
                with opened(group_dir, run, *CALLS.split("/")) as descriptor:
                    if os.fstat(descriptor).st_size < found.size:
                        found = CallsSoFar()
                    while lines := _whole_lines(os.pread(descriptor, self._block, found.size)):
                        found = found.with_lines(lines, self._max_marks)
            except NotReadable:
                return CallsSoFar()
            if len(self._known) > 500:
                self._known.clear()
            self._known[group_dir / run] = found
            return found


def _whole_lines(content: bytes) -> bytes:
    return content[: content.rfind(b"\n") + 1]


def _mark(line: bytes) -> CallMark | None:
    try:
        call = as_object(loads(line))
    except ValueError:
        return None
    if (seconds := timestamp(call.get("started_at"))) is None:
        return None
    tokens, status = as_object(call.get("tokens")), call.get("status")
    return CallMark(
        seconds=seconds,
        tokens=sum(as_count(tokens.get(name)) or 0 for name in ("input", "output")),
        cost=as_number(call.get("cost")),
        failed=not isinstance(status, int) or status >= 400,
    )


def running(found: Iterable[RunInProgress], group_dir: Path, calls: Calls) -> list[LiveRun]:
    """Return what pages show of those runs that are in progress, not interrupted."""
    return [
        LiveRun(
            run=run,
            elapsed=max(0.0, time.time() - run.started),
            calls=calls.of(group_dir, run.run_dir.name),
            log=log_end(group_dir, run.run_dir.name),
        )
        for run in found
        if not run.interrupted
    ]


def log_end(group_dir: Path, run: str, lines: int = _LOG_LINES, size: int = 8192) -> list[str]:
    """Return the last lines of a run's log that are not empty."""
    for name in (RUN_LOG + TAIL_SUFFIX, RUN_LOG):
        total = size_of(group_dir, run, name)
        if total:
            try:
                content, _ = read(group_dir, run, name, start=max(0, total - size), size=size)
            except NotReadable:
                continue
            shown = [text for text in plain(content.decode("utf-8", "replace")).split("\n") if text.strip()]
            return [text[:200] for text in shown[-lines:]]
    return []


def group_state(group_dir: Path) -> str:
    """Return a digest that changes with what the page of a group shows. It is cheap to compute."""
    parts = []
    with suppress(OSError), os.scandir(group_dir) as entries:
        for entry in entries:
            path = group_dir / entry.name
            if entry.is_dir(follow_symlinks=False):
                record = changed_at(path / RECORD)
                parts.append(f"{entry.name}{record}")
                if not record:
                    parts += [str(changed_at(path / name)) for name in (RUN_LOG, CALLS)]
                    parts.append(str(changed_at(path / RUNNING) > 0))  # the run refreshes it
            elif entry.name.endswith((MANIFEST, GRADING_REPORT)):
                parts.append(str(changed_at(path)))
    return hashlib.sha256("\n".join(sorted(parts)).encode("utf-8", "replace")).hexdigest()[:20]


def log_state(group_dir: Path, run: str) -> str:
    """Return the size of a run's log, and whether the run is in progress."""
    try:
        with opened(group_dir, run, RUN_LOG) as descriptor:
            return f"{os.fstat(descriptor).st_size} {int(not (group_dir / run / RECORD).exists())}"
    except NotReadable:
        return "0 0"


async def changes(state: Callable[[], str]) -> AsyncIterator[str]:
    """Yield server-sent events: each new state, and a comment at intervals to keep the connection open."""
    last, quiet = await run_in_threadpool(state), 0.0
    yield f"retry: 2000\nevent: state\ndata: {last}\n\n"
    while True:
        await asyncio.sleep(_INTERVAL)
        new = await run_in_threadpool(state)
        quiet += _INTERVAL
        if new != last:
            last, quiet = new, 0.0
            yield f"event: change\ndata: {new}\n\n"
        elif quiet >= _HEARTBEAT:
            quiet = 0.0
            yield ": still here\n\n"
