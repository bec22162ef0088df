"""The hooks of every session. Each one only calls the module that does the work.

pytest imports this module at every start, in unrelated projects too: nothing heavy is imported before it is needed.
Sessions that run agents also have the hooks in ``group``; those that choose competitions, two in ``collection``.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_mlebench.plugin import session as own
from pytest_mlebench.plugin.fixtures import *  # noqa: F403 - pytest takes them from here

if TYPE_CHECKING:
    from pytest_mlebench.io.progress import Event
    from pytest_mlebench.plugin.collection import CompetitionFile


def pytest_addoption(parser: pytest.Parser) -> None:
    own.add_ini_keys(parser)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser
) -> Generator[None, object, object]:
    own.refuse_paths(early_config)
    try:
        return (yield)
    finally:  # all other plugins and conftests have their names by now
        own.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    def report(event: Event) -> None:
        from pytest_mlebench.plugin.reporting import reporter_of

        reporter_of(config)(event)

    own.configure(config, report)
    if config.option.help:
        return
    if own.settings_of(config).has_runs:
        from pytest_mlebench.plugin import group

        group.start(config)
        return
    own.check_options(config)
    if config.option.markers or own.chooses(config):
        from pytest_mlebench.plugin import collection

        collection.start(config)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    from pytest_mlebench.plugin import group

    group.register(config)


def pytest_report_header(config: pytest.Config) -> list[str]:
    return own.header(config)


@pytest.hookimpl(tryfirst=True)
def pytest_ignore_collect(collection_path: Path) -> bool | None:
    return own.is_ignored(collection_path) or None


def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    return own.Leavings.from_parent(parent, path=path) if own.is_ignored(path) else None


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> CompetitionFile | None:
    if file_path.name != "competition.yaml":
        return None
    from pytest_mlebench.plugin.collection import CompetitionFile

    return CompetitionFile.of(file_path, parent)


@pytest.hookimpl(tryfirst=True)  # before an xdist worker sends its node ids
def pytest_collection_finish(session: pytest.Session) -> None:
    runs_tests = not session.config.option.collectonly
    looks = runs_tests and any(item.get_closest_marker("competition") for item in session.items)
    if looks or own.settings_of(session.config).has_runs:
        from pytest_mlebench.plugin import group

        group.collection_finished(session)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if own.is_ours(item):
        from pytest_mlebench.plugin import reporting

        reporting.attach(item, report)
        reporting.mask(item, report)
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(
    report: pytest.TestReport, config: pytest.Config
) -> tuple[str, str, tuple[str, Mapping[str, bool]]] | None:
    if not hasattr(report, own.ATTACHED):
        return None
    from pytest_mlebench.plugin import reporting

    return reporting.status(config, report)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config) -> None:
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and (own.offered(config) or config.option.markexpr):
        from pytest_mlebench.plugin.collection import explain_nothing

        explain_nothing(terminalreporter, config)
