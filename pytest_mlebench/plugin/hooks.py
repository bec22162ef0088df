"""Hooks that are registered in every session. Each one only delegates to the module that does the work.

pytest imports this module at every start, also in unrelated projects, so heavy imports are deferred until needed.
Sessions that run agents also register the hooks in ``group``, and those that choose competitions two in ``collection``.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_mlebench.plugin import session as state
from pytest_mlebench.plugin.fixtures import *  # noqa: F403 - pytest finds them here

if TYPE_CHECKING:
    from pytest_mlebench.io.progress import Event
    from pytest_mlebench.plugin.collection import CompetitionFile


def pytest_addoption(parser: pytest.Parser) -> None:
    state.add_ini_keys(parser)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser
) -> Generator[None, object, object]:
    state.refuse_paths(early_config)
    try:
        return (yield)
    finally:  # all other plugins and conftests have added their options by now
        state.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    def report(event: Event) -> None:
        from pytest_mlebench.plugin.reporting import reporter_of

        reporter_of(config)(event)

    state.configure(config, report)
    if config.option.help:
        return
    if state.settings_of(config).has_runs:
        from pytest_mlebench.plugin import group

        group.start(config)
        return
    state.check_options(config)
    if config.option.markers or state.chooses(config):
        from pytest_mlebench.plugin import collection

        collection.start(config)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    from pytest_mlebench.plugin import group

    group.register(config)


def pytest_report_header(config: pytest.Config) -> list[str]:
    return state.header(config)


@pytest.hookimpl(tryfirst=True)
def pytest_ignore_collect(collection_path: Path) -> bool | None:
    return state.is_ignored(collection_path) or None


def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    return state.Leavings.from_parent(parent, path=path) if state.is_ignored(path) else None


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> CompetitionFile | None:
    if file_path.name != "competition.yaml":
        return None
    from pytest_mlebench.plugin.collection import CompetitionFile

    return CompetitionFile.of(file_path, parent)


@pytest.hookimpl(tryfirst=True)  # before an xdist worker sends its node ids
def pytest_collection_finish(session: pytest.Session) -> None:
    runs_tests = not session.config.option.collectonly
    uses_marks = runs_tests and any(item.get_closest_marker("competition") for item in session.items)
    if uses_marks or state.settings_of(session.config).has_runs:
        from pytest_mlebench.plugin import group

        group.collection_finished(session)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if state.is_ours(item):
        from pytest_mlebench.plugin import reporting

        reporting.attach(item, report)
        reporting.mask(item, report)
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(
    report: pytest.TestReport, config: pytest.Config
) -> tuple[str, str, tuple[str, Mapping[str, bool]]] | None:
    if not hasattr(report, state.ATTACHED):
        return None
    from pytest_mlebench.plugin import reporting

    return reporting.status(config, report)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config) -> None:
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and (state.offered(config) or config.option.markexpr):
        from pytest_mlebench.plugin.collection import explain_nothing

        explain_nothing(terminalreporter, config)
