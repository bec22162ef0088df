"""A session's output: header, outcome of each run, failed runs and medal table; also notifies live listeners.

Entry points of the group ``mlebench.live`` are functions ``(settings, group folder) -> Live | None``. They return None
if the user did not request them, are called in the session's process, and may raise UsageError.

An xdist worker sends its events to the controller, which shows and logs them.
"""

from __future__ import annotations

import os
import shlex
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import pytest

from pytest_mlebench.errors import MLEBenchError, UsageError
from pytest_mlebench.io.extensions import extensions, load_extension, not_installed
from pytest_mlebench.io.progress import ThrottledReporter, WarningNote, event_from_json, event_to_json
from pytest_mlebench.io.units import inert, plain, pluralize
from pytest_mlebench.plugin import internals
from pytest_mlebench.plugin import session as state
from pytest_mlebench.records.group import GroupReader, log_event
from pytest_mlebench.records.outcome import FAILURES, Outcome
from pytest_mlebench.reports.palette import terminal_markup
from pytest_mlebench.reports.progress import Lines, pulse, write_medal_table
from pytest_mlebench.reports.run_details import properties
from pytest_mlebench.sandbox.redaction import Redactor

if TYPE_CHECKING:
    from pytest_mlebench.io.progress import Event, Reporter
    from pytest_mlebench.records.record import RunRecord


_REPORTER: pytest.StashKey[Reporter] = pytest.StashKey()
_LINES: pytest.StashKey[Lines] = pytest.StashKey()
_show_lock = threading.Lock()  # events of workers arrive in another thread


def reporter_of(config: pytest.Config) -> Reporter:
    if _REPORTER not in config.stash:
        reporter: Reporter = ThrottledReporter(partial(_send if state.is_worker(config) else _show, config))
        config.stash[_REPORTER] = reporter
    return config.stash[_REPORTER]


def receive(config: pytest.Config, worker: str, values: dict[str, Any]) -> None:
    """In xdist's controller: show and log an event from a worker."""
    _show(config, event_from_json(values), worker)


def _send(config: pytest.Config, event: Event) -> None:
    internals.send_to_controller(config, ("event", event_to_json(event)))


def _show(config: pytest.Config, event: Event, worker: str = "") -> None:
    with _show_lock:
        if _LINES not in config.stash:
            config.stash[_LINES] = Lines(lambda line: internals.write_line(config, f"mlebench: {line}"))
        config.stash[_LINES](event)
        session = state.session_of(config)
        if session.reader is not None and session.group.is_dir():
            with suppress(OSError):  # for example a full disk; the event has been shown
                log_event(session.group, event, worker)


class Interruption:
    """On Ctrl-C, announces that workers are stopping their agents, and hides the interrupted line of code."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(trylast=True)
    def pytest_keyboard_interrupt(self) -> None:
        internals.name_interrupt(self._config, "interrupted")
        if internals.has_workers(self._config):
            internals.write_line(self._config, "mlebench: stopping: ending agents and collecting their files")


@contextmanager
def heartbeat(config: pytest.Config) -> Iterator[None]:
    """Context manager: write a status line about the run group every ``--heartbeat``, even while a test runs."""
    session = state.session_of(config)
    interval = session.settings.heartbeat
    started, stopped, reader = time.monotonic(), threading.Event(), GroupReader(session.group)
    command = f"mlebench watch {shlex.quote(shown(session.group))}"

    def beat(write: Callable[[str], None]) -> None:
        while not stopped.wait(interval):
            with suppress(OSError, MLEBenchError):  # a full disk or closed terminal must not stop the runs
                write(f"mlebench: {pulse(reader, time.monotonic() - started)}; {command}")

    with internals.terminal_copy(config) as write:
        thread = threading.Thread(target=beat, args=(write,), daemon=True)
        if interval and write is not None and internals.is_on(config, "heartbeat"):
            thread.start()
        try:
            yield
        finally:
            stopped.set()
            if thread.is_alive():
                thread.join()


def shown(folder: Path) -> str:
    """Return a folder's path as the user would type it: relative to the current folder if possible."""
    here = Path.cwd()
    return str(folder.relative_to(here) if folder.is_relative_to(here) else folder)


def resume_command(config: pytest.Config) -> str:
    """Return the command that resumes this session's run group."""
    words = ["pytest", f"--resume={shown(state.session_of(config).group)}"]
    if (workers := internals.worker_count(config)) > 1:
        words += ["-n", str(workers)]
    return shlex.join(words)


_Value = TypeVar("_Value")
_RERUN = "rerun"
"""Outcome of a failed attempt that pytest-rerunfailures repeats. Only the last attempt counts."""


def header(config: pytest.Config) -> list[str]:
    session = state.session_of(config)
    agents = ", ".join(agent.id for agent in session.agents)
    lines = [f"mlebench: {agents}, sandbox {session.settings.sandbox}, run group {session.group}"]
    if session.finished:
        count = len(session.finished)
        words = "is finished; it is" if count == 1 else "are finished; they are"
        lines.append(f"mlebench: {pluralize(count, 'run')} of this group {words} not rerun")
    if session.settings.until == "limit":
        lines += [
            f"mlebench: --until=limit has no effect for {agent.id}: no file in its folder reads $UNTIL or calls ask.sh"
            for agent in session.agents
            if not agent.reads_until
        ]
    return lines + [f"mlebench: {text}" for text in _unused_grants(session, state.given_options(config))]


def _unused_grants(session: state.Session, given: AbstractSet[str]) -> Iterator[str]:
    """Yield warnings about permissions on the command line that no agent of the session uses."""
    settings, ids = session.settings, {agent.id for agent in session.agents}
    requested = {name for agent in session.agents for name in agent.secret_names}
    if "--trust-agent" in given:
        for id in sorted({*settings.trust_agents} - ids):
            yield f"--trust-agent={id} has no effect: this session runs {', '.join(sorted(ids))}"
    if "--allow-secret" in given:
        for name in sorted({*settings.allow_secrets} - requested):
            yield f"--allow-secret={name} has no effect: no agent of this session requests it in its config.yaml"


def note_run(item: pytest.Item, record: RunRecord, *, again: bool) -> None:
    """Add a run's properties to JUnit, JSON and Allure reports.

    With ``again``, they replace those of an earlier attempt at the same run.
    """

    # record_property would warn about JUnit's default family, although the properties are written.
    values = properties(record)
    if again:
        names = {name for name, _ in values}
        item.user_properties[:] = [other for other in item.user_properties if other[0] not in names]
    item.user_properties.extend(values)
    if internals.is_on(item.config, "allure"):
        internals.add_to_allure(item.config, values)


def attach(item: pytest.Item, report: pytest.TestReport) -> None:
    """Attach the data in an item's stash to its report."""
    skipped = {"not_prepared": state.NOT_PREPARED, "not_run": state.NOT_RUN}
    attached: dict[str, Any] = {name: item.stash[key] for name, key in skipped.items() if key in item.stash}
    if report.when == "call" and (error := _pop(item, state.HARNESS_ERROR)) is not None:
        attached["harness_error"] = error
    if report.when == "call" and (record := _pop(item, state.RECORD)) is not None:
        session = state.session_of(item.config)
        assert session.reader is not None
        session.reader.add(record)
        attached |= {"record": record.to_json(), "run_dir": str(session.group / record.run_id)}
    if attached:
        setattr(report, state.ATTACHED, attached)


def _pop(item: pytest.Item, key: pytest.StashKey[_Value]) -> _Value | None:
    """Remove and return a value from an item's stash, so that another attempt starts without it."""
    value = item.stash.get(key, None)
    if value is not None:
        del item.stash[key]
    return value


def mask(item: pytest.Item, report: pytest.TestReport) -> None:
    """Mask the agents' secrets in a failure: tracebacks with ``-l`` and captured logs may contain them.

    Workflow commands for CI systems in agents' output are also disabled.
    """
    agents = state.session_of(item.config).agents
    if not agents:
        return

    names = [] if report.passed else [name for agent in agents for name in agent.secret_names]
    redactor = Redactor(filter(None, map(os.environ.get, names)))

    def masked(text: str) -> str:
        return inert(redactor.text(text))

    if isinstance(report.longrepr, tuple):  # of a skipped test
        path, line, why = report.longrepr
        report.longrepr = (path, line, masked(why))
    elif not report.passed and (text := masked(report.longreprtext)) != report.longreprtext:
        report.longrepr = text
    report.sections = [(title, masked(text)) for title, text in report.sections]


def record_of(config: pytest.Config, report: Any) -> RunRecord | None:
    """Return the record attached to a report."""
    values, reader = getattr(report, state.ATTACHED, {}).get("record"), state.session_of(config).reader
    return reader.received(values) if values is not None and reader is not None else None


def run_dir_of(report: Any) -> Path:
    return Path(getattr(report, state.ATTACHED)["run_dir"])


def status(config: pytest.Config, report: pytest.TestReport) -> tuple[str, str, tuple[str, Mapping[str, bool]]] | None:
    """Return category, letter and coloured word for a run's report; None for other reports."""
    attached = getattr(report, state.ATTACHED, {})
    if not attached.keys() & {"record", "harness_error"} or report.outcome == _RERUN:
        return None

    record = record_of(config, report)
    outcome = Outcome.error if record is None else record.outcome
    if outcome.passed and report.failed:  # below --min-medal
        return "failed", "F", (f"FAILED ({outcome.label})", {"red": True})
    return outcome.label, outcome.letter, (outcome.label.upper(), terminal_markup(outcome.colour))


def summarise(reporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the failed runs, then the medal table."""
    if not state.writes_group(config):
        return

    skipped = [getattr(report, state.ATTACHED, {}) for report in internals.reports_of(reporter, ["skipped"])]
    for key, title in (("not_prepared", "not prepared"), ("not_run", "not run")):
        if reasons := sorted({attached[key] for attached in skipped if key in attached}):
            reporter.write_sep("=", title)
            for reason in reasons:
                reporter.write_line(plain(reason))
    labels = [outcome.label for outcome in FAILURES if outcome is not Outcome.error]  # pytest prints errors itself
    failed = list(internals.reports_of(reporter, labels))
    if failed and config.option.tbstyle != "no":
        reporter.write_sep("=", "failed runs")
        for report in failed:
            reporter.write_sep("_", report.nodeid, red=True)
            reporter.write_line(report.longreprtext)
    group_reader = state.session_of(config).reader
    assert group_reader is not None
    if not group_reader.folder.is_dir():  # there was nothing to run
        return
    try:
        if (group := group_reader.read()).records:
            write_medal_table(reporter, group)
        if unfinished := len(group.planned - group.runs.keys()):
            runs = pluralize(len(group.planned), "run")
            reporter.write_line(f"not finished: {unfinished} of {runs}; resume: {resume_command(config)}", yellow=True)
    except UsageError as error:
        reporter.write_line(plain(f"no medal table: {error}"))


LIVE = "mlebench.live"


class Live(Protocol):
    """A listener that follows a session. Methods must not raise, and only ``close`` may block."""

    def ended(self, record: RunRecord, run_dir: Path) -> None:
        """Called when a run has ended and its record is written."""

    def warnings(self) -> Iterator[str]:
        """Yield new warnings for the user, each only once."""

    def close(self) -> str:
        """Called at the end of the session; must return within seconds: a line for the summary, or an empty string."""


class LiveRuns:
    """The pytest plugin that notifies the listeners."""

    def __init__(self, config: pytest.Config, live: list[Live]) -> None:
        self._config, self._live = config, live
        self._lines: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        record = record_of(self._config, report)
        known = None if record is None else state.session_of(self._config).finished.get(record.key)
        if record is not None and (known is None or known.run_id != record.run_id):
            for live in self._live:
                live.ended(record, run_dir_of(report))
        self._warn()

    def pytest_sessionfinish(self) -> None:
        self._lines = [line for live in self._live if (line := live.close())]
        self._warn()
        self._live = []

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        for line in self._lines:
            terminalreporter.write_line(plain(f"mlebench: {line}"))

    def _warn(self) -> None:
        for live in self._live:
            for text in live.warnings():
                reporter_of(self._config)(WarningNote(text))


def follow(config: pytest.Config) -> None:
    """Start the live listeners that the user requested; raises pytest.UsageError."""
    session = state.session_of(config)
    with state.usage_errors():
        if session.settings.otlp is not None and "otlp" not in extensions(LIVE):
            raise UsageError(not_installed("--otlp"))
        factories = [load_extension(LIVE, name) for name in extensions(LIVE)]
        created = [factory(session.settings, session.group) for factory in factories if factory is not None]
    live = [listener for listener in created if listener is not None]
    if live:
        config.pluginmanager.register(LiveRuns(config, live), "mlebench-live")
