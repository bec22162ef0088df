"""Every pytest hook of pytest-mlebench, and nothing else: what they do is in the rooms behind."""

from __future__ import annotations

from collections.abc import Generator, Mapping, MutableSequence, Sequence
from pathlib import Path
from typing import Any

import pytest

from pytest_mlebench import datasets
from pytest_mlebench import session as medals
from pytest_mlebench.catalog.competition import FILE_NAME
from pytest_mlebench.fixtures import (
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
from pytest_mlebench.items import CompetitionFile
from pytest_mlebench.options import add_options

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
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    medals.configure(config)
    if medals.wants_html(config):
        config.pluginmanager.register(MedalReport(), "mlebench-medal-report")


@pytest.hookimpl(tryfirst=True)  # before xdist starts its workers
def pytest_sessionstart(session: pytest.Session) -> None:
    medals.open_run_group(session.config)


def pytest_report_header(config: pytest.Config) -> list[str]:
    return medals.header(config)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> CompetitionFile | None:
    return CompetitionFile.of(file_path, parent) if file_path.name == FILE_NAME else None


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    medals.tell_worker(node)


@pytest.hookimpl(trylast=True)  # when -k and -m have chosen
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    medals.prefer_the_benchmark(config, items)


@pytest.hookimpl(trylast=True)  # when all are chosen that shall run
def pytest_collection_finish(session: pytest.Session) -> None:
    medals.plan(session.config, [item.nodeid for item in session.items])
    datasets.check_items(session)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any, ids: Sequence[str]) -> None:
    medals.plan(node.config, ids)
    datasets.check_ids(node.config, ids)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    medals.attach_record(item, report)
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, tuple[str, Mapping[str, bool]]] | None:
    return medals.status(report)


def pytest_sessionfinish(session: pytest.Session) -> None:
    medals.finish(session)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    medals.summarise(terminalreporter, config)


class MedalReport:
    """pytest-html's hooks; registered where agents run, so that reports of other suites stay as they are."""

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_report_title(self, report: Any) -> None:
        report.title = "MLE-bench"

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_results_summary(self, prefix: MutableSequence[str], session: pytest.Session) -> None:
        medals.html_summary(prefix, session)

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_results_table_header(self, cells: MutableSequence[str]) -> None:
        medals.html_header(cells)

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_results_table_row(self, report: Any, cells: MutableSequence[str]) -> None:
        medals.html_row(report, cells)

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_results_table_html(self, report: Any, data: MutableSequence[str]) -> None:
        medals.html_details(report, data)
