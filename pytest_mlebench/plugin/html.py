"""Runs in a pytest-html report: summary and plots at the top, table columns, and details.

These hooks are only registered if agents run, so that reports of other test suites are not changed.
"""

from __future__ import annotations

from collections.abc import MutableSequence
from contextlib import suppress
from html import escape
from typing import Any

import pytest

from pytest_mlebench.errors import UsageError
from pytest_mlebench.io.units import format_duration, format_score, plain
from pytest_mlebench.plugin.reporting import record_of, run_dir_of
from pytest_mlebench.plugin.session import session_of
from pytest_mlebench.records.record import RUN_LOG, RunRecord
from pytest_mlebench.reports.run_details import run_details
from pytest_mlebench.results.overview import overview
from pytest_mlebench.sandbox.redaction import tail

_NAMES = "Medal Competition Split Agent Seed Score Gold Silver Bronze Median Percentile Time"
_COLUMNS = {name.lower(): name for name in _NAMES.split()} | {"ended": "How it ended"}
_LOG_BYTES = 1 << 15
_STYLE = """<style>
body { max-width: none; color: #1f2933; display: flex; flex-direction: column; }
#environment-header, #environment { order: 1; align-self: flex-start; }
#results-table { color: #1f2933; }
#results-table td, #results-table th { white-space: nowrap; color: inherit; }
#results-table .col-result { color: inherit; }
</style>"""


def _row(record: RunRecord) -> dict[str, str]:
    """Return a run's cells. Numbers start with a hidden sort key of fixed width."""
    percentile = record.report.percentile
    return {
        "medal": _key(f"{record.outcome.rank:02d}") + record.outcome.label,
        "competition": _text(record.competition_id),
        "split": _text(record.split),
        "agent": _text(record.agent),
        "seed": _number(float(record.seed), str(record.seed)),
        "score": _number(record.score, format_score(record.score)),
        **{name: _number(value, format_score(value)) for name, value in record.thresholds.items()},
        "percentile": _number(percentile, "-" if percentile is None else f"{percentile:.0f}"),
        "time": _number(record.seconds, format_duration(record.seconds)),
        "ended": _text(record.ending + (f" ({record.detail})" if record.detail else "")),
    }


def _text(text: str) -> str:
    return escape(plain(text))


def _key(text: str) -> str:
    return f"<span hidden>{text}</span>"


def _number(value: float | None, shown: str) -> str:
    # pytest-html sorts by text, so the key is an integer in millionths, offset to be positive, with leading zeros.
    key = "~" if value is None else f"{round(max(-1e11, min(value, 1e11)) * 10**6) + 10**17:018d}"
    return _key(key) + shown


class MedalReport:
    """Hooks that add medals to a pytest-html report."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_report_title(self, report: Any) -> None:
        report.title = "MLE-bench"

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_results_summary(self, prefix: MutableSequence[str]) -> None:
        reader = session_of(self._config).reader
        assert reader is not None
        with suppress(UsageError):  # no run exists yet
            from pytest_mlebench.reports.page import fragment  # imports Jinja2 and the plots

            prefix.extend([_STYLE, fragment(overview([reader.read()]))])

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_results_table_header(self, cells: MutableSequence[str]) -> None:
        # Keep the first column: pytest-html filters by its result.
        cells[1:] = [f'<th class="sortable" data-column-type="{key}">{name}</th>' for key, name in _COLUMNS.items()]

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_results_table_row(self, report: Any, cells: MutableSequence[str]) -> None:
        # Without a record, this is an unrelated test or an error before the run started.
        record = record_of(self._config, report)
        row = _row(record) if record else {"medal": _key("99") + "-", "competition": _text(report.nodeid)}
        cells[1:] = [f'<td class="col-{key}">{row.get(key, "")}</td>' for key in _COLUMNS]

    @pytest.hookimpl(optionalhook=True)
    def pytest_html_results_table_html(self, report: Any, data: MutableSequence[str]) -> None:
        """Set the details of a row: the grade, the agent's submission checks, and the end of its log."""
        if record := record_of(self._config, report):
            run_dir = run_dir_of(report)
            lines = [f"{term:<12}{line}" for term, text in run_details(record) for line in text.splitlines()]
            lines += [f"{'directory':<12}{run_dir}", " end of the agent's log ".center(80, "-")]
            lines.append(tail(run_dir / RUN_LOG, lines=200, max_bytes=_LOG_BYTES))
            data[:] = [_text("\n".join(lines))]
