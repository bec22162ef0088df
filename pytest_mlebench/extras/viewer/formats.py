"""How pages show names, times and numbers."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from pytest_mlebench.extras.viewer.pictures import short
from pytest_mlebench.io.units import (
    format_dollars,
    format_duration,
    format_score,
    format_seconds,
    format_size,
    plain,
    pluralize,
)
from pytest_mlebench.records.outcome import Outcome

NOTHING = "–"


def seg(text: str) -> str:
    """A name as a part of an address."""
    return quote(text, safe="")


def moment(text: str | None) -> Markup:
    """A time, which the script shows in the reader's zone."""
    if not text:
        return Markup(NOTHING)
    shown = plain(text[:16].replace("T", " "))
    return Markup('<time datetime="{}">{} UTC</time>').format(plain(text[:40]), shown)


def _when(seconds: float) -> Markup:
    return moment(datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")) if seconds else Markup(NOTHING)


def _optional(shown: Callable[[Any], str]) -> Callable[[Any], str]:
    def text(value: Any) -> str:
        try:
            return NOTHING if value is None else shown(value)
        except (TypeError, ValueError):  # a record that something else wrote
            return str(value)

    return text


FILTERS: dict[str, Callable[..., Any]] = {
    "seg": seg,
    "moment": moment,
    "when": _when,
    "dollars": _optional(format_dollars),
    "duration": _optional(format_duration),
    "clock": _optional(format_seconds),
    "score": _optional(format_score),
    "size": _optional(format_size),
    "count": _optional(lambda value: f"{value:,}"),
    "outcome": lambda name: Outcome[name],
    "label": lambda name: Outcome[name].label,
    "plural": pluralize,
    "short": _optional(short),
    "hours": _optional(lambda value: f"{value / 3600:,.0f} h" if value >= 36_000 else format_seconds(value)),
}
