"""Runs in progress, as others can see them: a file in the run directory that its process refreshes."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from pytest_mlebench.io.json_files import loads, read_json, write_json
from pytest_mlebench.io.processes import is_dead, owner_labels
from pytest_mlebench.io.progress import Event, event_from_json, event_to_json
from pytest_mlebench.records.layout import EVENTS, RECORD, RUNNING
from pytest_mlebench.records.record import RunKey

_REFRESH = 5.0
_LOST_AFTER = 60.0
"""Seconds without a refresh after which a run on another host counts as interrupted; clocks may differ a little."""


@dataclass(frozen=True, kw_only=True)
class RunInProgress:
    """A run that was started and has no record yet. Times in seconds, ``started`` since the epoch."""

    competition_id: str
    agent: str
    seed: int
    worker: str
    started: float
    time_limit: float
    owner: Mapping[str, str]
    run_dir: Path = Path()
    interrupted: bool = False
    """Its process is gone, so there will be no record."""

    @property
    def key(self) -> RunKey:
        return RunKey(self.agent, self.competition_id, self.seed)


@contextmanager
def shown_as_running(run_dir: Path, key: RunKey, *, worker: str, time_limit: float) -> Iterator[None]:
    """Show a run to others while the block works; after an exception it stays, to be seen as interrupted."""
    path = run_dir / RUNNING
    about = {"worker": worker, "started": time.time(), "time_limit": time_limit, "owner": owner_labels()}
    write_json(path, {**key._asdict(), **about})
    stop = threading.Event()

    def refresh() -> None:
        while not stop.wait(_REFRESH):
            with suppress(OSError):
                os.utime(path)

    thread = threading.Thread(target=refresh, name="mlebench-running", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    path.unlink(missing_ok=True)


def runs_in_progress(group_dir: Path) -> list[RunInProgress]:
    """The runs of a group without a record, by start."""
    found = []
    for path in group_dir.glob(f"*/{RUNNING}"):
        if (path.parent / RECORD).exists():
            continue
        try:
            run = read_json(path, RunInProgress)
            unrefreshed = time.time() - path.stat().st_mtime
        except (OSError, ValueError):  # it ended just now, or is not ours
            continue
        interrupted = is_dead(run.owner) or unrefreshed > _LOST_AFTER
        found.append(replace(run, run_dir=path.parent, interrupted=interrupted))
    return sorted(found, key=lambda run: (run.started, run.run_dir.name))


_READ_BYTES = 1 << 16


@dataclass(frozen=True)
class LoggedEvent:
    """An event, when it was reported (ISO 8601, UTC), and by which xdist worker ("" for the session's own process)."""

    at: str
    worker: str
    event: Event


def log_event(group_dir: Path, event: Event, worker: str = "") -> None:
    """Append an event to the log of a group. Raises OSError."""
    entry = {"at": datetime.now(UTC).isoformat(timespec="seconds"), "worker": worker, **event_to_json(event)}
    line = f"{json.dumps(entry)}\n".encode()
    descriptor = os.open(group_dir / EVENTS, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(descriptor, line)  # at once, so that lines of several processes do not mix
    finally:
        os.close(descriptor)


def latest_events(group_dir: Path, number: int) -> list[LoggedEvent]:
    """The last events of a group's log, oldest first; none if there is no log."""
    try:
        with (group_dir / EVENTS).open("rb") as file:
            start = max(0, file.seek(0, os.SEEK_END) - _READ_BYTES)
            file.seek(start)
            lines = file.read().splitlines()
    except OSError:
        return []
    return list(_parsed(lines[1:] if start else lines))[-number:]


def _parsed(lines: list[bytes]) -> Iterator[LoggedEvent]:
    for line in lines:
        try:
            values = loads(line)
            yield LoggedEvent(str(values.pop("at")), str(values.pop("worker")), event_from_json(values))
        except (ValueError, TypeError, LookupError, AttributeError):
            continue  # a line that a full disk or a power cut shortened
