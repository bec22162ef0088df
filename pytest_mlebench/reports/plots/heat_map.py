"""Competitions × seeds: the outcome of every run, agents side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean

from pytest_mlebench.records.outcome import FAILURES, Outcome
from pytest_mlebench.records.record import RunKey, RunRecord
from pytest_mlebench.reports.plots.runs import heading, run_numbers
from pytest_mlebench.reports.plots.svg import Panel, Plot, agents_key, fitting, line, marker, n, named, rect, safe, text
from pytest_mlebench.results.summary import split_rank

_CELL, _ROW, _LABEL, _GAP, _TOP = 18, 18, 190, 8, 48
_WIDTH = 340
_NAME = 76
"""The least width of an agent's columns, so that its name fits over them."""


def heat_map(
    records: Sequence[RunRecord], planned: Mapping[RunKey, str] | None = None, *, agents: Sequence[str] = ()
) -> Plot:
    """A panel for each split, the best competitions first. ``planned`` is the split of each planned run."""
    splits = {record.key: record.split for record in records} | dict(planned or {})
    agents = agents or sorted({key.agent for key in splits})
    numbers = run_numbers(records)
    panels = [
        _panel(k, split, [key for key in splits if splits[key] == split], records, agents, numbers)
        for k, split in enumerate(sorted(set(splits.values()), key=split_rank))
    ]
    return Plot(
        name="outcomes",
        title="Every run’s outcome",
        caption="A row for each competition, the best first; a cell for each seed.",
        more="Filled cells are valid submissions; outlined cells are runs without one.",
        panels=[
            *panels,
            _legend(records, len(splits) - len({record.key for record in records})),
            *agents_key("outcomes", agents),
        ],
    )


def _panel(
    number: int,
    split: str,
    keys: Sequence[RunKey],
    records: Sequence[RunRecord],
    agents: Sequence[str],
    numbers: Mapping[RunKey, int],
) -> Panel:
    runs = {record.key: record for record in records if record.split == split}
    own = list(runs.values())
    competitions = sorted({key.competition_id for key in keys}, key=lambda id: (_mean_rank(id, own), id))
    wanted = set(keys)
    columns = {
        agent: sorted({key.seed for key in keys if key.agent == agent}) for agent in sorted({key.agent for key in keys})
    }
    body = [text(0, 14, heading(split, len(competitions)), "h f-ink")]
    x, starts, widths = float(_LABEL), {}, {}
    for agent, seeds in columns.items():
        starts[agent] = x
        widths[agent] = cell = max(_CELL, _NAME / len(seeds) if len(agents) > 1 else 0)
        if len(agents) > 1:
            name = text(x + 13, 29, fitting(agent, cell * len(seeds) - 13), "s f-ink")
            body.append(named(agent, marker(agents.index(agent), x + 5, 25) + name))
        body += [text(x + cell * (k + 0.5), _TOP - 5, str(seed), "s m f-muted") for k, seed in enumerate(seeds)]
        x += cell * len(seeds) + _GAP
    body.append(text(_LABEL - 10, _TOP - 5, "seed", "s e f-muted"))
    for row, id in enumerate(competitions):
        y = _TOP + row * _ROW
        body.append(named(id, text(0, y + 13, fitting(id, _LABEL - 12))))
        for agent, seeds in columns.items():
            for k, seed in enumerate(seeds):
                key = RunKey(agent, id, seed)
                if key in wanted:
                    x = starts[agent] + k * widths[agent]
                    body.append(_cell(x, y, widths[agent], numbers.get(key), runs.get(key)))
    medals = sum(record.report.any_medal for record in own)
    width = max(starts[agent] + widths[agent] * len(seeds) for agent, seeds in columns.items())
    return Panel(
        name=f"outcomes-{number}",
        title=f"Outcomes of the runs on split {split}",
        description=f"{medals} of {len(own)} runs earned a medal. The table of runs has every one.",
        width=max(_WIDTH, width),
        height=_TOP + _ROW * len(competitions),
        body="".join(body),
    )


def _cell(x: float, y: float, width: float, number: int | None, record: RunRecord | None) -> str:
    if record is None:
        return line(x + width / 2 - 2, y + _ROW / 2, x + width / 2 + 2, y + _ROW / 2, "s-muted")
    return (
        f'<g data-run="{number}"><title>'
        f"{safe(f'{record.agent}, seed {record.seed}: {record.outcome.label}')}</title>"
        f"{outcome_cell(x, y, record.outcome, width)}</g>"
    )


def outcome_cell(x: float, y: float, outcome: Outcome, width: float = _CELL) -> str:
    """The sign of an outcome, in a field of 18 pixels' height."""
    if outcome.passed:
        box, ink = rect(x, y, width - 1, _ROW - 1, f"f-{outcome.colour}", radius=2), f"f-on-{outcome.colour}"
    else:
        dashes = " dash" if outcome is Outcome.error else ""
        box, ink = rect(x + 0.5, y + 0.5, width - 2, _ROW - 2, f"hollow s-failure{dashes}", radius=2), "f-failure"
    return box + f'<text x="{n(x + (width - 1) / 2)}" y="{n(y + 12.5)}" class="c m {ink}">{outcome.letter}</text>'


def _legend(records: Sequence[RunRecord], missing: int) -> Panel:
    counts = Counter(record.outcome for record in records)
    outcomes = sorted(counts, key=lambda outcome: outcome.rank)
    body = []
    for k, outcome in enumerate(outcomes):
        x, y = 160 * (k % 2), _ROW * 1.3 * (k // 2)
        body.append(outcome_cell(x, y, outcome) + text(x + 26, y + 12, f"{outcome.label}: {counts[outcome]}"))
    y = _ROW * 1.3 * ((len(outcomes) + 1) // 2)
    if missing:
        body.append(line(6, y + 8, 10, y + 8, "s-muted") + text(26, y + 12, f"without a record yet: {missing}"))
        y += _ROW * 1.3
    return Panel(
        name="outcomes-key",
        title="What the signs mean",
        description="; ".join(f"{outcome.letter}: {outcome.label}" for outcome in outcomes),
        width=_WIDTH,
        height=y,
        body="".join(body),
        is_key=True,
    )


def _mean_rank(competition_id: str, records: Sequence[RunRecord]) -> float:
    own = [record.outcome for record in records if record.competition_id == competition_id]
    # All failures count alike.
    return fmean(min(outcome.rank, FAILURES[0].rank) for outcome in own) if own else len(Outcome)
