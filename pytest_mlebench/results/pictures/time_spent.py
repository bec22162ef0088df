"""Medals over time spent: what a shorter time limit would have left, and what a medal costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pytest_mlebench.outcomes import BY_NAME
from pytest_mlebench.results.pictures.heat_map import outcome_cell
from pytest_mlebench.results.pictures.runs import KINDS, agents_of
from pytest_mlebench.results.pictures.svg import Panel, Picture, line, marker, n, rect, shortened, text
from pytest_mlebench.results.record import RunRecord

_WIDTH, _LEFT, _TOP, _PLOT, _AXIS = 360, 38, 52, 150, 312
_FAILED = rect(0.5, 0.5, 16, 15, "f-card s-failure dash", radius=2)
_UNITS = (("h", 3600.0), ("min", 60.0), ("s", 1.0))


def time_picture(records: Sequence[RunRecord]) -> Picture:
    """A panel for each agent."""
    agents = agents_of(records)
    longest = max((record.seconds for record in records), default=1.0) or 1.0
    return Picture(
        name="time",
        title="Medals over time spent",
        caption="The share of runs that had ended by each length of time, by what they came to. The top of bronze is "
        "the share with a medal: a time limit that short would have kept at least these.",
        panels=[
            _panel(number, agent, [record for record in records if record.agent == agent], longest, len(agents))
            for number, agent in enumerate(agents)
        ],
    )


def _panel(number: int, agent: str, records: Sequence[RunRecord], longest: float, agents: int) -> Panel:
    unit, seconds = next((unit for unit in _UNITS if longest >= 2 * unit[1]), _UNITS[-1])
    step = _step(longest / seconds)
    end = step * -(-longest / seconds // step) * seconds
    bottom = _TOP + _PLOT

    def x(time: float) -> float:
        return _LEFT + _AXIS * time / end

    def y(runs: int) -> float:
        return bottom - _PLOT * runs / len(records)

    body = [text(16 if agents > 1 else 0, 14, shortened(agent, 44), "h f-ink")]
    if agents > 1:
        body.append(marker(number, 5, 9.5))
    medals = [record for record in records if record.report.any_medal]
    spent = sum(record.seconds for record in records)
    told = _in_words(medals, spent)
    body.append(text(0, 31, told, "f-muted"))
    outcomes = [[record for record in records if record.outcome == name] for name in KINDS]
    outcomes.append([record for record in records if record.outcome not in KINDS])
    kinds = [*KINDS.values(), None]
    # From the back, where all runs are, to the front, where only gold is.
    for k in reversed(range(len(kinds))):
        below = sorted(record.seconds for runs in outcomes[: k + 1] for record in runs)
        if outcomes[k]:
            body.append(_area(below, x, y, f"f-{kinds[k]}" if kinds[k] else "f-card", outlined=kinds[k] is None))
    for share in (0, 25, 50, 75, 100):
        height = bottom - _PLOT * share / 100
        body.append(line(_LEFT, height, _LEFT + _AXIS, height, "s-muted" if not share else "s-line"))
        body.append(text(_LEFT - 5, height + 3.5, f"{share} %" if share == 100 else str(share), "s e f-muted"))
    for k in range(round(end / seconds / step) + 1):
        at = x(k * step * seconds)
        body.append(line(at, bottom, at, bottom + 3, "s-muted"))
        label = f"{k * step:g}" + (f" {unit}" if k == 0 else "")
        body.append(text(at, bottom + 14, label, "s m f-muted"))
    key = [
        (outcome_cell(0, 0, name), f"{BY_NAME[name].category}: {len(runs)}")
        for name, runs in zip(KINDS, outcomes, strict=False)
        if runs
    ]
    if outcomes[-1]:
        key.append((_FAILED, f"no valid submission: {len(outcomes[-1])}"))
    for k, (sign, words) in enumerate(key):
        left, top = 180 * (k % 2), bottom + 26 + 20 * (k // 2)
        body.append(f'<g transform="translate({left} {n(top)})">{sign}{text(23, 12, words)}</g>')
    return Panel(
        name=f"time-{number}",
        title=f"Medals of {agent} over time spent",
        description=told,
        width=_WIDTH,
        height=bottom + 26 + 20 * -(-len(key) // 2),
        body="".join(body),
    )


def _area(
    seconds: Sequence[float],
    x: Callable[[float], float],
    y: Callable[[int], float],
    classes: str,
    *,
    outlined: bool,
) -> str:
    """What lies below the steps of a count that grows by one at each of these times."""
    steps: list[tuple[str, str]] = []
    for k, second in enumerate(seconds, 1):
        at = n(x(second))
        if steps and steps[-1][0] == at:
            steps.pop()
        steps.append((at, n(y(k))))
    start = f"M{_LEFT} {n(y(0))}"
    path = "".join(f"H{at}V{height}" for at, height in steps) + f"H{_LEFT + _AXIS}"
    area = f'<path d="{start}{path}V{n(y(0))}z" class="{classes}"/>'
    return area + (f'<path d="{start}{path}" class="hollow s-failure dash"/>' if outlined else "")


def _in_words(medals: Sequence[RunRecord], spent: float) -> str:
    if not medals:
        return f"no medal in {_hours(spent)} of agent time"
    times = sorted(record.seconds for record in medals)
    half = times[(len(times) - 1) // 2]
    return (
        f"{len(medals)} medal{'s' if len(medals) > 1 else ''} in {_hours(spent)}, {_hours(spent / len(medals))} each; "
        f"half of them within {_hours(half)}"
    )


def _hours(seconds: float) -> str:
    unit, size = next((unit for unit in _UNITS if seconds >= unit[1]), _UNITS[-1])
    amount = seconds / size
    return f"{amount:,.0f} {unit}" if amount >= 100 else f"{amount:.3g} {unit}"


def _step(length: float) -> float:
    """A round distance between ticks, so that there are at most eight."""
    return next(step for step in (0.5, 1, 2, 3, 4, 6, 12, 24, 48, 10**6) if length / step <= 8)
