"""Signs of life of a session that runs agents: a line now and then, and what to do when it is interrupted."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

import pytest

from pytest_mlebench.errors import MLEBenchError
from pytest_mlebench.plugin import private
from pytest_mlebench.plugin.session import session_of
from pytest_mlebench.records.group import GroupReader
from pytest_mlebench.reports.watch import pulse


class Interruption:
    """Says at once that a session with workers, which stop their agents first, is stopping; names no line of code."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(trylast=True)
    def pytest_keyboard_interrupt(self) -> None:
        private.name_interrupt(self._config, "interrupted")
        if private.has_workers(self._config):
            private.write_line(self._config, "mlebench: stopping: agents are ended, and what they left is collected")


@contextmanager
def heartbeat(config: pytest.Config) -> Iterator[None]:
    """Inside, write a line about the run group every ``--heartbeat``, also while a test runs."""
    session = session_of(config)
    interval = session.settings.heartbeat
    if not interval or not private.is_on(config, "heartbeat") or (opened := private.terminal_copy(config)) is None:
        yield
        return

    started, stopped, reader = time.monotonic(), Event(), GroupReader(session.group)
    command = f"mlebench watch {shlex.quote(shown(session.group))}"

    def beat(write: Callable[[str], None]) -> None:
        while not stopped.wait(interval):
            with suppress(OSError, MLEBenchError):  # a full disk, or a terminal that is gone: the runs go on
                write(f"mlebench: {pulse(reader, time.monotonic() - started)}; {command}")

    with opened as write:
        thread = Thread(target=beat, args=(write,), daemon=True)
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
    workers = private.worker_count(config)
    words = ["pytest", f"--resume={shown(session_of(config).group)}", *(["-n", str(workers)] if workers > 1 else [])]
    return shlex.join(words)
