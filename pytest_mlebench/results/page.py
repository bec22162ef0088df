"""The HTML report of run groups: one self-contained page, the summary first."""

from __future__ import annotations

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from pytest_mlebench import __version__
from pytest_mlebench.outcomes import BY_NAME, outcome_of
from pytest_mlebench.quantities import format_score, format_seconds
from pytest_mlebench.results.facts import facts
from pytest_mlebench.results.group import RunGroupResults
from pytest_mlebench.results.overview import Overview
from pytest_mlebench.results.palette import stylesheet, variables
from pytest_mlebench.results.pictures import pictures
from pytest_mlebench.results.pictures.svg import SCHEME, STYLE
from pytest_mlebench.results.record import OUTCOMES, RunRecord
from pytest_mlebench.results.sections import comparison_sections, rate_sections
from pytest_mlebench.results.side_by_side import SideBySide, side_by_side
from pytest_mlebench.results.summary import SplitSummary, split_rank
from pytest_mlebench.results.untrusted import plain
from pytest_mlebench.sandbox.base import RUN_LOG
from pytest_mlebench.sandbox.logs import tail

LOG_BYTES = 4096
"""Of each run's log so much is put on the page."""
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
"""What of a manifest the page shows in another way, or is for the machine it was written on."""
_COMMON = ("data", "sandbox", "limits", "versions")
"""Facts that are told once where all runs share them."""


@dataclass(frozen=True)
class _Row:
    record: RunRecord
    facts: Sequence[tuple[str, str]]
    log: str

    @property
    def id(self) -> str:
        return "-".join(plain(self.record.run_id).split())

    @property
    def rank(self) -> int:
        return OUTCOMES.index(self.record.outcome)

    @property
    def word(self) -> str:
        return outcome_of(self.record).category

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
    """The report as HTML that needs nothing but itself.

    ``log_bytes`` of the end of each run's log are put on the page, none for 0. Whatever an agent wrote is shown as
    plain text.
    """
    groups = view.groups
    together = side_by_side(groups)
    records = together.records
    common = _common(records)
    script = _asset("report.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        _environment()
        .get_template("report.html")
        .render(
            title=f"MLE-bench: {', '.join(group.name for group in groups)}",
            lead=_lead(together),
            version=__version__,
            groups=[_group(group) for group in groups],
            headlines=_headlines(view.summaries),
            words=BY_NAME,
            standings={(s.summary.label, s.summary.split): s for s in view.standings},
            sections=[*rate_sections(view), *comparison_sections(view)],
            pictures=pictures(groups, pad_missing=view.pad_missing),
            common=[(term, text) for term, text in common.items()],
            filters=_filters(records),
            columns=[{"name": name, "number": number} for name, number in _COLUMNS],
            rows=_rows(together, common, log_bytes),
            style=SCHEME + _style("report.css"),
            script=script,
            script_digest=Markup(f"sha256-{digest}"),
        )
    )


def fragment(view: Overview) -> str:
    """Summary and pictures alone, with their style, for a page that another tool writes."""
    context = {
        "sections": [*rate_sections(view), *comparison_sections(view)],
        "pictures": pictures(view.groups, pad_missing=view.pad_missing),
    }
    body = "".join(_environment().get_template(name).render(context) for name in ("summary.html", "pictures.html"))
    return f"<style>{_style()}</style>{body}"


@cache
def _environment() -> Environment:
    def finalize(value: Any) -> Any:
        return plain(value, _TEXT) if isinstance(value, str) and not isinstance(value, Markup) else value

    loader = PackageLoader("pytest_mlebench.results", "assets")
    return Environment(loader=loader, autoescape=True, finalize=finalize, trim_blocks=True, lstrip_blocks=True)


def _asset(name: str) -> str:
    return (Path(__file__).parent / "assets" / name).read_text(encoding="utf-8")


def _style(*more: str) -> str:
    return (
        f":root{{{variables()}}}{stylesheet()}" + STYLE + "".join(map(_asset, ("summary.css", "pictures.css", *more)))
    )


def _lead(together: SideBySide) -> str:
    records = together.records
    done = f"{len(records)} of {len(together.planned)} runs" if together.planned else f"{len(records)} runs"
    agents = ", ".join(sorted({key.agent for key in together.planned}))
    if not records:
        return f"{agents}: {done} finished"
    first, last = min(r.started_at for r in records), max(r.ended_at for r in records)
    return f"{agents}: {done} finished, {first[:16].replace('T', ' ')} to {last[:16].replace('T', ' ')} UTC"


def _group(group: RunGroupResults) -> dict[str, Any]:
    canonical = group.manifest.get("canonical") or {}
    rest = {key: value for key, value in group.manifest.items() if key not in _ELSEWHERE}
    return {
        "name": group.name,
        "canonical": canonical.get("is_canonical"),
        "differences": canonical.get("differences", []),
        "planned": len(group.planned),
        "missing": len(group.planned - group.runs.keys()),
        "broken": group.broken,
        "manifest": Markup.escape(plain(json.dumps(rest, indent=2, ensure_ascii=False), _MANIFEST)) if rest else "",
    }


def _headlines(summaries: Sequence[SplitSummary]) -> list[SplitSummary]:
    """Of each agent the whole benchmark, or else all of its splits."""
    whole = {summary.label for summary in summaries if summary.split == "all"}
    return [summary for summary in summaries if summary.split == "all" or summary.label not in whole]


def _common(records: Sequence[RunRecord]) -> dict[str, str]:
    """Those of the long facts that all runs share."""
    told = [dict(facts(record)) for record in records]
    return {
        term: told[0][term] for term in _COMMON if len({facts.get(term) for facts in told}) == 1 and told[0].get(term)
    }


def _rows(together: SideBySide, common: Mapping[str, str], log_bytes: int) -> list[_Row]:
    runs = sorted(
        zip(together.records, together.run_dirs, strict=True),
        key=lambda run: (split_rank(run[0].split), run[0].competition_id, run[0].agent, run[0].seed),
    )
    return [
        _Row(
            record=record,
            facts=[(term, text) for term, text in facts(record) if term not in common],
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

    by_outcome = Counter(record.outcome for record in records)
    outcomes = [
        {"value": name, "text": BY_NAME[name].category, "count": by_outcome[name]}
        for name in OUTCOMES
        if by_outcome[name]
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
