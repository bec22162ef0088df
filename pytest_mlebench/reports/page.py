"""The HTML report of run groups: one self-contained page, the summary first."""

from __future__ import annotations

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from pytest_mlebench._version import __version__
from pytest_mlebench.reports.palette import stylesheet, variables
from pytest_mlebench.reports.plots import plots
from pytest_mlebench.reports.plots.svg import SCHEME, STYLE
from pytest_mlebench.reports.run_details import run_details
from pytest_mlebench.reports.sections import comparison_sections, cost_sections, rate_sections, timeline_sections
from pytest_mlebench.reports.untrusted import plain
from pytest_mlebench.results.overview import Overview
from pytest_mlebench.results.summary import SplitSummary, grader_defects, split_rank
from pytest_mlebench.runs.group import RunGroup
from pytest_mlebench.runs.layout import RUN_LOG
from pytest_mlebench.runs.outcome import Outcome
from pytest_mlebench.runs.record import RunRecord
from pytest_mlebench.sandbox.logs import tail
from pytest_mlebench.units import format_score, format_seconds

LOG_BYTES = 4096
"""The page has at most this much of each run's log."""
LOG_LINES = 60
_TEXT = 2000
_MANIFEST = 20_000
_COLUMNS = (
    ("Outcome", False),
    ("Competition", False),
    ("Split", False),
    ("Category", False),
    ("Agent", False),
    ("Seed", True),
    ("Score", True),
    ("Beats", True),
    ("Time", True),
    ("Ended", False),
)
_ELSEWHERE = ("runs", "canonical", "options")
"""Parts of a manifest that the page shows in another way, or that only matter where it was written."""
_COMMON = ("data", "sandbox", "limits", "versions")
"""Details that are shown once if all runs share them."""


@dataclass(frozen=True)
class _Row:
    record: RunRecord
    details: Sequence[tuple[str, str]]
    log: str

    @property
    def id(self) -> str:
        return "-".join(plain(self.record.run_id).split())

    @property
    def score(self) -> str:
        return format_score(self.record.score)

    @property
    def beats(self) -> str:
        percentile = self.record.report.percentile
        return "-" if percentile is None else f"{percentile:.0f} %"

    @property
    def time(self) -> str:
        return format_seconds(self.record.seconds)


def page(view: Overview, *, log_bytes: int = LOG_BYTES) -> str:
    """The report as self-contained HTML, with the last ``log_bytes`` of each run's log.

    Whatever an agent influenced is shown as plain text.
    """
    common = _common(view.records)
    script = _asset("report.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        _environment()
        .get_template("report.html")
        .render(
            title=f"MLE-bench: {', '.join(group.name for group in view.groups)}",
            lead=_lead(view),
            version=__version__,
            groups=[_group(group) for group in view.groups],
            headlines=_headlines(view.summaries),
            outcomes=Outcome,
            standings={(s.summary.label, s.summary.split): s for s in view.standings},
            sections=[*rate_sections(view), *cost_sections(view), *timeline_sections(view), *comparison_sections(view)],
            plots=plots(view),
            common=[(term, text) for term, text in common.items()],
            defects=grader_defects(view.records),
            filters=_filters(view.records),
            columns=[{"name": name, "number": number} for name, number in _COLUMNS],
            rows=_rows(view, common, log_bytes),
            style=SCHEME + _style("report.css"),
            script=script,
            script_digest=Markup(f"sha256-{digest}"),
        )
    )


def fragment(view: Overview) -> str:
    """Summary and plots with their style, for a page that another tool writes."""
    context = {
        "sections": [*rate_sections(view), *cost_sections(view), *timeline_sections(view), *comparison_sections(view)],
        "plots": plots(view),
    }
    body = "".join(_environment().get_template(name).render(context) for name in ("summary.html", "plots.html"))
    return f"<style>{_style()}</style>{body}"


@cache
def _environment() -> Environment:
    def finalize(value: Any) -> Any:
        return plain(value, _TEXT) if isinstance(value, str) and not isinstance(value, Markup) else value

    loader = PackageLoader("pytest_mlebench.reports", "assets")
    return Environment(loader=loader, autoescape=True, finalize=finalize, trim_blocks=True, lstrip_blocks=True)


def _asset(name: str) -> str:
    return (Path(__file__).parent / "assets" / name).read_text(encoding="utf-8")


def _style(*more: str) -> str:
    return f":root{{{variables()}}}{stylesheet()}" + STYLE + "".join(map(_asset, ("summary.css", "plots.css", *more)))


def _lead(view: Overview) -> str:
    records = view.records
    done = f"{len(records)} of {len(view.planned)} runs" if view.planned else f"{len(records)} runs"
    agents = ", ".join(sorted({key.agent for key in view.planned}))
    if not records:
        return f"{agents}: {done} finished"
    first, last = min(r.started_at for r in records), max(r.ended_at for r in records)
    return f"{agents}: {done} finished, {first[:16].replace('T', ' ')} to {last[:16].replace('T', ' ')} UTC"


def _group(group: RunGroup) -> dict[str, Any]:
    rest = {key: value for key, value in asdict(group.manifest).items() if value and key not in _ELSEWHERE}
    return {
        "name": group.name,
        "canonical": group.manifest.canonical,
        "planned": len(group.planned),
        "missing": len(group.planned - group.runs.keys()),
        "broken": group.broken,
        "manifest": Markup.escape(plain(json.dumps(rest, indent=2, ensure_ascii=False), _MANIFEST)) if rest else "",
    }


def _headlines(summaries: Sequence[SplitSummary]) -> list[SplitSummary]:
    """Each agent's summary of the whole benchmark, or else of each split."""
    whole = {summary.label for summary in summaries if summary.is_whole}
    return [summary for summary in summaries if summary.is_whole or summary.label not in whole]


def _common(records: Sequence[RunRecord]) -> dict[str, str]:
    """The details that all runs share."""
    details = [dict(run_details(record)) for record in records]
    return {
        term: details[0][term]
        for term in _COMMON
        if len({own.get(term) for own in details}) == 1 and details[0].get(term)
    }


def _rows(view: Overview, common: Mapping[str, str], log_bytes: int) -> list[_Row]:
    runs = sorted(
        zip(view.records, view.run_dirs, strict=True),
        key=lambda run: (split_rank(run[0].split), run[0].competition_id, run[0].agent, run[0].seed),
    )
    return [
        _Row(
            record=record,
            details=[(term, text) for term, text in run_details(record) if term not in common],
            log=_log(run_dir, log_bytes),
        )
        for record, run_dir in runs
    ]


def _log(run_dir: Path, max_bytes: int) -> str:
    if max_bytes <= 0:
        return ""
    return Markup.escape(plain(tail(run_dir / RUN_LOG, lines=LOG_LINES, max_bytes=max_bytes)).strip("\n"))


def _filters(records: Sequence[RunRecord]) -> list[dict[str, Any]]:
    def options(values: Iterable[str]) -> list[dict[str, Any]]:
        return [{"value": value, "text": value, "count": count} for value, count in sorted(Counter(values).items())]

    counts = Counter(record.outcome for record in records)
    outcomes = [
        {"value": outcome, "text": outcome.label, "count": counts[outcome]} for outcome in Outcome if counts[outcome]
    ]
    medals = sum(record.report.any_medal for record in records)
    if medals:
        outcomes.insert(0, {"value": "any", "text": "any medal", "count": medals})
    splits = Counter(record.split for record in records)
    return [
        {"name": "outcome", "label": "Outcome", "options": outcomes},
        {
            "name": "split",
            "label": "Split",
            "options": [{"value": s, "text": s, "count": splits[s]} for s in sorted(splits, key=split_rank)],
        },
        {"name": "category", "label": "Category", "options": options(record.category for record in records)},
        {"name": "ending", "label": "How it ended", "options": options(record.ending for record in records)},
        {"name": "agent", "label": "Agent", "options": options(record.agent for record in records)},
    ]
