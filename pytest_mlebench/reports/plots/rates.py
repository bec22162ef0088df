"""Plots of any-medal rates: by split with the published results, and over time and cost from snapshots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import ceil, isnan, log10

from pytest_mlebench.io.units import pluralize
from pytest_mlebench.records.outcome import FAILURES, Outcome
from pytest_mlebench.records.record import RunRecord
from pytest_mlebench.reports.palette import AGENTS
from pytest_mlebench.reports.plots import svg
from pytest_mlebench.reports.plots.svg import Panel, Plot
from pytest_mlebench.results.overview import SPLITS, PublishedResult, RateStep, Timeline
from pytest_mlebench.results.statistics import Interval, Rate
from pytest_mlebench.results.summary import SplitSummary, split_rank

_RATES_WIDTH, _ROW, _RATES_TOP = 400, 24, 42
_NAME, _VALUE = 176, 84
"""Widths of the names on the left and the numbers on the right of the axis."""
_BEST = 5
"""Number of comparable published results that are always shown."""


@dataclass(frozen=True)
class _Line:
    name: str
    rate: Rate
    number: int | None = None  # index of an agent of this report; None for a published result
    comparable: bool = True
    interval: Interval | None = None


def medal_rates(
    summaries: Sequence[SplitSummary], published: Sequence[PublishedResult], *, agents: Sequence[str]
) -> Plot:
    """Plot a panel for each split, with the best comparable published results and those nearest to ours."""
    splits = sorted({summary.split for summary in summaries}, key=lambda split: (split != "all", split_rank(split)))
    chosen = _chosen(published, summaries)
    panels = []
    for k, split in enumerate(splits):
        lines = [
            _Line(_name_of(summary), summary.any_medal, agents.index(summary.label), interval=summary.interval)
            for summary in summaries
            if summary.split == split and not isnan(summary.any_medal.mean)
        ]
        lines += [
            _Line(_published_name(result), result.rates[split], comparable=result.comparable)
            for result in chosen
            if split in result.rates
        ]
        ordered = sorted(lines, key=lambda line: -line.rate.mean)
        panels.append(_rates_panel(k, split, ordered))
    notes = sorted({result.note for result in chosen if not result.comparable})
    return Plot(
        name="rates",
        title="Any-medal rates" + (" and published results" if chosen else ""),
        caption="Percentage of competitions with a medal ± standard error.",
        more="The thick whisker is the standard error over seeds; the thin one is the 95 % interval over competitions."
        + (" Filled marks are this report’s agents, rings are published results." if chosen else "")
        + (f" † not comparable ({', '.join(notes)})." if notes else ""),
        panels=panels,
        columns=4,
    )


def _chosen(published: Sequence[PublishedResult], summaries: Sequence[SplitSummary]) -> list[PublishedResult]:
    if not any(summary.split in result.rates for result in published for summary in summaries):
        return []
    comparable = sorted((r for r in published if r.comparable), key=lambda r: -r.rates["all"].mean)
    chosen = comparable[:_BEST]
    for summary in summaries:
        if summary.split == "all":
            better = [r for r in comparable if r.rates["all"].mean >= summary.any_medal.mean]
            chosen += [*better[-1:], *comparable[len(better) : len(better) + 1]]
    floor = min((result.rates["all"].mean for result in comparable[:_BEST]), default=0.0)
    chosen += [r for r in published if not r.comparable and r.rates["all"].mean >= floor]
    return [result for result in published if any(result is other for other in chosen)]


def _name_of(summary: SplitSummary) -> str:
    if summary.is_provisional:
        return f"{summary.label} (provisional)"
    whole = summary.covers_split or summary.split not in SPLITS
    return summary.label + ("" if whole else f" ({pluralize(summary.competitions, 'competition')} only)")


def _published_name(result: PublishedResult) -> str:
    name = f"{result.agent} · {result.llm}"
    if result.hours not in (24, None):
        name += f", {result.hours:g} h"
    return name if result.comparable else f"† {name}"


def _rates_panel(number: int, split: str, lines: Sequence[_Line]) -> Panel:
    bottom = _RATES_TOP + _ROW * len(lines)
    body = [svg.text(-_NAME, 14, split, "h f-ink")]
    for tick in (0, 25, 50, 75, 100):
        body.append(svg.line(svg.at(tick / 100), _RATES_TOP - 4, svg.at(tick / 100), bottom))
        if tick % 50 == 0:  # more labels would not fit on a phone
            body.append(
                svg.text(svg.at(tick / 100), _RATES_TOP - 9, f"{tick} %" if tick == 100 else str(tick), "s m f-muted")
            )
    for k, row in enumerate(lines):
        body += _row(_RATES_TOP + k * _ROW, row)
    return Panel(
        name=f"rates-{number}",
        title=f"Any-medal rates on split {split}",
        description="; ".join(f"{row.name}: {row.rate}" for row in lines),
        width=_RATES_WIDTH,
        height=bottom,
        body="".join(body),
        margins=(_NAME, _VALUE),
    )


def _row(y: float, row: _Line) -> list[str]:
    """Draw a name, its mark with whiskers, and its rate on one line."""
    mean, error = row.rate.mean, row.rate.standard_error
    is_ours = row.number is not None
    style = "f-ink b" if is_ours else "f-ink" if row.comparable else "f-muted"
    colour = f"agent{row.number % AGENTS}" if row.number is not None else "muted"
    middle = y + _ROW / 2
    body = [
        svg.line(-_NAME, y, "100%", y),
        svg.named(
            row.name,
            svg.text(-_NAME, middle + 4, svg.fitting(row.name, (_NAME - 10) * (0.85 if is_ours else 1)), style),
        ),
        svg.text("100%", middle + 4, f"{mean:.1f}{row.rate.spread}", f"e {style}", dx=_VALUE),
    ]
    if row.interval is not None:
        body.append(
            svg.line(svg.at(row.interval.low / 100), middle, svg.at(row.interval.high / 100), middle, f"s-{colour}")
        )
    if error:
        low, high = svg.at(max(0, mean - error) / 100), svg.at(min(100, mean + error) / 100)
        body.append(svg.line(low, middle, high, middle, f"s-{colour}", width=3 if is_ours else 1.2))
    x = svg.at(mean / 100)
    if row.number is not None:
        return [*body, svg.marker(row.number, x, middle, 5)]
    dash = "" if row.comparable else " dash"
    return [*body, f'<circle cx="{x}" cy="{svg.n(middle)}" r="3.5" class="f-paper s-muted{dash}" stroke-width="1.5"/>']


_WIDTH, _LEFT, _RIGHT, _TOP, _PLOT = 440, 42, 104, 34, 200
_CURVE = 1000.0
"""Width of the viewBox of curves."""
_INFINITE = 1e300
"""Amounts from here on are drawn at the end of the axis."""
_LINE = 14
"""Minimum vertical distance between two labels."""


Units = tuple[tuple[str, float], ...]
"""Units with their sizes in seconds or dollars, in descending order."""


@dataclass(frozen=True)
class _Axis:
    """An axis from 0 to ``end``, in seconds or dollars. Ticks are ``distance`` apart, in ``unit``."""

    unit: str
    distance: float
    ticks: int
    end: float

    @classmethod
    def to(cls, largest: float, units: Units) -> _Axis:
        largest = largest if largest < _INFINITE else _INFINITE  # also if it is not a number
        unit, size = next((unit for unit in units if largest >= 2 * unit[1]), units[-1])
        distance = tick_distance(largest / size)
        ticks = max(1, -int(-largest / size // distance))
        return cls(unit, distance, ticks, distance * ticks * size)

    def position(self, amount: float) -> float:
        """The position of this amount, from 0 to ``_CURVE``."""
        return min(_CURVE, _CURVE * amount / self.end)


def over_time_plot(
    records: Sequence[RunRecord], timelines: Sequence[Timeline], *, agents: Sequence[str]
) -> Plot | None:
    """Plot a panel for each split over time, and one over cost; None if no run has snapshots."""
    if not any(timeline.with_snapshots for timeline in timelines):
        return None
    panels: list[Panel] = []
    for split in dict.fromkeys(timeline.split for timeline in timelines):
        of_split = [timeline for timeline in timelines if timeline.split == split]
        runs = [record for record in records if record.split == split]
        longest = max((record.seconds for record in runs), default=0.0)
        panels.append(_panel(f"over-time-{len(panels)}", f"{split}, over time", of_split, agents, longest, SECONDS))
        highest = max((record.cost or 0.0 for record in runs), default=0.0)
        priced = [timeline for timeline in of_split if timeline.priced]
        if highest and priced:
            panels.append(_panel(f"over-cost-{len(panels)}", f"{split}, over cost", priced, agents, highest, DOLLARS))
    return Plot(
        name="over-time",
        title="Any-medal rates while agents ran",
        caption="Percentage of runs whose submission at that time or cost would have earned a medal.",
        more="A line falls when an agent replaces a medal-winning submission with a worse one. The mark at the right "
        "is the final rate; the dashed line is the rate if each run had kept its best submission.",
        panels=panels,
    )


def _panel(
    name: str, title: str, timelines: Sequence[Timeline], agents: Sequence[str], largest: float, units: Units
) -> Panel:
    axis = _Axis.to(largest, units)
    bottom = _TOP + _PLOT

    def y(rate: float) -> float:
        return bottom - _PLOT * rate / 100

    body = [svg.text(-_LEFT, 14, svg.shortened(title, 50), "h f-ink")]
    body += svg.grid(_PLOT, bottom, axis.ticks, axis.distance, axis.unit)
    descriptions, curves, ends = [], [], []
    for timeline in timelines:
        number = agents.index(timeline.agent)
        steps = timeline.over_time if units is SECONDS else timeline.over_cost
        final = timeline.final if units is SECONDS else (steps[-1].rate if steps else 0.0)
        colour = f"s-agent{number % AGENTS}"
        path = _path(steps, axis.position, y, bottom)
        curves.append(f'<path d="{path}" class="hollow {colour}" stroke-width="2"/>')
        if units is SECONDS and timeline.best > timeline.final:
            body.append(svg.line(0, y(timeline.best), "100%", y(timeline.best), f"dash {colour}"))
        ends.append((y(final), number, timeline.agent, f"{final:.0f} %"))
        description = f"{timeline.agent}: {final:.1f} % at the end"
        if timeline.medals_lost:
            description += f", {timeline.best:.1f} % with each run's best"
        descriptions.append(description)
    body.append(svg.stretched(_CURVE, bottom, "".join(curves)))
    body += _labels(ends)
    return Panel(
        name=name,
        title=f"Any-medal rate on {title}",
        description="; ".join(descriptions),
        width=_WIDTH,
        height=bottom + 22 + max(0, _LINE * len(ends) - _PLOT),
        body="".join(body),
        margins=(_LEFT, _RIGHT),
    )


def _labels(ends: Sequence[tuple[float, int, str, str]]) -> list[str]:
    """Draw each agent's mark at the end of its line, and names that do not overlap."""
    found, last = [], 0.0
    for y, number, agent, rate in sorted(ends):
        last = max(y, last + _LINE)
        found.append(svg.marker(number, "100%", y, 5))
        label = svg.text("100%", last + 4, f"{svg.fitting(agent, _RIGHT - 46)} {rate}", dx=11)
        found.append(svg.named(agent, label))
    return found


def _path(steps: Sequence[RateStep], x: Callable[[float], float], y: Callable[[float], float], bottom: float) -> str:
    corners = "".join(f"H{svg.n(x(step.amount))}V{svg.n(y(step.rate))}" for step in steps)
    return f"M0 {svg.n(bottom)}{corners}H{svg.n(_CURVE)}"


_SPENT_WIDTH, _SPENT_RIGHT, _SPENT_TOP, _SPENT_HEIGHT = 400, 14, 54, 160
_FAILED = svg.rect(0.5, 0.5, 16, 15, "f-card s-failure dash", radius=2)
SECONDS = (("h", 3600.0), ("min", 60.0), ("s", 1.0))
DOLLARS = (("$", 1.0), ("¢", 0.01), ("m$", 0.001), ("µ$", 0.000001))


@dataclass(frozen=True)
class _Quantity:
    """Time or cost: the amount that a run spent, its units, and words for it."""

    amount: Callable[[RunRecord], float]
    units: Units
    name: str
    of_agents: str

    def in_words(self, amount: float) -> str:
        unit, size = next((unit for unit in self.units if amount >= unit[1]), self.units[-1])
        number = amount / size
        return f"{number:,.0f} {unit}" if number >= 100 else f"{number:.3g} {unit}"


_TIME = _Quantity(lambda record: record.seconds, SECONDS, "time", " of agent time")
_COST = _Quantity(lambda record: record.cost or 0.0, DOLLARS, "cost", "")


def time_plot(records: Sequence[RunRecord], *, agents: Sequence[str]) -> Plot:
    """Plot a panel for each agent."""
    return Plot(
        name="time",
        title="Medals over time",
        caption="Percentage of runs that had ended by each time, by outcome.",
        more="The top edge of bronze is the share of runs with a medal by that time.",
        panels=_panels(records, _TIME, agents),
    )


def cost_plot(records: Sequence[RunRecord], *, agents: Sequence[str]) -> Plot | None:
    """Plot a panel for each agent; None if no run has a known cost."""
    known = [record for record in records if record.cost is not None]
    if not any(record.cost for record in known):
        return None
    unknown = sum(bool(record.usage.calls) and record.cost is None for record in records)
    return Plot(
        name="cost",
        title="Medals over cost",
        caption="Percentage of runs that cost no more than each amount, by outcome.",
        more="The top edge of bronze is the share of runs with a medal at that cost."
        + (f" Left out: {pluralize(unknown, 'run')} with unknown cost." if unknown else ""),
        panels=_panels(known, _COST, agents),
    )


def _panels(records: Sequence[RunRecord], quantity: _Quantity, agents: Sequence[str]) -> list[Panel]:
    longest = max(map(quantity.amount, records), default=1.0) or 1.0
    runs = [[record for record in records if record.agent == agent] for agent in agents]
    return [_spent_panel(k, found, longest, len(agents), quantity) for k, found in enumerate(runs) if found]


def _spent_panel(number: int, records: Sequence[RunRecord], longest: float, agents: int, quantity: _Quantity) -> Panel:
    agent = records[0].agent
    axis = _Axis.to(longest, quantity.units)
    bottom = _SPENT_TOP + _SPENT_HEIGHT

    def y(runs: int) -> float:
        return bottom - _SPENT_HEIGHT * runs / len(records)

    body = [svg.text(16 - _LEFT if agents > 1 else -_LEFT, 14, svg.fitting(agent, 270), "h f-ink")]
    if agents > 1:
        body.append(svg.marker(number, 5 - _LEFT, 9.5))
    medals = [record for record in records if record.report.any_medal]
    summary = _totals(medals, sum(map(quantity.amount, records)), quantity)
    body.append(svg.text(-_LEFT, 33, summary, "f-muted"))
    # By outcome, best first; all failures form one group.
    ranked = sorted(records, key=lambda record: min(record.outcome.rank, FAILURES[0].rank))
    runs = {outcome: list(of) for outcome, of in groupby(ranked, lambda r: r.outcome if r.outcome.passed else None)}
    curves: list[str] = []
    below: list[float] = []
    for outcome, with_outcome in runs.items():
        below = sorted([*below, *map(quantity.amount, with_outcome)])
        curves.insert(0, _area(below, axis.position, y, outcome))  # gold in front, all runs at the back
    body.append(svg.stretched(_CURVE, bottom, "".join(curves)))
    body += svg.grid(_SPENT_HEIGHT, bottom, axis.ticks, axis.distance, axis.unit)
    for k, (outcome, with_outcome) in enumerate(runs.items()):
        left, top = 170 * (k % 2) - _LEFT, bottom + 28 + 20 * (k // 2)
        cell, what = (svg.outcome_cell(0, 0, outcome), outcome.label) if outcome else (_FAILED, "no valid submission")
        label = svg.text(24, 13, f"{what}: {len(with_outcome)}")
        body.append(f'<g transform="translate({left} {svg.n(top)})">{cell}{label}</g>')
    return Panel(
        name=f"{quantity.name}-{number}",
        title=f"Medals of {agent} over {quantity.name}",
        description=summary,
        width=_SPENT_WIDTH,
        height=bottom + 28 + 20 * -(-len(runs) // 2),
        body="".join(body),
        margins=(_LEFT, _SPENT_RIGHT),
    )


def _area(
    amounts: Sequence[float], x: Callable[[float], float], y: Callable[[int], float], outcome: Outcome | None
) -> str:
    """Draw the area below a step curve that rises by one at each amount; for failures with an outline."""
    # At equal positions, the last one wins.
    steps = {svg.n(x(amount)): svg.n(y(k)) for k, amount in enumerate(amounts, 1)}
    path = f"M0 {svg.n(y(0))}" + "".join(f"H{at}V{height}" for at, height in steps.items()) + f"H{svg.n(_CURVE)}"
    area = f'<path d="{path}V{svg.n(y(0))}z" class="f-{outcome.colour if outcome else "card"}"/>'
    return area if outcome else f'{area}<path d="{path}" class="hollow s-failure dash"/>'


def _totals(medals: Sequence[RunRecord], spent: float, quantity: _Quantity) -> str:
    if not medals:
        return f"no medal in {quantity.in_words(spent)}{quantity.of_agents}"
    amounts = sorted(map(quantity.amount, medals))
    half = amounts[(len(amounts) - 1) // 2]
    return (
        f"{pluralize(len(medals), 'medal')} in {quantity.in_words(spent)}, "
        f"{quantity.in_words(spent / len(medals))} each; half of them within {quantity.in_words(half)}"
    )


def tick_distance(length: float) -> float:
    """Return a round distance between ticks that gives at most eight of them."""
    steps = (0.5, 1, 2, 3, 4, 6, 12, 24, 48, 100, 200, 500, 1000)
    return next((step for step in steps if length / step <= 8), 10.0 ** ceil(log10(max(1.0, length / 8))))
