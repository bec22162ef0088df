"""Sends traces of a session's runs when the runs end: ``--otlp=URL``.

A thread sends them from a bounded queue. Whatever the collector does, the session continues: traces that cannot be sent
are retried with later runs, and again at the end.
"""

from __future__ import annotations

import shlex
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING

from pytest_mlebench.errors import reason
from pytest_mlebench.extras.interop.facts import cached, cleaner
from pytest_mlebench.extras.interop.otlp import Sender, SendError, headers_of
from pytest_mlebench.extras.interop.otlp_spans import RunSpans
from pytest_mlebench.io.units import pluralize
from pytest_mlebench.records.record import RunRecord

if TYPE_CHECKING:
    from pytest_mlebench.options import Settings

MOST = 1000
"""Maximum number of runs that wait to be sent. Further runs are left to ``mlebench export``."""
DRAIN_SECONDS = 10.0
"""Seconds that the end of a session waits for unsent traces."""
_RETRY_SECONDS = 60.0
_MAX_RECORDING = 64 << 20
"""Maximum bytes of a recording that is read during a session."""


def create(settings: Settings, url: str, group: Path) -> LiveTraces:
    """Return the sender of a session's runs to ``url``. Raises UsageError."""
    headers = {} if settings.otlp_headers is None else headers_of(settings.otlp_headers)
    sender = Sender(url, headers, option="--otlp", attempts=3, seconds=10.0)
    spans = RunSpans(cached(cleaner()), content=settings.otlp_content, max_recording=_MAX_RECORDING)
    return LiveTraces(sender, spans, group)


class LiveTraces:
    """See ``plugin.reporting.Live``. At most ``most`` runs wait, and ``close`` takes at most ``drain`` seconds."""

    def __init__(
        self, sender: Sender, spans: RunSpans, group: Path, *, most: int = MOST, drain: float = DRAIN_SECONDS
    ) -> None:
        self._sender, self._spans, self._group = sender, spans, group
        self._most, self._drain = most, drain
        self._queue: SimpleQueue[tuple[RunRecord, Path] | None] = SimpleQueue()
        self._lock, self._closing = Lock(), Event()
        self._held = self._sent = self._lost = 0
        self._problem, self._warned = "", False
        sender.wait = self._closing.wait
        self._thread = Thread(target=self._work, name="mlebench-otlp", daemon=True)
        self._thread.start()

    def ended(self, record: RunRecord, run_dir: Path) -> None:
        with self._lock:
            if self._held >= self._most:
                self._lost += 1
                self._problem = self._problem or "too many runs wait"
                return
            self._held += 1
        self._queue.put((record, run_dir))

    def warnings(self) -> Iterator[str]:
        if self._problem and not self._warned:
            self._warned = True
            yield f"--otlp: {self._sender.shown}: {self._problem}; runs continue, and their traces are retried"

    def close(self) -> str:
        self._closing.set()
        self._queue.put(None)
        self._thread.join(self._drain)
        with self._lock:
            sent, missing = self._sent, self._held + self._lost
        line = f"{pluralize(sent, 'trace')} sent to {self._sender.shown}"
        if not missing:
            return line
        command = shlex.join(["mlebench", "export", "--to=otlp", f"--endpoint={self._sender.shown}", str(self._group)])
        why = self._problem or "it did not answer in time"
        return f"{line}, {missing} not: {why}; to send all runs of the group: {command}"

    def _work(self) -> None:
        waiting: deque[tuple[RunRecord, Path]] = deque()
        ending = False
        while not ending:
            with suppress(Empty):
                if (item := self._queue.get(timeout=_RETRY_SECONDS if waiting else None)) is None:
                    ending = True
                else:
                    waiting.append(item)
            while waiting and self._try(*waiting[0]):
                waiting.popleft()
        self._sender.close()

    def _try(self, record: RunRecord, run_dir: Path) -> bool:
        """Send a run; returns False if it must be retried."""
        lost = 1
        try:
            self._sender.send(self._spans.of(record, run_dir))
            lost = 0
        except SendError as error:
            self._problem = str(error)
            if not error.is_permanent:
                return False
        except Exception as error:  # an agent's recording must not stop the session
            self._problem = f"{record.run_id}: {type(error).__name__}: {reason(error)}"
        with self._lock:
            self._held -= 1
            self._sent += 1 - lost
            self._lost += lost
        return True
