"""Any-medal rates over time and over money, from snapshots of the submissions, with the final results."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pytest_mlebench.reports.plots.runs import agents_of
from pytest_mlebench.reports.plots.svg import Panel, Plot, line, marker, n, shortened, text
from pytest_mlebench.reports.plots.time_spent import DOLLARS, SECONDS, tick_distance
from pytest_mlebench.results.timelines import Step, Timeline
from pytest_mlebench.runs.record import RunRecord

_WIDTH, _LEFT, _TOP, _PLOT, _AXIS = 380, 38, 34, 170, 322


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
        "final result, the dashed line what the best submissions would have given.",
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
        return _LEFT + _AXIS * min(1.0, amount / end)

    def y(rate: float) -> float:
        return bottom - _PLOT * rate / 100

    body = [text(0, 14, shortened(title, 50), "h f-ink")]
    for share in (0, 25, 50, 75, 100):
        body.append(line(_LEFT, y(share), _LEFT + _AXIS, y(share), "s-muted" if not share else "s-line"))
        body.append(text(_LEFT - 5, y(share) + 3.5, f"{share} %" if share == 100 else str(share), "s e f-muted"))
    for k in range(ticks + 1):
        at = x(k * distance * size)
        body.append(line(at, bottom, at, bottom + 3, "s-muted"))
        body.append(text(at, bottom + 14, f"{k * distance:g}" + (f" {unit}" if k == 0 else ""), "s m f-muted"))
    words = []
    for k, timeline in enumerate(timelines):
        number = agents.index(timeline.agent)
        steps = timeline.over_time if units is SECONDS else timeline.over_cost
        final = timeline.final if units is SECONDS else (steps[-1].rate if steps else 0.0)
        colour = f"s-agent{number % 6}"
        path = _path(steps, x, y, bottom)
        body.append(f'<path d="{path}" class="hollow {colour}" stroke-width="2"/>')
        if units is SECONDS and timeline.best > timeline.final:
            level = n(y(timeline.best))
            body.append(f'<path d="M{_LEFT} {level}H{_LEFT + _AXIS}" class="hollow dash {colour}" stroke-width="1"/>')
        body.append(marker(number, _LEFT + _AXIS, y(final), 5))
        said = f"{timeline.agent}: {final:.1f} % at the end"
        if timeline.medals_lost:
            said += f", {timeline.best:.1f} % with each run's best"
        words.append(said)
        top = bottom + 34 + 18 * k
        body.append(marker(number, 6, top - 4))
        body.append(text(18, top, shortened(said, 62)))
    return Panel(
        name=name,
        title=f"Any-medal rate on {title}",
        description="; ".join(words),
        width=_WIDTH,
        height=bottom + 30 + 18 * len(timelines),
        body="".join(body),
    )


def _path(steps: Sequence[Step], x: Callable[[float], float], y: Callable[[float], float], bottom: float) -> str:
    return f"M{_LEFT} {n(bottom)}" + "".join(f"H{n(x(s.amount))}V{n(y(s.rate))}" for s in steps) + f"H{_LEFT + _AXIS}"
