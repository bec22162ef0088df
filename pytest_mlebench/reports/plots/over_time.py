"""Any-medal rates over time and over money, from snapshots of the submissions, with the final results."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pytest_mlebench.reports.plots.runs import agents_of
from pytest_mlebench.reports.plots.svg import (
    Panel,
    Plot,
    fitting,
    grid,
    line,
    marker,
    n,
    named,
    shortened,
    stretched,
    text,
)
from pytest_mlebench.reports.plots.time_spent import DOLLARS, SECONDS, tick_distance
from pytest_mlebench.results.timelines import Step, Timeline
from pytest_mlebench.runs.record import RunRecord

_WIDTH, _LEFT, _RIGHT, _TOP, _PLOT = 440, 42, 104, 34, 200
_CURVE = 1000.0
"""The width that curves are drawn for."""
_LINE = 14
"""The least distance of two labels."""


def over_time_plot(records: Sequence[RunRecord], timelines: Sequence[Timeline]) -> Plot | None:
    """A panel for each split, over time and over money; None where no run has snapshots."""
    if not any(timeline.with_snapshots for timeline in timelines):
        return None
    agents = agents_of(records)
    panels: list[Panel] = []
    for split in dict.fromkeys(timeline.split for timeline in timelines):
        own = [timeline for timeline in timelines if timeline.split == split]
        runs = [record for record in records if record.split == split]
        longest = max((record.seconds for record in runs), default=0.0)
        panels.append(_panel(f"over-time-{len(panels)}", f"{split}, over time", own, agents, longest, SECONDS))
        dearest = max((record.cost or 0.0 for record in runs), default=0.0)
        priced = [timeline for timeline in own if timeline.priced]
        if dearest and priced:
            panels.append(_panel(f"over-cost-{len(panels)}", f"{split}, over money", priced, agents, dearest, DOLLARS))
    return Plot(
        name="over-time",
        title="Any-medal rates while agents ran",
        caption="The share of runs whose submission would have earned a medal at each time, or after each amount spent "
        "on models. Where a line falls, a medal was given up for a worse submission. The mark at the right is the "
        "final result, the dashed line what each run’s best submission would have given.",
        panels=panels,
    )


def _panel(
    name: str,
    title: str,
    timelines: Sequence[Timeline],
    agents: Sequence[str],
    largest: float,
    units: tuple[tuple[str, float], ...],
) -> Panel:
    unit, size = next((unit for unit in units if largest >= 2 * unit[1]), units[-1])
    distance = tick_distance(largest / size)
    ticks = max(1, -int(-largest / size // distance))
    end = distance * ticks * size
    bottom = _TOP + _PLOT

    def x(amount: float) -> float:
        return _CURVE * min(1.0, amount / end)

    def y(rate: float) -> float:
        return bottom - _PLOT * rate / 100

    body = [text(-_LEFT, 14, shortened(title, 50), "h f-ink")]
    body += grid(_PLOT, bottom, ticks, distance, unit)
    words, curves, ends = [], [], []
    for timeline in timelines:
        number = agents.index(timeline.agent)
        steps = timeline.over_time if units is SECONDS else timeline.over_cost
        final = timeline.final if units is SECONDS else (steps[-1].rate if steps else 0.0)
        colour = f"s-agent{number % 6}"
        path = _path(steps, x, y, bottom)
        curves.append(f'<path d="{path}" class="hollow {colour}" stroke-width="2"/>')
        if units is SECONDS and timeline.best > timeline.final:
            body.append(line(0, y(timeline.best), "100%", y(timeline.best), f"dash {colour}"))
        ends.append((y(final), number, timeline.agent, f"{final:.0f} %"))
        said = f"{timeline.agent}: {final:.1f} % at the end"
        if timeline.medals_lost:
            said += f", {timeline.best:.1f} % with each run's best"
        words.append(said)
    body.append(stretched(_CURVE, bottom, "".join(curves)))
    body += _labels(ends)
    return Panel(
        name=name,
        title=f"Any-medal rate on {title}",
        description="; ".join(words),
        width=_WIDTH,
        height=bottom + 22 + max(0, _LINE * len(ends) - _PLOT),
        body="".join(body),
        margins=(_LEFT, _RIGHT),
    )


def _labels(ends: Sequence[tuple[float, int, str, str]]) -> list[str]:
    """The agents' marks at the ends of their lines, each with its name, none over another."""
    found, last = [], 0.0
    for y, number, agent, rate in sorted(ends):
        last = max(y, last + _LINE)
        found.append(marker(number, "100%", y, 5))
        shown = text("100%", last + 4, f"{fitting(agent, _RIGHT - 46)} {rate}").replace("<text ", '<text dx="11" ', 1)
        found.append(named(agent, shown))
    return found


def _path(steps: Sequence[Step], x: Callable[[float], float], y: Callable[[float], float], bottom: float) -> str:
    return f"M0 {n(bottom)}" + "".join(f"H{n(x(s.amount))}V{n(y(s.rate))}" for s in steps) + f"H{n(_CURVE)}"
