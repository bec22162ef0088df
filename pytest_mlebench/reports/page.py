"""The HTML report of run groups: one self-contained page. The viewer uses the same templates and styles."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from itertools import groupby
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import ChoiceLoader, Environment, FileSystemLoader
from markupsafe import Markup, escape

from pytest_mlebench._version import __version__
from pytest_mlebench.io.units import format_dollars, format_duration, format_score, plain, pluralize
from pytest_mlebench.records.group import RunGroup
from pytest_mlebench.records.outcome import Outcome
from pytest_mlebench.records.record import FILES, RECORD, RUN_LOG, SUBMISSION, RunRecord
from pytest_mlebench.reports.palette import stylesheet, variables
from pytest_mlebench.reports.plots import agents_in, plots
from pytest_mlebench.reports.plots.svg import SCHEME, STYLE, legend
from pytest_mlebench.reports.run_details import ending_as_sentence, run_details
from pytest_mlebench.reports.sections import (
    Heading,
    comparison_sections,
    cost_sections,
    heading,
    rate_sections,
    timeline_sections,
)
from pytest_mlebench.reports.tables import Section, in_order, precision_sections
from pytest_mlebench.results.findings import Verdict, read_findings
from pytest_mlebench.results.overview import Overview, headlines
from pytest_mlebench.results.profile import fairness_profile
from pytest_mlebench.results.summary import grader_defects, split_rank
from pytest_mlebench.sandbox.redaction import tail

ASSETS = Path(__file__).parent / "assets"
_TEXT = 2000
_UNBREAKABLE = re.compile(r"\d+(?:–\d+)?(?: %| [A-Z][a-z]+(?: \d{4})?)|\d+–\d+")


@cache
def environment(*folders: Path) -> Environment:
    """Return a Jinja environment for these folders and ``ASSETS`` that escapes values and strips control sequences."""

    def finalize(value: Any) -> Any:
        return plain(value, _TEXT) if isinstance(value, str) and not isinstance(value, Markup) else value

    loader = ChoiceLoader([FileSystemLoader(folder) for folder in (*folders, ASSETS)])
    env = Environment(loader=loader, autoescape=True, finalize=finalize, trim_blocks=True, lstrip_blocks=True)
    env.filters |= {"unbroken": unbroken, "with_code": with_code}
    return env


def unbroken(text: str) -> Markup:
    """Convert a text to HTML that does not break lines within dates, ranges and percentages.

    >>> unbroken("<b>, 1–9 March 2026")
    Markup('&lt;b&gt;, <span class="whole">1–9 March 2026</span>')
    """
    return Markup(_UNBREAKABLE.sub(r'<span class="whole">\g<0></span>', str(escape(plain(text, _TEXT)))))


def with_code(text: str) -> Markup:
    """Convert a text to HTML, with text in backticks as ``<code>``.

    >>> with_code("see `mlebench audit` & <b>")
    Markup('see <code>mlebench audit</code> &amp; &lt;b&gt;')
    """
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(plain(text, _TEXT)))))


def asset(name: str, folder: Path = ASSETS) -> str:
    return (folder / name).read_text(encoding="utf-8")


def style(*more: str) -> str:
    """Return the CSS of colours, tables and plots, followed by the stylesheets ``more``."""
    return f":root{{{variables()}}}{stylesheet()}" + STYLE + "".join(map(asset, ("summary.css", "plots.css", *more)))


LOG_BYTES = 4096
"""Maximum size of one run's log excerpt on the page, in bytes."""
LOGS_BYTES = 100_000
"""Approximate maximum size of all log excerpts on the page, in bytes."""
LOG_LINES = 60
_FAILED_WEIGHT = 4
"""A run without a valid submission gets a log excerpt this many times longer than others."""
_MANIFEST = 20_000
_NO_VALUE = "–"
_COLUMNS = ("outcome", "competition", "agent", "seed", "score", "thresholds", "beats", "time", "cost", "ended")
_HIDDEN_KEYS = ("runs", "canonical", "options")
"""Manifest keys that the page shows in another way, or that only matter on the machine that wrote it."""
_COMMON = ("data", "sandbox", "limits", "versions")
"""Details that are shown once if they are the same for all runs."""
_FILES = (SUBMISSION, FILES, "code", "logs", RUN_LOG, RECORD)
"""Files of a run directory to link to. Earlier versions wrote folders."""


def page(view: Overview, top: Heading | None = None, *, folder: Path | None = None, log_bytes: int = LOG_BYTES) -> str:
    """Return the report as self-contained HTML, with up to the last ``log_bytes`` of each run's log.

    With ``folder``, in which the report will be stored, it links to the runs' files. Text that an agent influenced is
    escaped, without control sequences.
    """
    script = asset("report.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    context = parts(view, top, folder=folder, log_bytes=log_bytes)
    context |= {"version": __version__, "style": SCHEME + style("report.css"), "script": script}
    return environment().get_template("report.html").render(context, script_digest=Markup(f"sha256-{digest}"))


def parts(
    view: Overview, top: Heading | None = None, *, folder: Path | None = None, log_bytes: int = LOG_BYTES
) -> dict[str, Any]:
    """Return the variables of the page's templates (``headlines.html``, ``plots.html``, …)."""
    common = _common(view.records)
    costs = any(record.usage.calls for record in view.records)
    rows = _rows(view, common, folder, log_bytes)
    drawn = plots(view)
    return {
        "top": top or heading(view),
        "lead": _lead(view),
        "groups": [_group(group) for group in view.groups],
        "headlines": headlines(view),
        "outcomes": Outcome,
        "runs_of": _runs_of,
        "standings": {(s.summary.label, s.summary.split): s for s in view.standings},
        "sections": _sections(view),
        "grid": drawn[0] if drawn else None,
        "plots": drawn[1:],
        "legend": legend(agents_in(view)),
        "common": list(common.items()),
        "defects": grader_defects(view.records),
        "outcome_chips": _outcome_chips(view.records),
        "filters": _filters(view.records),
        "has_splits": len({record.split for record in view.records}) > 1,
        "has_loose": any(record.report.firmness == "not firm" for record in view.records),
        "columns": [{"key": name, "name": name.capitalize()} for name in _COLUMNS if costs or name != "cost"],
        "costs": costs,
        "competitions": _competitions(rows),
        "rows": rows,
    }


def _runs_of(*, agent: str, split: str = "", outcome: str = "") -> str:
    """Return a link to an agent's runs on a split: a URL fragment that filters the table of runs."""
    chosen = {"agent": agent, "split": split, "outcome": "any" if outcome == "medal" else outcome}
    return f"#{urlencode({name: value for name, value in chosen.items() if value})}"


def fragment(view: Overview) -> str:
    """Return the summary and plots with their style, for embedding in another tool's page."""
    context = {"sections": _sections(view), "plots": plots(view), "legend": legend(agents_in(view)), "runs_of": None}
    names = ("summary.html", "legend.html", "plots.html")
    body = "".join(environment().get_template(name).render(context) for name in names)
    return f"<style>{style()}</style>{body}"


def _sections(view: Overview) -> list[Section]:
    return [
        *rate_sections(view),
        *precision_sections(view, details=True),
        *cost_sections(view),
        *timeline_sections(view),
        *comparison_sections(view, details=True),
    ]


def _lead(view: Overview) -> str:
    records = view.records
    count = f"{len(records)} of " * bool(view.planned) + pluralize(len(view.planned or records), "run")
    if not records:
        return f"{count} finished"
    first, last = min(r.started_at for r in records), max(r.ended_at for r in records)
    costs = [record.cost for record in records if record.usage.calls]
    known = [cost for cost in costs if cost is not None]
    spent = f", {'at least ' * (len(known) < len(costs))}{format_dollars(sum(known))} on models" if known else ""
    return (
        f"{count} finished, {first[:16].replace('T', ' ')} to {last[:16].replace('T', ' ')} UTC; "
        f"{format_duration(sum(record.seconds for record in records))} of agent time{spent}"
    )


def _group(group: RunGroup) -> dict[str, Any]:
    rest = {key: value for key, value in asdict(group.manifest).items() if value and key not in _HIDDEN_KEYS}
    return {
        "name": group.name,
        "canonical": group.manifest.canonical,
        "run_by": group.manifest.run_by,
        "planned": len(group.planned),
        "fairness": fairness_profile(group),
        "missing": len(group.planned - group.runs.keys()),
        "broken": group.broken,
        "manifest": Markup.escape(plain(json.dumps(rest, indent=2, ensure_ascii=False), _MANIFEST)) if rest else "",
    }


def _common(records: Sequence[RunRecord]) -> dict[str, str]:
    """Return the details that are the same for all runs."""
    details = [dict(run_details(record)) for record in records]
    values = {term: {texts.get(term, "") for texts in details} for term in _COMMON}
    return {term: texts.pop() for term, texts in values.items() if len(texts) == 1 and "" not in texts}


def _rows(view: Overview, common: Mapping[str, str], folder: Path | None, log_bytes: int) -> list[dict[str, Any]]:
    runs = [(record, view.run_dirs[record.key]) for record in in_order(view.records)]
    share = LOGS_BYTES // max(1, sum(1 if record.outcome.passed else _FAILED_WEIGHT for record, _ in runs))
    taken: set[str] = set()
    verdicts = {folder: _verdicts(folder) for folder in {run_dir.parent for _, run_dir in runs}}
    found = []
    for record, run_dir in runs:
        size = min(log_bytes, share if record.outcome.passed else share * _FAILED_WEIGHT)
        percentile = record.report.percentile
        found.append(
            {
                "id": _anchor(record, taken),
                "record": record,
                "score": _NO_VALUE if record.score is None else format_score(record.score),
                "beats": _NO_VALUE if percentile is None else f"{percentile:.0f} %",
                "time": format_duration(record.seconds),
                "cost": format_dollars(record.cost) if record.usage.calls else _NO_VALUE,
                "ended": ending_as_sentence(record),
                "details": _details(record, common),
                "files": [] if folder is None else _files(run_dir, folder),
                "log": Markup.escape(plain(tail(run_dir / RUN_LOG, LOG_LINES, size)).strip("\n")) if size > 0 else "",
                "verdict": verdicts[run_dir.parent].get(record.run_id, ""),
            }
        )
    return found


def _verdicts(folder: Path) -> dict[str, str]:
    """Return the audit verdicts of a group's runs other than ``clean``; empty if there was no audit."""
    with suppress(OSError, ValueError):
        if (found := read_findings(folder)) is not None:
            return {id: verdict.value for id, verdict in found.verdicts.items() if verdict is not Verdict.clean}
    return {}


def _details(record: RunRecord, common: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the details that the row itself does not show."""
    shown = {"score", *common}
    shown |= {"outcome"} if not record.reason or not record.outcome.passed else set()
    shown |= {"ended"} if not record.detail or not record.outcome.passed else set()
    return [(term, text) for term, text in run_details(record) if term not in shown]


def _anchor(record: RunRecord, taken: set[str]) -> str:
    """Return a unique HTML id for a run's row; ``-2`` is appended if another group has a run with the same name."""
    id = f"run-{'-'.join(plain(record.run_id).split())}"
    while id in taken:
        id += "-2"
    taken.add(id)
    return id


def _files(run_dir: Path, folder: Path) -> list[tuple[str, str]]:
    """Return names and relative links of existing files and non-empty folders, without symlinks and special files."""
    found = []
    for name in _FILES:
        path = run_dir / name
        with suppress(OSError, ValueError):
            modes = [part.lstat().st_mode for part in (path.parent, path)]
            if S_ISDIR(modes[0]) and (S_ISREG(modes[1]) or (S_ISDIR(modes[1]) and any(path.iterdir()))):
                suffix = "/" if S_ISDIR(modes[1]) else ""
                link = quote(os.path.relpath(path.absolute(), folder.absolute()).encode("utf-8", "surrogateescape"))
                found.append((name + suffix, link + suffix))
    return found


def _competitions(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    found = []
    for (split, id), group in groupby(rows, key=lambda row: (row["record"].split, row["record"].competition_id)):
        of_competition = list(group)
        first = of_competition[0]["record"]
        thresholds = [(name, format_score(score)) for name, score in first.thresholds.items()]
        better = "lower" if first.report.is_lower_better else "higher"
        about = {"id": id, "split": split, "category": first.category, "thresholds": thresholds, "better": better}
        found.append({**about, "rows": of_competition})
    return found


def _outcome_chips(records: Sequence[RunRecord]) -> list[dict[str, Any]]:
    """Return a filter for each outcome that occurs and for any medal; empty if all runs have the same outcome."""
    counts = Counter(record.outcome for record in records)
    chips = [
        {"value": outcome, "text": outcome.label, "count": counts[outcome], "colour": outcome.colour}
        for outcome in Outcome
        if counts[outcome]
    ]
    medals = sum(record.report.any_medal for record in records)
    if medals:
        chips.insert(0, {"value": "any", "text": "any medal", "count": medals, "colour": "any"})
    return chips if len(counts) > 1 else []


def _filters(records: Sequence[RunRecord]) -> list[dict[str, Any]]:
    found = []
    for name, label, plural in (
        ("split", "Split", "splits"),
        ("category", "Category", "categories"),
        ("ending", "How it ended", "endings"),
        ("agent", "Agent", "agents"),
    ):
        counts = Counter(str(getattr(record, name)) for record in records)
        ordered = sorted(counts, key=split_rank) if name == "split" else sorted(counts)
        options = [{"value": value, "text": value, "count": counts[value]} for value in ordered]
        if len(options) > 1:
            found.append({"name": name, "label": label, "all": f"all {plural}", "options": options})
    return found
