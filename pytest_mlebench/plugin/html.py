"""pytest-html's hooks; registered where agents run, so that reports of other suites stay as they are."""

from __future__ import annotations

from collections.abc import MutableSequence
from contextlib import suppress
from typing import Any

import pytest

from pytest_mlebench.errors import UsageError
from pytest_mlebench.plugin.reporting import record_of, run_dir_of
from pytest_mlebench.plugin.session import session_of
from pytest_mlebench.reports import pytest_html


class MedalReport:
    """A report of medals: columns, details, and tables and plots on top."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_report_title(self, report: Any) -> None:
        report.title = "MLE-bench"

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_results_summary(self, prefix: MutableSequence[str]) -> None:
        reader = session_of(self._config).reader
        assert reader is not None
        with suppress(UsageError):  # there is no run yet
            prefix.extend(pytest_html.summary(reader.read()))

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_results_table_header(self, cells: MutableSequence[str]) -> None:
        cells[1:] = pytest_html.header()  # the first, pytest-html's own result, is what its filters go by

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_results_table_row(self, report: Any, cells: MutableSequence[str]) -> None:
        record = record_of(self._config, report)
        cells[1:] = pytest_html.row(record) if record else pytest_html.plain_row(report.nodeid)

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_results_table_html(self, report: Any, data: MutableSequence[str]) -> None:
        if record := record_of(self._config, report):
            pytest_html.details(record, run_dir_of(report), data)
