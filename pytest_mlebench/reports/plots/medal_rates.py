"""Any-medal rates by split with their standard errors, among the published results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan

from pytest_mlebench.io.units import pluralize
from pytest_mlebench.reports.palette import AGENTS
from pytest_mlebench.reports.plots.svg import Panel, Plot, at, fitting, line, marker, n, named, text
from pytest_mlebench.results.published import SPLITS, PublishedResult
from pytest_mlebench.results.statistics import Interval, Rate
from pytest_mlebench.results.summary import SplitSummary, split_rank

_WIDTH, _ROW, _TOP = 400, 24, 42
_NAME, _VALUE = 176, 84
"""What the names on the left and the numbers on the right of the axis take."""


@dataclass(frozen=True)
class _Line:
    name: str
    rate: Rate
    number: int | None = None  # an agent of this group, not a published one
    comparable: bool = True
    interval: Interval | None = None


def medal_rates(
    summaries: Sequence[SplitSummary],
    published: Sequence[PublishedResult] = (),
    *,
    best: int = 5,
    agents: Sequence[str] = (),
) -> Plot:
    """A panel for each split, with the ``best`` comparable results that are published and those nearest to ours."""
    agents = agents or sorted({summary.label for summary in summaries})
    splits = sorted({summary.split for summary in summaries}, key=lambda split: (split != "all", split_rank(split)))
    chosen = _chosen(published, summaries, best)
    panels = []
    for k, split in enumerate(splits):
        lines = [
            _Line(_own_name(summary), summary.any_medal, agents.index(summary.label), interval=summary.interval)
            for summary in summaries
            if summary.split == split and not isnan(summary.any_medal.mean)
        ]
        lines += [
            _Line(_published_name(result), result.rates[split], comparable=result.comparable)
            for result in chosen
            if split in result.rates
        ]
        ordered = sorted(lines, key=lambda line: -line.rate.mean)
        panels.append(_panel(k, split, ordered))
    notes = sorted({result.note for result in chosen if not result.comparable})
    return Plot(
        name="rates",
        title="Any-medal rates" + (" among the published ones" if chosen else ""),
        caption="Percentage of competitions with a medal ± standard error.",
        more="The thick whisker is the standard error over seeds; the thin one is the 95 % interval over competitions."
        + (" Filled marks are this report’s agents, rings are published results." if chosen else "")
        + (f" † does not compare ({', '.join(notes)})." if notes else ""),
        panels=panels,
        columns=4,
    )


def _chosen(
    published: Sequence[PublishedResult], summaries: Sequence[SplitSummary], best: int
) -> list[PublishedResult]:
    if not any(summary.split in result.rates for result in published for summary in summaries):
        return []
    comparable = sorted((r for r in published if r.comparable), key=lambda r: -r.rates["all"].mean)
    chosen = comparable[:best]
    for summary in summaries:
        if summary.split == "all":
            better = [r for r in comparable if r.rates["all"].mean >= summary.any_medal.mean]
            chosen += [*better[-1:], *comparable[len(better) : len(better) + 1]]
    floor = min((result.rates["all"].mean for result in comparable[:best]), default=0.0)
    chosen += [r for r in published if not r.comparable and r.rates["all"].mean >= floor]
    return [result for result in published if any(result is one for one in chosen)]


def _own_name(summary: SplitSummary) -> str:
    if summary.is_provisional:
        return f"{summary.label} (provisional)"
    whole = summary.covers_split or summary.split not in SPLITS
    return summary.label + ("" if whole else f" ({pluralize(summary.competitions, 'competition')} only)")


def _published_name(result: PublishedResult) -> str:
    name = f"{result.agent} · {result.llm}"
    if result.hours not in (24, None):
        name += f", {result.hours:g} h"
    return name if result.comparable else f"† {name}"


def _panel(number: int, split: str, lines: Sequence[_Line]) -> Panel:
    bottom = _TOP + _ROW * len(lines)
    body = [text(-_NAME, 14, split, "h f-ink")]
    for tick in (0, 25, 50, 75, 100):
        body.append(line(at(tick / 100), _TOP - 4, at(tick / 100), bottom))
        if tick % 50 == 0:  # on a phone there is no room for more
            body.append(text(at(tick / 100), _TOP - 9, f"{tick} %" if tick == 100 else str(tick), "s m f-muted"))
    for k, one in enumerate(lines):
        body += _row(_TOP + k * _ROW, one)
    return Panel(
        name=f"rates-{number}",
        title=f"Any-medal rates on split {split}",
        description="; ".join(f"{one.name}: {one.rate}" for one in lines),
        width=_WIDTH,
        height=bottom,
        body="".join(body),
        margins=(_NAME, _VALUE),
    )


def _row(y: float, one: _Line) -> list[str]:
    """A name, its mark with a whisker, and its number, on one line."""
    mean, error = one.rate.mean, one.rate.standard_error
    own = one.number is not None
    style = "f-ink b" if own else "f-ink" if one.comparable else "f-muted"
    colour = f"agent{one.number % AGENTS}" if one.number is not None else "muted"
    middle = y + _ROW / 2
    body = [
        line(-_NAME, y, "100%", y),
        named(one.name, text(-_NAME, middle + 4, fitting(one.name, (_NAME - 10) * (0.85 if own else 1)), style)),
        text("100%", middle + 4, f"{mean:.1f}{one.rate.spread}", f"e {style}").replace(
            "<text ", f'<text dx="{_VALUE}" ', 1
        ),
    ]
    if one.interval is not None:
        body.append(line(at(one.interval.low / 100), middle, at(one.interval.high / 100), middle, f"s-{colour}"))
    if error:
        low, high = at(max(0, mean - error) / 100), at(min(100, mean + error) / 100)
        body.append(line(low, middle, high, middle, f"s-{colour}", width=3 if own else 1.2))
    if one.number is not None:
        return [*body, marker(one.number, at(mean / 100), middle, 5)]
    dash = "" if one.comparable else " dash"
    circle = (
        f'<circle cx="{at(mean / 100)}" cy="{n(middle)}" r="3.5" class="f-paper s-muted{dash}" stroke-width="1.5"/>'
    )
    return [*body, circle]
