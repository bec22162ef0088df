"""Writes the files of a leaderboard: one page, a page for each bundle, the reports, and the same data as JSON.

The folder of a site is written completely or not at all. ``board.json`` marks it as a site and lists its files; a
folder with anything else is never overwritten. The same bundles give the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
import math
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from markupsafe import Markup

from pytest_mlebench._version import __version__
from pytest_mlebench.errors import UsageError, reason
from pytest_mlebench.extras.bundles.board.rows import LEAST_SEEDS, Figure, Rejected, Row
from pytest_mlebench.extras.bundles.card import ALWAYS, Card, card_sections
from pytest_mlebench.io import files as io_files
from pytest_mlebench.io.units import first
from pytest_mlebench.io.values import json_text, loads
from pytest_mlebench.reports.page import asset, environment, style
from pytest_mlebench.reports.plots.svg import SCHEME
from pytest_mlebench.results.summary import split_rank

FORMAT, VERSION = "pytest-mlebench board", 1
DATA = "board.json"
_ASSETS = Path(__file__).parent / "assets"
_MOST_REMARKS = 500
_MAX_DATA = 256 << 20
_LABELS = {"ranked": "verified", "reported": "reported, not verified", "apart": "not comparable"}
_MEDALS = (("any_medal", "Any medal"), ("gold", "Gold"), ("silver", "Silver"), ("bronze", "Bronze"))
_COLUMNS = (
    ("rank figure", "Rank"),
    ("agent", "Agent and models"),
    ("reasons", "Why it is not comparable"),
    ("split", "Split"),
    *((f"{key} figure", name) for key, name in _MEDALS),
    ("percentile figure", "Percentile"),
    ("seeds figure", "Seeds"),
    ("time", "Time limit and hardware"),
    ("cost", "Cost per run"),
    ("data", "Data"),
    ("date", "Date"),
)


@dataclass(frozen=True, kw_only=True)
class Board:
    """What a leaderboard shows. ``cards`` and ``reports`` (pages) are keyed by the digests of their bundles."""

    title: str
    rows: Sequence[Row]
    rejected: Sequence[Rejected]
    cards: Mapping[str, Card]
    reports: Mapping[str, str]


def see_writable(target: Path) -> None:
    """Raise UsageError if ``write_site`` could not write a leaderboard, before hours of work."""
    claimed(target)
    try:
        target.absolute().parent.mkdir(parents=True, exist_ok=True)
        with io_files.scratch(target.absolute().parent, f".{target.absolute().name}-"):
            pass
    except OSError as error:
        raise UsageError(f"{target} cannot be written: {reason(error)}") from error


def claimed(target: Path) -> bool:
    """Return whether a folder contains a leaderboard. Raises UsageError unless it does, is empty, or does not exist."""
    try:
        if target.is_symlink():
            raise UsageError(f"{target} is a link: name the folder itself")
        if not target.exists():
            return False
        if not target.is_dir():
            raise UsageError(f"{target} is not a folder")
        inside = {Path(folder, name).relative_to(target).as_posix() for folder, _, names in os.walk(target)
                  for name in names}  # fmt: skip
        is_empty = not any(target.iterdir())
    except OSError as error:
        raise UsageError(f"{target} cannot be read: {reason(error)}") from error
    if is_empty:
        return False
    listed = _files_of(target)
    if listed is None:
        raise UsageError(f"{target} is not a leaderboard of `mlebench board`: name a new or empty folder")
    if others := sorted(inside - listed):
        raise UsageError(f"{target} has a file that is not part of the leaderboard, {others[0][:100]}: move it away")
    return True


def _files_of(folder: Path) -> set[str] | None:
    """Return the files that a leaderboard lists; None if there is no leaderboard."""
    values = None
    with suppress(OSError, ValueError):
        values = loads(io_files.regular_bytes(folder / DATA, _MAX_DATA, follow_links=False))
    if not isinstance(values, dict) or values.get("format") != FORMAT or not isinstance(values.get("files"), list):
        return None
    return {str(name) for name in values["files"]}


def write_site(site: Board, target: Path) -> None:
    """Write a leaderboard atomically to a folder that is new, empty or a leaderboard. Raises UsageError."""
    target = target.absolute()
    files = dict(_files(site))
    values = {
        "format": FORMAT,
        "version": VERSION,
        "made_by": f"pytest-mlebench {__version__}",
        "title": site.title,
        "files": sorted([*files, DATA]),
        "rows": [{**asdict(row), "status": row.status} for row in site.rows],
        "rejected": [asdict(entry) for entry in site.rejected],
    }
    files[DATA] = json_text(values)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with io_files.scratch(target.parent, f".{target.name}-") as scratch:
            new = Path(scratch) / "site"
            for name, text in files.items():
                (new / name).parent.mkdir(parents=True, exist_ok=True)
                (new / name).write_text(text, encoding="utf-8", errors="replace")
            io_files.sync(new)
            if claimed(target):
                io_files.exchange(new, target)
            else:
                io_files.publish(new, target)
    except OSError as error:
        raise UsageError(f"{target} cannot be written: {reason(error)}") from error


def _files(site: Board) -> Iterator[tuple[str, str]]:
    yield "index.html", _index(site)
    for digest, card in site.cards.items():
        yield f"bundles/{digest}.html", _card(card, has_report=digest in site.reports)
    for digest, text in site.reports.items():
        yield f"reports/{digest}.html", text


def _index(site: Board) -> str:
    script = asset("board.js", _ASSETS)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    verified = [row for row in site.rows if not row.is_reported]
    counts = {
        "ranked": sum(row.status == "ranked" for row in verified),
        "own_apart": sum(row.status == "apart" for row in verified),
        "published": len(site.rows) - len(verified),
    }
    return _rendered(
        "board.html",
        site.title,
        script=script,
        script_digest=Markup(f"sha256-{digest}"),
        rows=site.rows,
        rejected=site.rejected,
        cards=site.cards,
        bundles=len(site.cards),
        counts=counts,
        columns=_COLUMNS,
        medals=_MEDALS,
        labels=_LABELS,
        filters=list(_filters(site.rows)),
        value=_value,
        limit=_MOST_REMARKS // 10,
        least_seeds=LEAST_SEEDS,
        always=ALWAYS,
    )


def _card(card: Card, *, has_report: bool) -> str:
    result, *others = (replace(part, remarks=first(part.remarks, _MOST_REMARKS)) for part in card_sections(card))
    return _rendered(
        "card.html",
        f"Bundle {card.digest[:12]}",
        heading=result.title,
        digest=card.digest,
        sections=[replace(result, title="What was checked"), *others],
        has_report=has_report,
    )


def _rendered(template: str, title: str, **values: Any) -> str:
    css = SCHEME + style("report.css") + asset("board.css", _ASSETS)
    return environment(_ASSETS).get_template(template).render(title=title, version=__version__, style=css, **values)


def _value(figure: Figure | None) -> str:
    """Return the value that a figure is sorted by; empty if there is none."""
    return "" if figure is None or math.isnan(figure.mean) else f"{figure.mean:.4f}"


def _filters(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Yield the filters with their choices and numbers of rows, except those with only one choice."""
    kinds = (("split", "Split", "all splits"), ("data", "Data", "all data"), ("time", "Time limit", "all time limits"))
    for name, label, every in kinds:
        counts = Counter(text for row in rows if (text := getattr(row, name)))
        if len(counts) > 1:
            chosen = sorted(counts, key=split_rank) if name == "split" else sorted(counts)
            options = [{"value": value, "text": value, "count": counts[value]} for value in chosen]
            yield {"name": name, "label": label, "all": every, "options": options}
