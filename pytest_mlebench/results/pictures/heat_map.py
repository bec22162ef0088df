"""Competitions × seeds: the outcome of every run, agents side by side."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pytest_mlebench.outcomes import BY_NAME
from pytest_mlebench.results.group import RunKey
from pytest_mlebench.results.pictures.runs import KINDS, agents_of, heading, splits_of
from pytest_mlebench.results.pictures.svg import Panel, Picture, line, marker, n, rect, safe, shortened, text
from pytest_mlebench.results.record import OUTCOMES, RunRecord

_CELL, _ROW, _LABEL, _GAP, _TOP = 18, 17, 196, 8, 46
_WIDTH = 360


def heat_map(records: Sequence[RunRecord], planned: Collection[RunKey] = ()) -> Picture:
    """A panel for each split, the best competitions first. Planned runs without a record are marked as such."""
    panels = [_panel(split, records, planned) for split in splits_of(records)]
    return Picture(
        name="outcomes",
        title="Every run’s outcome",
        caption="A row for each competition, a cell for each seed; the competitions with the best outcomes first. "
        "Filled cells are valid submissions, outlined ones are runs without.",
        panels=[*panels, _legend(records, planned)],
    )


def _panel(split: str, records: Sequence[RunRecord], planned: Collection[RunKey]) -> Panel:
    own = [record for record in records if record.split == split]
    runs = {RunKey(r.agent, r.competition_id, r.seed): r for r in own}
    competitions = sorted({record.competition_id for record in own}, key=lambda id: (_mean_rank(id, own), id))
    keys = {*runs, *(key for key in planned if key.competition_id in competitions)}
    columns = {
        agent: sorted({key.seed for key in keys if key.agent == agent}) for agent in sorted({key.agent for key in keys})
    }
    everyone = agents_of(records)
    body = [text(0, 14, heading(split, len(competitions)), "h f-ink")]
    x, starts = float(_LABEL), {}
    for agent, seeds in columns.items():
        starts[agent] = x
        if len(everyone) > 1:
            body.append(marker(everyone.index(agent), x + _CELL * len(seeds) / 2, 25))
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
                if key in keys:
                    body.append(_cell(starts[agent] + k * _CELL, y, key, runs.get(key)))
    medals = sum(record.report.any_medal for record in own)
    return Panel(
        name=f"outcomes-{split}",
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
        f"{safe(f'{key.competition_id}, {key.agent}, seed {key.seed}: {BY_NAME[record.outcome].category}')}</title>"
        f"{outcome_cell(x, y, record.outcome)}</g>"
    )


def outcome_cell(x: float, y: float, outcome: str) -> str:
    """The sign of an outcome, in a field of 18 × 17 pixels."""
    letter = BY_NAME[outcome].letter
    if kind := KINDS.get(outcome):
        box, ink = rect(x, y, _CELL - 1, _ROW - 1, f"f-{kind}", radius=2), f"f-on-{kind}"
    else:
        dashes = " dash" if outcome == "error" else ""
        box, ink = rect(x + 0.5, y + 0.5, _CELL - 2, _ROW - 2, f"hollow s-failure{dashes}", radius=2), "f-failure"
    return box + f'<text x="{n(x + 8.5)}" y="{n(y + 12)}" class="c m {ink}">{letter}</text>'


def _legend(records: Sequence[RunRecord], planned: Collection[RunKey]) -> Panel:
    there = {record.outcome for record in records}
    names = [name for name in OUTCOMES if name in there]
    body = []
    for k, name in enumerate(names):
        x, y = 180 * (k % 2), _ROW * 1.3 * (k // 2)
        count = sum(record.outcome == name for record in records)
        body.append(outcome_cell(x, y, name) + text(x + 26, y + 12, f"{BY_NAME[name].category}: {count}"))
    y = _ROW * 1.3 * ((len(names) + 1) // 2)
    missing = len(set(planned) - {RunKey(r.agent, r.competition_id, r.seed) for r in records})
    if missing:
        body.append(line(6, y + 8, 10, y + 8, "s-muted") + text(26, y + 12, f"without a record so far: {missing}"))
        y += _ROW * 1.3
    agents = agents_of(records)
    if len(agents) > 1:
        for number, agent in enumerate(agents):
            body.append(marker(number, 8, y + 8) + text(26, y + 12, shortened(agent, 56)))
            y += _ROW
    return Panel(
        name="outcomes-key",
        title="What the signs mean",
        description="; ".join(f"{BY_NAME[name].letter}: {BY_NAME[name].category}" for name in names),
        width=_WIDTH,
        height=y,
        body="".join(body),
    )


def _mean_rank(competition_id: str, records: Sequence[RunRecord]) -> float:
    ranks = [OUTCOMES.index(record.outcome) for record in records if record.competition_id == competition_id]
    return sum(min(rank, len(KINDS)) for rank in ranks) / len(ranks)
