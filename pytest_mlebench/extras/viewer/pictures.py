"""Pictures of one run and of one competition, drawn like the report's plots."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from pytest_mlebench.catalog import Leaderboard
from pytest_mlebench.extras.viewer.index import ListedRun
from pytest_mlebench.io.units import format_dollars, format_duration, format_score, pluralize
from pytest_mlebench.records.outcome import TimelinePoint
from pytest_mlebench.records.record import RunRecord
from pytest_mlebench.reports.palette import AGENTS
from pytest_mlebench.reports.plots import TICKS, medal_areas, position, share_beaten
from pytest_mlebench.reports.plots.rates import SECONDS, tick_distance
from pytest_mlebench.reports.plots.svg import Panel, at, fitting, line, marker, named, rect, safe, stretched, text

_LEFT, _RIGHT, _TOP, _PLOT, _CALLS = 74, 92, 14, 170, 46
_BUCKETS = 120


@dataclass(frozen=True)
class CallMark:
    """A model call in a picture: when it began in seconds, its tokens and cost, if known, and whether it failed."""

    seconds: float
    tokens: int
    cost: float | None
    failed: bool


def run_timeline(
    record: RunRecord, calls: Sequence[CallMark], link: str, *, cost: str = "", name: str = "timeline"
) -> Markup:
    """Draw the scores of a run's submissions over time, with the medal thresholds and the model calls.

    Each mark links to ``link`` followed by its second. ``cost`` is that of all calls, which may be more than ``calls``.
    """
    end = max([record.seconds, *(point.seconds for point in record.timeline), 1.0])
    unit, size = next((unit for unit in SECONDS if end >= 2 * unit[1]), SECONDS[-1])
    distance = tick_distance(end / size)
    bottom = _TOP + _PLOT
    scores = [p.score for p in record.timeline if p.score is not None and math.isfinite(p.score)]
    body: list[str] = []
    if scores:
        body += _scores(record, scores, end, bottom, link)
    else:
        bottom = _TOP
    foot = bottom
    if calls:
        foot = bottom + 22 + _CALLS
        body += _calls(calls, end, foot)
        if cost:
            body.append(_at_the_end(foot - 2, cost))
    for k in range(int(end / size / distance + 1e-9) + 1):
        x = at(min(1.0, k * distance * size / end))
        body.append(line(x, foot, x, foot + 4, "s-muted"))
        body.append(text(x, foot + 17, f"{k * distance:g}" + (f" {unit}" if k == 0 else ""), "s m f-muted"))
    body.append(line(0, foot, "100%", foot, "s-muted"))
    words = [f"{pluralize(len(record.timeline), 'submission')} in {format_duration(record.seconds)}"]
    words += [f"after {format_duration(p.seconds)} {format_score(p.score)}" for p in record.timeline[-20:]]
    panel = Panel(
        name=name,
        title="Submissions over time",
        description="; ".join(words),
        width=640,
        height=foot + 24,
        body="".join(body),
        margins=(_LEFT, _RIGHT),
    )
    return Markup(panel.svg().replace(' role="img"', ' role="group"', 1))  # its marks are links


def _scores(record: RunRecord, scores: Sequence[float], end: float, bottom: float, link: str) -> list[str]:
    thresholds = {name: value for name, value in record.thresholds.items() if math.isfinite(value)}
    low, high = min([*scores, *thresholds.values()]), max([*scores, *thresholds.values()])
    spread = max(thresholds.values(), default=high) - min(thresholds.values(), default=low)
    if spread and (high - low) > 12 * spread:  # an extreme score would flatten all others
        middle = thresholds.get("median", scores[-1])
        low, high = max(low, middle - 6 * spread), min(high, middle + 6 * spread)
    if high <= low:
        low, high = low - 1, high + 1

    def y(score: float) -> float:
        share = (min(high, max(low, score)) - low) / (high - low)
        return bottom - 8 - (_PLOT - 16) * (1 - share if record.report.is_lower_better else share)

    body, last = [], -99.0
    for place, name in sorted((y(value), name) for name, value in thresholds.items()):
        colour = "above" if name == "median" else name
        body.append(line(0, place, "100%", place, f"dash s-{colour}", width=1.5))
        last = max(place, last + 13)
        body.append(_at_the_end(last + 4, name))
    body += [text(-8, y(end_of_axis) + 4, f"{end_of_axis:.4g}", "s e f-muted") for end_of_axis in (high, low)]
    path, previous = "", None
    for point in record.timeline:
        if point.score is None or not math.isfinite(point.score):
            continue
        x, height = 1000 * point.seconds / end, y(point.score)
        path += f"M{x:.1f} {height:.1f}" if previous is None else f"H{x:.1f}V{height:.1f}"
        previous = height
    body.append(stretched(1000, bottom, f'<path d="{path}H1000" class="hollow s-agent0" stroke-width="2"/>'))
    for point in record.timeline:
        is_placed = point.score is not None and math.isfinite(point.score)
        body.append(_mark(point, end, y(point.score or 0.0) if is_placed else bottom - 8, link))
    return body


def _mark(point: TimelinePoint, end: float, height: float, link: str) -> str:
    label = f"after {format_duration(point.seconds)}: " + (
        format_score(point.score) if point.score is not None else f"not valid: {point.error or 'no score'}"
    )
    label += f", {point.medal}" if point.medal else ""
    label += f", {pluralize(point.calls, 'call')}" if point.calls is not None else ""
    label += f", {format_dollars(point.cost)}" if point.cost is not None else ""
    label += ", the last one" if point.final else ""
    colour = f"f-{point.medal}" if point.medal else "f-failure" if point.score is None else "f-agent0"
    radius = 6.5 if point.final else 5
    x = at(min(1.0, point.seconds / end))
    shape = (
        f'<circle cx="{x}" cy="{height:.1f}" r="{radius}" class="{colour} s-ink" stroke-width="1.5"/>'
        if point.score is not None
        else f'<text x="{x}" y="{height + 4:.1f}" class="c m f-failure">✕</text>'
    )
    return _linked(f"{link}{point.seconds:.0f}", label, shape)


def _linked(href: str, label: str, shape: str) -> str:
    return f'<a href="{href}" class="mark" aria-label="{safe(label)}"><title>{safe(label)}</title>{shape}</a>'


def _calls(calls: Sequence[CallMark], end: float, foot: float) -> list[str]:
    """Draw tokens over time as bars, and mark failed calls."""
    tokens, failed = [0] * _BUCKETS, [0] * _BUCKETS
    for call in calls:
        k = min(_BUCKETS - 1, max(0, int(_BUCKETS * call.seconds / end)))
        tokens[k] += call.tokens
        failed[k] += call.failed
    most = max(tokens) or 1
    body = [
        text(-8, foot - _CALLS + 10, "tokens", "s e f-muted"),
        text(-8, foot - 2, f"≤ {short(most)}", "s e f-muted"),
    ]
    bars = []
    for k, count in enumerate(tokens):
        if count:
            height = max(1.5, _CALLS * count / most)
            bars.append(rect(1000 * k / _BUCKETS, foot - height, 1000 / _BUCKETS - 1.5, height, "f-agent0 faint"))
        if failed[k]:
            bars.append(rect(1000 * k / _BUCKETS, foot - 4, 1000 / _BUCKETS - 1.5, 4, "f-failure"))
    body.append(stretched(1000, foot, "".join(bars)))
    return body


def _at_the_end(y: float, label: str) -> str:
    """Return a label after the end of the axis."""
    return text("100%", y, label, "s f-muted", dx=12)


def short(count: int) -> str:
    """Format a count in a few characters."""
    return f"{count / 1e6:.1f} M" if count >= 1e6 else f"{count / 1e3:.0f} k" if count >= 1000 else str(count)


_ROW, _NAME = 26, 200


def leaderboard(board: Leaderboard, runs: Sequence[ListedRun], link: Callable[[ListedRun], str]) -> Markup:
    """Draw runs with a score on the scale of the leaderboard, one row for each agent and group, with areas for medals.

    Each mark links to the ``link`` of its run.
    """
    rows = list(dict.fromkeys(f"{run.agent} · {run.group_name}" for run in runs))[:60]
    bottom = 26 + _ROW * len(rows)
    body = [medal_areas(board, 20, bottom - 20)]
    for share in TICKS:
        x = at(position(share))
        body.append(line(x, 20, x, bottom, "s-line"))
        body.append(text(x, 14, f"{share} %" if share == 0 else str(share), "s m f-muted"))
    for k, name in enumerate(rows):
        y = 20 + _ROW * (k + 0.5) + 3
        body.append(line(0, y, "100%", y, "s-line"))
        body.append(named(name, text(-10, y + 4, fitting(name, _NAME - 14), "row-name e f-ink")))
    for run in runs:
        row, beaten = f"{run.agent} · {run.group_name}", share_beaten(board, run.score)
        if row in rows and beaten is not None:
            k = rows.index(row)
            label = f"{run.agent}, seed {run.seed} in {run.group_name}: {format_score(run.score)}, {run.result.label}"
            sign = marker(k % (AGENTS * AGENTS), at(position(beaten)), 20 + _ROW * (k + 0.5) + 3, 5.5)
            body.append(_linked(link(run), label, sign))
    panel = Panel(
        name="leaderboard",
        title="Runs on the leaderboard",
        description=f"{pluralize(len(runs), 'run')} with a score; the table has each.",
        width=640,
        height=bottom + 6,
        body="".join(body),
        margins=(_NAME, 16),
    )
    return Markup(panel.svg().replace(' role="img"', ' role="group"', 1))  # its marks are links
