"""Any-medal rates by split with their standard errors, among the published results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan

from pytest_mlebench.io.units import pluralize
from pytest_mlebench.reports.plots.svg import Panel, Plot, at, fitting, line, marker, named, text
from pytest_mlebench.results.published import SPLITS, PublishedResult
from pytest_mlebench.results.statistics import Rate
from pytest_mlebench.results.summary import SplitSummary, split_rank

_WIDTH, _ROW, _TOP = 280, 32, 38
_MARGIN = 6
_ALONE = 350
"""The width of a panel without another beside it, which leaves room for longer names."""


@dataclass(frozen=True)
class _Line:
    name: str
    rate: Rate
    number: int | None = None  # an agent of this group, not a published one
    comparable: bool = True


def medal_rates(summaries: Sequence[SplitSummary], published: Sequence[PublishedResult] = (), *, best: int = 5) -> Plot:
    """A panel for each split, with the ``best`` comparable results that are published and those nearest to ours."""
    agents = sorted({summary.label for summary in summaries})
    splits = sorted({summary.split for summary in summaries}, key=lambda split: (split != "all", split_rank(split)))
    chosen = _chosen(published, summaries, best)
    panels = []
    for k, split in enumerate(splits):
        lines = [
            _Line(_own_name(summary), summary.any_medal, agents.index(summary.label))
            for summary in summaries
            if summary.split == split and not isnan(summary.any_medal.mean)
        ]
        lines += [
            _Line(_published_name(result), result.rates[split], comparable=result.comparable)
            for result in chosen
            if split in result.rates
        ]
        ordered = sorted(lines, key=lambda line: -line.rate.mean)
        panels.append(_panel(k, split, ordered, _WIDTH if len(splits) > 1 else _ALONE))
    notes = sorted({result.note for result in chosen if not result.comparable})
    return Plot(
        name="rates",
        title="Any-medal rates" + (" among the published ones" if chosen else ""),
        caption="Per cent of the competitions with a medal, mean over seeds ± standard error. "
        + ("Filled marks are this report’s agents, rings are published results" if chosen else "")
        + (f"; † does not compare ({', '.join(notes)})" if notes else "")
        + ("." if chosen else ""),
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


def _panel(number: int, split: str, lines: Sequence[_Line], width: float) -> Panel:
    bottom = _TOP + _ROW * len(lines)

    def x(rate: float) -> str:
        return at(rate / 100)

    body = [text(-_MARGIN, 14, f"{split}", "h f-ink")]
    for tick in (0, 25, 50, 75, 100):
        body.append(line(x(tick), _TOP - 6, x(tick), bottom - 2))
        body.append(
            text(
                x(tick),
                _TOP - 10,
                f"{tick} %" if tick == 100 else str(tick),
                f"s {'e' if tick == 100 else 'm'} f-muted",
            )
        )
    for k, one in enumerate(lines):
        if k:
            body.append(line(-_MARGIN, _TOP + k * _ROW - 3.5, "100%", _TOP + k * _ROW - 3.5))
        y, mean, error = _TOP + k * _ROW, one.rate.mean, one.rate.standard_error
        own = one.number is not None
        style = "f-ink b" if own else "f-ink" if one.comparable else "f-muted"
        shown = f"{mean:.1f}{one.rate.spread}"
        body.append(
            named(one.name, text(-_MARGIN, y + 9.5, fitting(one.name, (width - 64) * (0.85 if own else 1)), style))
        )
        body.append(text("100%", y + 9.5, shown, f"e {style}"))
        middle = y + 19
        colour = f"agent{one.number % 6}" if one.number is not None else "muted"
        if error:
            low, high = x(max(0, mean - error)), x(min(100, mean + error))
            bold = 2 if own else 1.2
            body.append(line(low, middle, high, middle, f"s-{colour}", width=bold))
            body += [line(end, middle - 3, end, middle + 3, f"s-{colour}", width=bold) for end in (low, high)]
        if one.number is not None:
            body.append(marker(one.number, x(mean), middle, 5))
        else:
            dash = "" if one.comparable else " dash"
            body.append(
                f'<circle cx="{x(mean)}" cy="{middle}" r="3.5" class="f-paper s-muted{dash}" stroke-width="1.5"/>'
            )
    return Panel(
        name=f"rates-{number}",
        title=f"Any-medal rates on split {split}",
        description="; ".join(f"{one.name}: {one.rate}" for one in lines),
        width=width,
        height=bottom,
        body="".join(body),
        margins=(_MARGIN, _MARGIN),
    )
