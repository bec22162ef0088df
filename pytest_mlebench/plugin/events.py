"""What work reports in a session: shown between pytest's own lines, and kept in the run group's log.

An xdist worker sends its events to the controller, which shows and keeps them.
"""

from __future__ import annotations

import shlex
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_mlebench.errors import MLEBenchError
from pytest_mlebench.io.progress import Thinned, event_from_json, event_to_json
from pytest_mlebench.plugin import internals
from pytest_mlebench.plugin.session import is_worker, session_of
from pytest_mlebench.records.group import GroupReader, log_event
from pytest_mlebench.reports.progress import Lines, pulse

if TYPE_CHECKING:
    from pytest_mlebench.io.progress import Event, Reporter


_REPORTER: pytest.StashKey[Reporter] = pytest.StashKey()
_LINES: pytest.StashKey[Lines] = pytest.StashKey()
_showing = threading.Lock()  # events of workers arrive in a thread of their own


def reporter_of(config: pytest.Config) -> Reporter:
    """The reporter of this process."""
    if _REPORTER not in config.stash:
        reporter: Reporter = Thinned(partial(_send if is_worker(config) else _show, config))
        config.stash[_REPORTER] = reporter
    return config.stash[_REPORTER]


def receive(config: pytest.Config, worker: str, values: dict[str, Any]) -> None:
    """As xdist's controller: take up an event of a worker."""
    _show(config, event_from_json(values), worker)


def _send(config: pytest.Config, event: Event) -> None:
    internals.send_to_controller(config, ("event", event_to_json(event)))


def _show(config: pytest.Config, event: Event, worker: str = "") -> None:
    with _showing:
        if _LINES not in config.stash:
            config.stash[_LINES] = Lines(lambda line: internals.write_line(config, f"mlebench: {line}"))
        config.stash[_LINES](event)
        session = session_of(config)
        if session.reader is not None and session.group.is_dir():
            with suppress(OSError):  # a full disk: it is shown all the same
                log_event(session.group, event, worker)


class Interruption:
    """Says at once that a session with workers, which stop their agents first, is stopping; names no line of code."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(trylast=True)
    def pytest_keyboard_interrupt(self) -> None:
        internals.name_interrupt(self._config, "interrupted")
        if internals.has_workers(self._config):
            internals.write_line(self._config, "mlebench: stopping: agents are ended, and what they left is collected")


@contextmanager
def heartbeat(config: pytest.Config) -> Iterator[None]:
    """Inside, write a line about the run group every ``--heartbeat``, also while a test runs."""
    session = session_of(config)
    interval = session.settings.heartbeat
    if not interval or not internals.is_on(config, "heartbeat") or (opened := internals.terminal_copy(config)) is None:
        yield
        return

    started, stopped, reader = time.monotonic(), threading.Event(), GroupReader(session.group)
    command = f"mlebench watch {shlex.quote(shown(session.group))}"

    def beat(write: Callable[[str], None]) -> None:
        while not stopped.wait(interval):
            with suppress(OSError, MLEBenchError):  # a full disk, or a terminal that is gone: the runs go on
                write(f"mlebench: {pulse(reader, time.monotonic() - started)}; {command}")

    with opened as write:
        thread = threading.Thread(target=beat, args=(write,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            stopped.set()
            thread.join()


def shown(folder: Path) -> str:
    """A folder as the user would type it here."""
    here = Path.cwd()
    return str(folder.relative_to(here) if folder.is_relative_to(here) else folder)


def resume_command(config: pytest.Config) -> str:
    """The command that resumes this session's run group."""
    workers = internals.worker_count(config)
    words = ["pytest", f"--resume={shown(session_of(config).group)}", *(["-n", str(workers)] if workers > 1 else [])]
    return shlex.join(words)
