"""Every hook of pytest-mlebench. This is a table of contents: what a hook does is in the module that it imports.

pytest imports this module at every start, in unrelated projects too, so nothing else is imported before it is needed.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

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
    from pytest_mlebench.plugin import options

    options.add_ini_keys(parser)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(parser: pytest.Parser) -> Generator[None, object, object]:
    from pytest_mlebench.plugin import options

    try:
        return (yield)
    finally:  # all other plugins and conftests have their names by now
        options.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    from pytest_mlebench.plugin import session

    session.configure(config)


@pytest.hookimpl(tryfirst=True)  # before xdist starts its workers
def pytest_sessionstart(session: pytest.Session) -> None:
    from pytest_mlebench.plugin import group

    group.open_group(session.config)


def pytest_report_header(config: pytest.Config) -> list[str]:
    from pytest_mlebench.plugin import reporting

    return reporting.header(config)


def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    from pytest_mlebench.plugin import session

    if not session.ways_below(parent.config, path):
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
    from pytest_mlebench.plugin import session

    session.prefer_the_benchmark(config, items)


@pytest.hookimpl(tryfirst=True)  # before an xdist worker sends its node ids
def pytest_collection_finish(session: pytest.Session) -> None:
    from pytest_mlebench.plugin import planning

    planning.collection_finished(session)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    from pytest_mlebench.plugin import planning

    planning.configure_worker(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any) -> None:
    from pytest_mlebench.plugin import planning

    planning.worker_collection_finished(node)


@pytest.hookimpl(tryfirst=True)  # before pytest's own
def pytest_runtestloop(session: pytest.Session) -> object | None:
    from pytest_mlebench.plugin.session import session_of

    if session_of(session.config).settings.cluster is None:
        return None
    from pytest_mlebench.plugin import cluster

    return cluster.loop(session)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    from pytest_mlebench.plugin import reporting

    report = yield
    reporting.attach(item, report)
    reporting.mask(item, report)
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(
    report: pytest.TestReport, config: pytest.Config
) -> tuple[str, str, tuple[str, Mapping[str, bool]]] | None:
    from pytest_mlebench.plugin import reporting

    return reporting.status(config, report)


def pytest_sessionfinish(session: pytest.Session) -> None:
    from pytest_mlebench.plugin import group

    group.close_group(session.config)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config) -> None:
    from pytest_mlebench.plugin import reporting

    reporting.summarise(terminalreporter, config)
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        reporting.explain_nothing(terminalreporter, config)
