"""Every hook of pytest-mlebench. This is a table of contents: what a hook does is in the module that it imports.

pytest imports this module at every start, in unrelated projects too: nothing heavy is imported before it is needed.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_mlebench.plugin import options
from pytest_mlebench.plugin import session as own
from pytest_mlebench.plugin.fixtures import (
    agent,
    competition,
    data_store,
    dataset,
    grade_submission,
    run_agent,
    run_group,
    sandbox,
    synthetic_dataset,
    synthetic_grades,
)

if TYPE_CHECKING:
    from pytest_mlebench.io.progress import Event
    from pytest_mlebench.plugin.collection import CompetitionFile

__all__ = [
    "agent",
    "competition",
    "data_store",
    "dataset",
    "grade_submission",
    "run_agent",
    "run_group",
    "sandbox",
    "synthetic_dataset",
    "synthetic_grades",
]


def pytest_addoption(parser: pytest.Parser) -> None:
    options.add_ini_keys(parser)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser
) -> Generator[None, object, object]:
    own.refuse_paths(early_config)
    try:
        return (yield)
    finally:  # all other plugins and conftests have their names by now
        options.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    def report(event: Event) -> None:
        from pytest_mlebench.plugin.reporting import reporter_of

        reporter_of(config)(event)

    own.configure(config, report)
    if config.option.help:
        return
    if config.option.markers:
        from pytest_mlebench.plugin.collection import list_markers

        list_markers(config)
    if not own.chooses(config):
        own.check_options(config)
        return
    if own.session_of(config).settings.has_runs:
        from pytest_mlebench.plugin.group import start

        start(config)
    own.check_options(config)
    if own.hands_over(config):
        with own.usage_errors():
            own.engines().check(config)
    from pytest_mlebench.plugin.collection import choose_paths

    choose_paths(config)
    if own.wants_html(config):
        from pytest_mlebench.plugin.html import MedalReport

        config.pluginmanager.register(MedalReport(config), "mlebench-html")
    if own.writes_group(config):
        from pytest_mlebench.plugin.reporting import follow

        follow(config)


@pytest.hookimpl(tryfirst=True)  # before xdist starts its workers
def pytest_sessionstart(session: pytest.Session) -> None:
    if own.session_of(session.config).settings.has_runs:
        from pytest_mlebench.plugin import group

        group.open_group(session.config)


def pytest_report_header(config: pytest.Config) -> list[str]:
    if not own.session_of(config).settings.has_runs:
        return own.header(config)
    from pytest_mlebench.plugin import reporting

    return reporting.header(config)


@pytest.hookimpl(tryfirst=True)
def pytest_ignore_collect(collection_path: Path) -> bool | None:
    return own.is_ignored(collection_path) or None


def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if own.is_ignored(path):
        return own.Leavings.from_parent(parent, path=path)
    if not own.ways_below(parent.config, path):
        return None
    from pytest_mlebench.plugin.collection import ChosenFolder

    return ChosenFolder.from_parent(parent, path=path)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> CompetitionFile | None:
    if file_path.name != "competition.yaml":
        return None
    from pytest_mlebench.plugin.collection import CompetitionFile

    return CompetitionFile.of(file_path, parent)


@pytest.hookimpl(trylast=True)  # when -k and -m have chosen
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if own.prefers_benchmark(config):
        from pytest_mlebench.plugin.collection import prefer_the_benchmark

        prefer_the_benchmark(items)


@pytest.hookimpl(tryfirst=True)  # before an xdist worker sends its node ids
def pytest_collection_finish(session: pytest.Session) -> None:
    looks = not session.config.option.collectonly and any(map(own.has_competition, session.items))
    if looks or own.session_of(session.config).settings.has_runs:
        from pytest_mlebench.plugin import group

        group.collection_finished(session)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    from pytest_mlebench.plugin import group

    group.configure_worker(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any) -> None:
    from pytest_mlebench.plugin import group

    group.worker_collection_finished(node)


@pytest.hookimpl(tryfirst=True)  # before pytest's own
def pytest_runtestloop(session: pytest.Session) -> object | None:
    return None if own.session_of(session.config).settings.cluster is None else own.engines().loop(session)


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


def pytest_sessionfinish(session: pytest.Session) -> None:
    if own.session_of(session.config).settings.has_runs:
        from pytest_mlebench.plugin import group

        group.close_group(session.config)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config) -> None:
    if own.writes_group(config):
        from pytest_mlebench.plugin.reporting import summarise

        summarise(terminalreporter, config)
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and (own.offered(config) or config.option.markexpr):
        from pytest_mlebench.plugin.collection import explain_nothing

        explain_nothing(terminalreporter, config)
