"""The medal report in HTML: columns, summary and details that pytest-html puts on one page."""

from __future__ import annotations

from collections.abc import MutableSequence
from html import escape
from pathlib import Path

from pytest_mlebench.outcomes import BY_NAME, outcome_of
from pytest_mlebench.quantities import format_seconds
from pytest_mlebench.results.group import RunGroupResults
from pytest_mlebench.results.record import OUTCOMES, RunRecord
from pytest_mlebench.results.summary import summarise
from pytest_mlebench.results.terminal import format_score
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
_COLOURS = {
    "gold": "#b8860b",
    "silver": "#6b7280",
    "bronze": "#a0522d",
    "above_median": "#15803d",
    "no_medal": "#374151",
}
_LOG_BYTES = 1 << 15
STYLE = """<style>
body { max-width: none; color: #1f2933; display: flex; flex-direction: column; }
#environment-header, #environment { order: 1; align-self: flex-start; }
#results-table { color: #1f2933; }
#results-table td, #results-table th { white-space: nowrap; color: inherit; }
#results-table .col-result { color: inherit; }
.medals { border-collapse: collapse; margin: 1em 0; }
.medals th, .medals td { border: 1px solid #d1d5db; padding: .3em .7em; text-align: right; }
.medals th:first-child, .medals td:first-child, .medals th:nth-child(2), .medals td:nth-child(2) { text-align: left; }
.medals .rate, .medal { font-weight: bold; }
</style>"""


def header() -> list[str]:
    """The table's head."""
    return [f'<th class="sortable" data-column-type="{key}">{name}</th>' for key, name in _COLUMNS.items()]


def row(record: RunRecord) -> list[str]:
    """A run's cells, in the order of the head. What sorts as a number starts with a hidden key of fixed width."""
    report = record.report
    outcome = outcome_of(record)
    colour = _COLOURS.get(record.outcome, "#b91c1c")
    thresholds = {
        "gold": report.gold_threshold,
        "silver": report.silver_threshold,
        "bronze": report.bronze_threshold,
        "median": report.median_threshold,
    }
    percentile = report.percentile
    how = record.ending + (f" ({record.detail})" if record.detail else "")
    cells = {
        "medal": _key(f"{OUTCOMES.index(record.outcome):02d}")
        + f'<span class="medal" style="color: {colour}">{outcome.category}</span>',
        "competition": escape(record.competition_id),
        "split": escape(record.split),
        "agent": escape(record.agent),
        "seed": _number(float(record.seed), str(record.seed)),
        "score": _number(record.score, format_score(record.score)),
        **{name: _number(value, format_score(value)) for name, value in thresholds.items()},
        "percentile": _number(percentile, "-" if percentile is None else f"{percentile:.0f}"),
        "time": _number(record.seconds, format_seconds(record.seconds)),
        "ended": escape(how),
    }
    return [f'<td class="col-{key}">{cells[key]}</td>' for key in _COLUMNS]


def plain_row(name: str) -> list[str]:
    """Cells for what is no run: another test, or an error before the run began."""
    cells = {"medal": _key("99") + "-", "competition": escape(name)}
    return [f'<td class="col-{key}">{cells.get(key, "")}</td>' for key in _COLUMNS]


def summary(group: RunGroupResults) -> list[str]:
    """The medal rates, on top of the page."""
    heads = ["Agent", "Split", "Competitions", "Seeds", "Any medal", "Gold", "Above median", "Valid"]
    names = [name for name in OUTCOMES if any(record.outcome == name for record in group.records)]
    lines = [
        "<tr>" + "".join(f"<th>{head}</th>" for head in [*heads, *(BY_NAME[name].category for name in names)]) + "</tr>"
    ]
    for s in summarise([group]):
        cells = [escape(s.label), s.split, s.competitions, s.seeds]
        rates = [s.any_medal, s.gold, s.above_median, s.valid]
        lines.append(
            "<tr>"
            + "".join(f"<td>{cell}</td>" for cell in cells)
            + "".join(f'<td class="rate">{rate}</td>' for rate in rates)
            + "".join(f"<td>{s.counts[name]}</td>" for name in names)
            + "</tr>"
        )
    note = "<p>Rates are the mean over seeds ± the standard error of the mean.</p>"
    return [STYLE, f'<table class="medals">{"".join(lines)}</table>', note]


def details(record: RunRecord, run_dir: Path, data: MutableSequence[str]) -> None:
    """What unfolds behind a row: the grade, the checks the agent asked for, the end of its log."""
    report = record.report
    reason = record.error or report.error
    lines = [
        f"run        {record.run_id}",
        f"outcome    {outcome_of(record).category}" + (f": {reason}" if reason else ""),
        f"ended      {record.ending} after {format_seconds(record.seconds)}"
        + (f" ({record.detail})" if record.detail else ""),
        f"sandbox    {record.sandbox.get('name', '-')}",
        f"directory  {run_dir}",
    ]
    lines += [
        f"check      after {second:.0f} s: {text}" for second, text in record.sandbox.get("validations", [])[-20:]
    ]
    log = tail(run_dir / RUN_LOG, lines=200, max_bytes=_LOG_BYTES)
    data[:] = [escape("\n".join(lines)), "\n", escape(" end of the agent's log ".center(80, "-")), "\n", escape(log)]


def _key(text: str) -> str:
    return f"<span hidden>{text}</span>"


def _number(value: float | None, shown: str) -> str:
    # The table sorts by text: whole millionths, shifted to be positive, with as many digits for each.
    key = "~" if value is None else f"{round(max(-1e11, min(value, 1e11)) * 10**6) + 10**17:018d}"
    return _key(key) + shown
