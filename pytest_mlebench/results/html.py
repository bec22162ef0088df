"""The runs in a report of pytest-html: summary and pictures on top, columns of the table, and details."""

from __future__ import annotations

from collections.abc import MutableSequence
from html import escape
from pathlib import Path

from pytest_mlebench.outcomes import outcome_of
from pytest_mlebench.quantities import format_score, format_seconds
from pytest_mlebench.results.facts import facts
from pytest_mlebench.results.group import RunGroupResults
from pytest_mlebench.results.record import OUTCOMES, RunRecord
from pytest_mlebench.results.untrusted import plain
from pytest_mlebench.sandbox.base import RUN_LOG
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


def summary(group: RunGroupResults) -> list[str]:
    """What comes on top."""
    # Jinja2 and the pictures, which starting pytest must not import.
    from pytest_mlebench.results.overview import overview
    from pytest_mlebench.results.page import fragment

    return [_STYLE, fragment(overview([group]))]


def header() -> list[str]:
    """The table's head."""
    return [f'<th class="sortable" data-column-type="{key}">{name}</th>' for key, name in _COLUMNS.items()]


def row(record: RunRecord) -> list[str]:
    """A run's cells, in the order of the head. What sorts as a number starts with a hidden key of fixed width."""
    report = record.report
    thresholds = {
        "gold": report.gold_threshold,
        "silver": report.silver_threshold,
        "bronze": report.bronze_threshold,
        "median": report.median_threshold,
    }
    percentile = report.percentile
    cells = {
        "medal": _key(f"{OUTCOMES.index(record.outcome):02d}") + outcome_of(record).category,
        "competition": _text(record.competition_id),
        "split": _text(record.split),
        "agent": _text(record.agent),
        "seed": _number(float(record.seed), str(record.seed)),
        "score": _number(record.score, format_score(record.score)),
        **{name: _number(value, format_score(value)) for name, value in thresholds.items()},
        "percentile": _number(percentile, "-" if percentile is None else f"{percentile:.0f}"),
        "time": _number(record.seconds, format_seconds(record.seconds)),
        "ended": _text(record.ending + (f" ({record.detail})" if record.detail else "")),
    }
    return [f'<td class="col-{key}">{cells[key]}</td>' for key in _COLUMNS]


def plain_row(name: str) -> list[str]:
    """Cells for what is no run: another test, or an error before the run began."""
    cells = {"medal": _key("99") + "-", "competition": _text(name)}
    return [f'<td class="col-{key}">{cells.get(key, "")}</td>' for key in _COLUMNS]


def details(record: RunRecord, run_dir: Path, data: MutableSequence[str]) -> None:
    """What unfolds behind a row: the grade, the checks the agent asked for, the end of its log."""
    lines = [f"{term:<12}{line}" for term, text in facts(record) for line in text.splitlines()]
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
