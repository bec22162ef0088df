"""Runs in a report of pytest-html: summary and plots on top, columns of the table, and details."""

from __future__ import annotations

from collections.abc import MutableSequence
from html import escape
from pathlib import Path

from pytest_mlebench.io.units import format_duration, format_score
from pytest_mlebench.records.group import RunGroup
from pytest_mlebench.records.layout import RUN_LOG
from pytest_mlebench.records.record import RunRecord
from pytest_mlebench.reports.run_details import run_details
from pytest_mlebench.reports.untrusted import plain
from pytest_mlebench.sandbox.logs import tail

_COLUMNS = {
    "medal": "Medal",
    "competition": "Competition",
    "split": "Split",
    "agent": "Agent",
    "seed": "Seed",
    "score": "Score",
    "gold": "Gold",
    "silver": "Silver",
    "bronze": "Bronze",
    "median": "Median",
    "percentile": "Percentile",
    "time": "Time",
    "ended": "How it ended",
}
_LOG_BYTES = 1 << 15
_STYLE = """<style>
body { max-width: none; color: #1f2933; display: flex; flex-direction: column; }
#environment-header, #environment { order: 1; align-self: flex-start; }
#results-table { color: #1f2933; }
#results-table td, #results-table th { white-space: nowrap; color: inherit; }
#results-table .col-result { color: inherit; }
</style>"""


def summary(group: RunGroup) -> list[str]:
    """The parts above the table."""
    # Jinja2 and the plots, which starting pytest must not import.
    from pytest_mlebench.reports.page import fragment
    from pytest_mlebench.results.overview import overview

    return [_STYLE, fragment(overview([group]))]


def header() -> list[str]:
    """The table's header."""
    return [f'<th class="sortable" data-column-type="{key}">{name}</th>' for key, name in _COLUMNS.items()]


def row(record: RunRecord) -> list[str]:
    """A run's cells, in the order of the header. A number starts with a hidden sort key of fixed width."""
    percentile = record.report.percentile
    cells = {
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
    return [f'<td class="col-{key}">{cells[key]}</td>' for key in _COLUMNS]


def plain_row(name: str) -> list[str]:
    """Cells of a row that is not a run: another test, or an error before the run began."""
    cells = {"medal": _key("99") + "-", "competition": _text(name)}
    return [f'<td class="col-{key}">{cells.get(key, "")}</td>' for key in _COLUMNS]


def details(record: RunRecord, run_dir: Path, data: MutableSequence[str]) -> None:
    """What a row expands to: the grade, the agent's validations, the end of its log."""
    lines = [f"{term:<12}{line}" for term, text in run_details(record) for line in text.splitlines()]
    lines += [f"{'directory':<12}{run_dir}", " end of the agent's log ".center(80, "-")]
    lines.append(tail(run_dir / RUN_LOG, lines=200, max_bytes=_LOG_BYTES))
    data[:] = [_text("\n".join(lines))]


def _text(text: str) -> str:
    return escape(plain(text))


def _key(text: str) -> str:
    return f"<span hidden>{text}</span>"


def _number(value: float | None, shown: str) -> str:
    # The table sorts by text: whole millionths, shifted to be positive, with as many digits for each.
    key = "~" if value is None else f"{round(max(-1e11, min(value, 1e11)) * 10**6) + 10**17:018d}"
    return _key(key) + shown
