"""Extras, and other packages, that are told of runs as they end.

Entry points of the group ``mlebench.live`` are functions ``(settings, group folder) -> Live | None``; None where the
user did not ask for it. They are called in the session's own process, and raise UsageError.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from pytest_mlebench.errors import UsageError
from pytest_mlebench.io.extensions import extensions, load_extension
from pytest_mlebench.io.progress import WarningNote
from pytest_mlebench.plugin.events import reporter_of
from pytest_mlebench.plugin.reporting import record_of, run_dir_of
from pytest_mlebench.plugin.session import session_of, usage_errors
from pytest_mlebench.reports.untrusted import plain

if TYPE_CHECKING:
    from pytest_mlebench.records.record import RunRecord

LIVE = "mlebench.live"


class Live(Protocol):
    """What follows a session. No method may raise, and only ``close`` may take time."""

    def ended(self, record: RunRecord, run_dir: Path) -> None:
        """A run has ended, whose record is written."""

    def warnings(self) -> Iterator[str]:
        """What the user should know, each thing once."""

    def close(self) -> str:
        """The session has ended: finish within seconds. Returns a line for the summary, or an empty text."""


class LiveRuns:
    """The plugin of pytest that tells them."""

    def __init__(self, config: pytest.Config, live: list[Live]) -> None:
        self._config, self._live = config, live
        self._lines: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        record = record_of(self._config, report)
        known = None if record is None else session_of(self._config).finished.get(record.key)
        if record is not None and (known is None or known.run_id != record.run_id):
            for own in self._live:
                own.ended(record, run_dir_of(report))
        self._warn()

    def pytest_sessionfinish(self) -> None:
        self._lines = [line for own in self._live if (line := own.close())]
        self._warn()
        self._live = []

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        for line in self._lines:
            terminalreporter.write_line(plain(f"mlebench: {line}"))

    def _warn(self) -> None:
        for own in self._live:
            for text in own.warnings():
                reporter_of(self._config)(WarningNote(text))


def follow(config: pytest.Config) -> None:
    """Tell all that the user asked for; raises pytest.UsageError."""
    session = session_of(config)
    with usage_errors():
        if session.settings.otlp is not None and "otlp" not in extensions(LIVE):
            raise UsageError("--otlp needs the extra interop, which this installation of pytest-mlebench lacks")
        makers = [load_extension(LIVE, name) for name in extensions(LIVE)]
        live = [own for make in makers if make is not None and (own := make(session.settings, session.group))]
    if live:
        config.pluginmanager.register(LiveRuns(config, live), "mlebench-live")
