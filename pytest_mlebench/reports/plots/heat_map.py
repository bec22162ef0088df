"""Competitions × seeds: the outcome of every run, agents side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean

from pytest_mlebench.reports.plots.runs import heading
from pytest_mlebench.reports.plots.svg import Panel, Plot, line, marker, n, rect, safe, shortened, text
from pytest_mlebench.results.summary import split_rank
from pytest_mlebench.runs.outcome import FAILURES, Outcome
from pytest_mlebench.runs.record import RunKey, RunRecord

_CELL, _ROW, _LABEL, _GAP, _TOP = 18, 17, 196, 8, 46
_WIDTH = 360


def heat_map(records: Sequence[RunRecord], planned: Mapping[RunKey, str] | None = None) -> Plot:
    """A panel for each split, the best competitions first. ``planned`` is the split of each planned run."""
    splits = {record.key: record.split for record in records} | dict(planned or {})
    agents = sorted({key.agent for key in splits})
    panels = [
        _panel(k, split, [key for key in splits if splits[key] == split], records, agents)
        for k, split in enumerate(sorted(set(splits.values()), key=split_rank))
    ]
    return Plot(
        name="outcomes",
        title="Every run’s outcome",
        caption="A row for each competition, a cell for each seed; the competitions with the best outcomes first. "
        "Filled cells are valid submissions, outlined ones are runs without.",
        panels=[*panels, _legend(records, len(splits) - len({record.key for record in records}), agents)],
    )


def _panel(
    number: int, split: str, keys: Sequence[RunKey], records: Sequence[RunRecord], agents: Sequence[str]
) -> Panel:
    runs = {record.key: record for record in records if record.split == split}
    own = list(runs.values())
    competitions = sorted({key.competition_id for key in keys}, key=lambda id: (_mean_rank(id, own), id))
    wanted = set(keys)
    columns = {
        agent: sorted({key.seed for key in keys if key.agent == agent}) for agent in sorted({key.agent for key in keys})
    }
    body = [text(0, 14, heading(split, len(competitions)), "h f-ink")]
    x, starts = float(_LABEL), {}
    for agent, seeds in columns.items():
        starts[agent] = x
        if len(agents) > 1:
            body.append(marker(agents.index(agent), x + _CELL * len(seeds) / 2, 25))
        body += [text(x + _CELL * (k + 0.5), _TOP - 5, str(seed), "s m f-muted") for k, seed in enumerate(seeds)]
        x += _CELL * len(seeds) + _GAP
    body.append(text(_LABEL - 10, _TOP - 5, "seed", "s e f-muted"))
    for row, id in enumerate(competitions):
        y = _TOP + row * _ROW
        label = text(0, y + 12, shortened(id, 28), "f-ink")
        body.append(f"<g><title>{safe(id)}</title>{label}</g>")
        for agent, seeds in columns.items():
            for k, seed in enumerate(seeds):
                key = RunKey(agent, id, seed)
                if key in wanted:
                    body.append(_cell(starts[agent] + k * _CELL, y, key, runs.get(key)))
    medals = sum(record.report.any_medal for record in own)
    return Panel(
        name=f"outcomes-{number}",
        title=f"Outcomes of the runs on split {split}",
        description=f"{medals} of {len(own)} runs earned a medal. The table of runs has every one.",
        width=max(_WIDTH, x - _GAP),
        height=_TOP + _ROW * len(competitions),
        body="".join(body),
    )


def _cell(x: float, y: float, key: RunKey, record: RunRecord | None) -> str:
    if record is None:
        return line(x + 6, y + _ROW / 2, x + 10, y + _ROW / 2, "s-muted")
    return (
        f'<g data-run="{safe(record.run_id)}"><title>'
        f"{safe(f'{key.competition_id}, {key.agent}, seed {key.seed}: {record.outcome.label}')}</title>"
        f"{outcome_cell(x, y, record.outcome)}</g>"
    )


def outcome_cell(x: float, y: float, outcome: Outcome) -> str:
    """The sign of an outcome, in a field of 18 × 17 pixels."""
    if outcome.passed:
        box, ink = rect(x, y, _CELL - 1, _ROW - 1, f"f-{outcome.colour}", radius=2), f"f-on-{outcome.colour}"
    else:
        dashes = " dash" if outcome is Outcome.error else ""
        box, ink = rect(x + 0.5, y + 0.5, _CELL - 2, _ROW - 2, f"hollow s-failure{dashes}", radius=2), "f-failure"
    return box + f'<text x="{n(x + 8.5)}" y="{n(y + 12)}" class="c m {ink}">{outcome.letter}</text>'


def _legend(records: Sequence[RunRecord], missing: int, agents: Sequence[str]) -> Panel:
    counts = Counter(record.outcome for record in records)
    outcomes = sorted(counts, key=lambda outcome: outcome.rank)
    body = []
    for k, outcome in enumerate(outcomes):
        x, y = 180 * (k % 2), _ROW * 1.3 * (k // 2)
        body.append(outcome_cell(x, y, outcome) + text(x + 26, y + 12, f"{outcome.label}: {counts[outcome]}"))
    y = _ROW * 1.3 * ((len(outcomes) + 1) // 2)
    if missing:
        body.append(line(6, y + 8, 10, y + 8, "s-muted") + text(26, y + 12, f"without a record yet: {missing}"))
        y += _ROW * 1.3
    if len(agents) > 1:
        for number, agent in enumerate(agents):
            body.append(marker(number, 8, y + 8) + text(26, y + 12, shortened(agent, 56)))
            y += _ROW
    return Panel(
        name="outcomes-key",
        title="What the signs mean",
        description="; ".join(f"{outcome.letter}: {outcome.label}" for outcome in outcomes),
        width=_WIDTH,
        height=y,
        body="".join(body),
    )


def _mean_rank(competition_id: str, records: Sequence[RunRecord]) -> float:
    own = [record.outcome for record in records if record.competition_id == competition_id]
    # All failures count alike.
    return fmean(min(outcome.rank, FAILURES[0].rank) for outcome in own) if own else len(Outcome)
