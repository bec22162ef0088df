"""The log of a run group: what its sessions reported beside their runs, one JSON object per line."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pytest_mlebench.json_values import loads
from pytest_mlebench.progress import Event, event_from_json, event_to_json
from pytest_mlebench.runs.layout import EVENTS

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
