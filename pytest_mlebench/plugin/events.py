"""What work reports in a session: shown between pytest's own lines, and kept in the run group's log.

An xdist worker sends its events to the controller, which shows and keeps them.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any

import pytest

from pytest_mlebench.io.progress import Thinned, event_from_json, event_to_json
from pytest_mlebench.plugin import private
from pytest_mlebench.plugin.session import is_worker, session_of
from pytest_mlebench.records.running import log_event
from pytest_mlebench.reports.progress import Lines

if TYPE_CHECKING:
    from pytest_mlebench.io.progress import Event, Reporter

_REPORTER: pytest.StashKey[Reporter] = pytest.StashKey()
_LINES: pytest.StashKey[Lines] = pytest.StashKey()
_showing = Lock()  # events of workers arrive in a thread of their own


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
    private.send_to_controller(config, ("event", event_to_json(event)))


def _show(config: pytest.Config, event: Event, worker: str = "") -> None:
    with _showing:
        if _LINES not in config.stash:
            config.stash[_LINES] = Lines(lambda line: private.write_line(config, f"mlebench: {line}"))
        config.stash[_LINES](event)
        session = session_of(config)
        if session.reader is not None and session.group.is_dir():
            with suppress(OSError):  # a full disk: it is shown all the same
                log_event(session.group, event, worker)
