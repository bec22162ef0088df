"""Plots of run groups as self-contained SVG, for the HTML report and as files.

This module draws the plots that show every run: outcomes by competition and seed, and scores on the leaderboards.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median

from pytest_mlebench.catalog import Leaderboard, default_catalogue, medal_ranks
from pytest_mlebench.defaults import MEDALS
from pytest_mlebench.errors import UsageError
from pytest_mlebench.io.units import pluralize
from pytest_mlebench.records.outcome import FAILURES, Outcome
from pytest_mlebench.records.record import RunKey, RunRecord
from pytest_mlebench.reports.plots import svg
from pytest_mlebench.reports.plots.rates import cost_plot, medal_rates, over_time_plot, time_plot
from pytest_mlebench.reports.plots.svg import Panel, Plot
from pytest_mlebench.reports.tables import in_order
from pytest_mlebench.results.overview import Overview, published_results, timelines
from pytest_mlebench.results.summary import split_rank


def plots(view: Overview) -> list[Plot]:
    """Return all plots of run groups, the grid of outcomes first; empty if no run has a record."""
    records = view.records
    if not records:
        return []
    # Rates on unverified data are not comparable with the published results.
    published = () if any(summary.unverified for summary in view.summaries) else published_results()
    agents = agents_in(view)
    drawn = [heat_map(records, view.planned, agents=agents), medal_rates(view.summaries, published, agents=agents)]
    real = [record for record in records if not record.is_twin]  # twins have different leaderboards
    catalogue, ids = default_catalogue(), {record.competition_id for record in real}
    if boards := {id: catalogue[id].leaderboard for id in catalogue.ids if id in ids}:
        drawn.append(score_plot(real, boards, run_numbers(records), agents=agents))
    optional = [
        over_time_plot(records, timelines(records), agents=agents),
        time_plot(records, agents=agents),
        cost_plot(records, agents=agents),
    ]
    return [*drawn, *(plot for plot in optional if plot is not None)]


def agents_in(view: Overview) -> list[str]:
    """Return all agents, even without records, so that an agent has the same mark in every plot."""
    return sorted({key.agent for key in view.planned} | {record.agent for record in view.records})


def write_plots(view: Overview, folder: Path) -> list[Path]:
    """Write each plot as ``<name>.svg`` and return the files; raises UsageError if that fails."""
    drawn = {folder / f"{plot.name}.svg": plot for plot in plots(view)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, plot in drawn.items():
            path.write_text(plot.file(), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"plots cannot be written to {folder}: {error.strerror}; name another folder") from error
    return list(drawn)


def run_numbers(records: Iterable[RunRecord]) -> dict[RunKey, int]:
    """Return each run's index in the table of runs, which links marks to rows."""
    return {record.key: number for number, record in enumerate(in_order(records))}


def medal_shares(board: Leaderboard) -> Mapping[str, float]:
    """Return the percentage of teams that the last team with each medal beats."""
    return {medal: 100 * (1 - rank / board.teams) for medal, rank in medal_ranks(board.teams).items()}


def share_beaten(board: Leaderboard, score: float | None) -> float | None:
    """Return the percentage of teams that a score beats or equals; None for no score.

    Like ``Leaderboard.percentile``, but also uses the medal thresholds, because gold may require the top 0.3 %. A mark
    is therefore always in the area of its medal.
    """
    if score is None or math.isnan(score):
        return None
    positions = [(100.0 - p, threshold) for p, threshold in enumerate(board.percentiles, 1)]
    positions += [(share, getattr(board, medal)) for medal, share in medal_shares(board).items()]
    if not board.percentiles:
        positions.append((50.0, board.median))
    met = (share for share, s in positions if (score <= s if board.lower_is_better else score >= s))
    return max(met, default=0.0)


_TOP, _WIDTH, _LEFT, _RIGHT = 48, 420, 206, 10
_STEP = 6.0
TICKS = (0, 25, 50, 75, 90, 99)
_AREAS = MEDALS[::-1]


@dataclass(frozen=True)
class _Marks:
    """The marks of runs: one for each of ``agents``, with the number of each run in the table of runs."""

    agents: Sequence[str]
    numbers: Mapping[RunKey, int]

    @property
    def row_height(self) -> float:
        """Height of a row, in which each agent has its own line."""
        return 13 + _STEP * len(self.agents)


def score_plot(
    records: Sequence[RunRecord],
    leaderboards: Mapping[str, Leaderboard],
    numbers: Mapping[RunKey, int],
    *,
    agents: Sequence[str],
) -> Plot:
    """Plot a panel for each split, with a row for each competition in ``leaderboards``.

    ``numbers`` are those of ``run_numbers`` for all runs of the report.
    """
    shown = [record for record in records if record.competition_id in leaderboards]
    unknown = {record.competition_id for record in records} - leaderboards.keys()
    marks = _Marks(agents, numbers)
    panels = [
        _panel(k, split, [record for record in shown if record.split == split], leaderboards, marks)
        for k, split in enumerate(sorted({record.split for record in shown}, key=split_rank))
    ]
    return Plot(
        name="scores",
        title="Scores on the leaderboards",
        caption="Percentage of the leaderboard's teams that each run beats.",
        more="The scale is expanded towards the top. Marks in the coloured areas earned bronze, silver or gold. "
        "The number next to a name counts runs without a score."
        + (f" Competitions without a known leaderboard are left out: {len(unknown)}." if unknown else ""),
        panels=[*panels, _legend(), *svg.agents_key("scores", agents)],
    )


def position(share: float) -> float:
    """Return the axis position, from 0 to 1, of a percentage of teams; the top tenth gets a third of the axis."""
    return 1 - math.sqrt(max(0.0, 100 - share) / 100)


def medal_areas(board: Leaderboard, y: float, height: float) -> str:
    """Draw the areas of the medals on the axis of ``position``."""
    shares = medal_shares(board)
    edges = [*(position(shares[medal]) for medal in _AREAS), 1.0]
    return "".join(
        svg.rect(svg.at(begin), y, svg.at(end - begin), height, f"f-{medal} faint")
        for medal, (begin, end) in zip(_AREAS, pairwise(edges), strict=True)
    )


def _x(share: float) -> str:
    return svg.at(position(share))


def _panel(
    panel: int, split: str, records: Sequence[RunRecord], leaderboards: Mapping[str, Leaderboard], marks: _Marks
) -> Panel:
    by_competition: dict[str, list[tuple[RunRecord, float | None]]] = {}
    for record in records:
        share = share_beaten(leaderboards[record.competition_id], record.score)
        by_competition.setdefault(record.competition_id, []).append((record, share))

    def typical(id: str) -> float:
        return median(-1.0 if share is None else share for _, share in by_competition[id])

    height = marks.row_height
    bottom = _TOP + height * len(by_competition)
    body = [svg.text(-_LEFT, 14, f"{split} · {pluralize(len(by_competition), 'competition')}", "h f-ink")]
    body.append(svg.text("100%", 27, "% of teams beaten", "s e f-muted"))
    body += [svg.text(_x(tick), _TOP - 7, str(tick), "s m f-muted") for tick in TICKS]
    rows = [
        _row(_TOP + k * height, id, by_competition[id], leaderboards[id], marks)
        for k, id in enumerate(sorted(by_competition, key=lambda id: (-typical(id), id)))
    ]
    body += [areas for areas, _ in rows]
    body += [svg.line(_x(tick), _TOP - 3, _x(tick), bottom) for tick in TICKS if tick != 50]
    body.append(svg.line(_x(50), _TOP - 3, _x(50), bottom, "s-muted dash"))
    body += [row for _, row in rows]
    scored = [share for runs in by_competition.values() for _, share in runs if share is not None]
    return Panel(
        name=f"scores-{panel}",
        title=f"Scores on split {split} against the leaderboards",
        description=f"{len(scored)} of {pluralize(len(records), 'run')} with a score"
        + (f"; the median run beats {median(scored):.0f} % of the teams." if scored else "."),
        width=_WIDTH,
        height=bottom + 4,
        body="".join(body),
        margins=(_LEFT, _RIGHT),
    )


def _row(
    y: float, id: str, runs: Sequence[tuple[RunRecord, float | None]], board: Leaderboard, marks: _Marks
) -> tuple[str, str]:
    """Return the medal areas, which are drawn below the grid, and the row itself, drawn above it."""
    height, agents = marks.row_height, marks.agents
    base = y + height / 2 + 4
    body = [svg.named(id, svg.text(-_LEFT, base, svg.fitting(id, _LEFT - 26)))]
    body.append(svg.line(0, y + height - 0.5, "100%", y + height - 0.5))
    without = sum(share is None for _, share in runs)
    if without:
        body.append(svg.text(-6, base, f"{without}×", "s e f-failure"))
    for record, share in runs:
        if share is None:
            continue
        number = agents.index(record.agent)
        middle = y + height / 2 + (number - (len(agents) - 1) / 2) * _STEP
        label = f"{record.agent}, seed {record.seed}: {record.score:.5f} beats {share:.1f} % ({record.outcome.label})"
        mark = svg.marker(number, _x(share), middle, 3.5 if len(agents) > 1 else 4.5)
        body.append(svg.named(label, mark, run=marks.numbers[record.key]))
    return medal_areas(board, y + 1, height - 2), "".join(body)


def _legend() -> Panel:
    body = [
        svg.rect(90 * k, 0, 17, 15, f"f-{medal} faint") + svg.text(90 * k + 23, 11.5, medal)
        for k, medal in enumerate(_AREAS)
    ]
    return Panel(
        name="scores-key",
        title="What the areas mean",
        description=f"Areas: ranks of {', '.join(MEDALS)}.",
        width=300,
        height=18,
        body="".join(body),
        is_key=True,
    )


_LABEL, _GAP, _MAP_TOP = 190, 8, 48
_MAP_WIDTH = 340
_NAME = 76
"""Minimum width of an agent's columns, so that its name fits above them."""


def heat_map(records: Sequence[RunRecord], planned: Mapping[RunKey, str], *, agents: Sequence[str]) -> Plot:
    """Plot a panel for each split, best competitions first. ``planned`` maps planned runs to their splits."""
    splits = {record.key: record.split for record in records} | dict(planned)
    marks = _Marks(agents, run_numbers(records))
    panels = [
        _map_panel(k, split, {key for key in splits if splits[key] == split}, records, marks)
        for k, split in enumerate(sorted(set(splits.values()), key=split_rank))
    ]
    return Plot(
        name="outcomes",
        title="Every run’s outcome",
        caption="A row for each competition, best first; a cell for each seed.",
        more="Filled cells are valid submissions; outlined cells are runs without one.",
        panels=[
            *panels,
            _map_legend(records, len(splits) - len({record.key for record in records})),
            *svg.agents_key("outcomes", agents),
        ],
    )


def _map_panel(number: int, split: str, keys: Set[RunKey], records: Sequence[RunRecord], marks: _Marks) -> Panel:
    agents = marks.agents
    runs = {record.key: record for record in records if record.split == split}
    finished = list(runs.values())
    competitions = sorted({key.competition_id for key in keys}, key=lambda id: (_mean_rank(id, finished), id))
    columns: dict[str, list[int]] = {}
    for agent, seed in sorted({(key.agent, key.seed) for key in keys}):
        columns.setdefault(agent, []).append(seed)
    body = [svg.text(0, 14, f"{split} · {pluralize(len(competitions), 'competition')}", "h f-ink")]
    x, starts, widths = float(_LABEL), {}, {}
    for agent, seeds in columns.items():
        starts[agent] = x
        widths[agent] = cell = max(svg.CELL, _NAME / len(seeds) if len(agents) > 1 else 0)
        if len(agents) > 1:
            name = svg.text(x + 13, 29, svg.fitting(agent, cell * len(seeds) - 13), "s f-ink")
            body.append(svg.named(agent, svg.marker(agents.index(agent), x + 5, 25) + name))
        body += [svg.text(x + cell * (k + 0.5), _MAP_TOP - 5, str(seed), "s m f-muted") for k, seed in enumerate(seeds)]
        x += cell * len(seeds) + _GAP
    body.append(svg.text(_LABEL - 10, _MAP_TOP - 5, "seed", "s e f-muted"))
    for row, id in enumerate(competitions):
        y = _MAP_TOP + row * svg.CELL
        body.append(svg.named(id, svg.text(0, y + 13, svg.fitting(id, _LABEL - 12))))
        for agent, seeds in columns.items():
            for k, seed in enumerate(seeds):
                key = RunKey(agent, id, seed)
                if key in keys:
                    x = starts[agent] + k * widths[agent]
                    body.append(_cell(x, y, widths[agent], marks.numbers.get(key), runs.get(key)))
    medals = sum(record.report.any_medal for record in finished)
    width = max(starts[agent] + widths[agent] * len(seeds) for agent, seeds in columns.items())
    return Panel(
        name=f"outcomes-{number}",
        title=f"Outcomes of the runs on split {split}",
        description=f"{medals} of {len(finished)} runs earned a medal. The table of runs lists all runs.",
        width=max(_MAP_WIDTH, width),
        height=_MAP_TOP + svg.CELL * len(competitions),
        body="".join(body),
    )


def _cell(x: float, y: float, width: float, number: int | None, record: RunRecord | None) -> str:
    if record is None:
        return svg.line(x + width / 2 - 2, y + svg.CELL / 2, x + width / 2 + 2, y + svg.CELL / 2, "s-muted")
    label = f"{record.agent}, seed {record.seed}: {record.outcome.label}"
    return svg.named(label, svg.outcome_cell(x, y, record.outcome, width), run=number)


def _map_legend(records: Sequence[RunRecord], missing: int) -> Panel:
    counts = Counter(record.outcome for record in records)
    outcomes = sorted(counts, key=lambda outcome: outcome.rank)
    body = []
    for k, outcome in enumerate(outcomes):
        x, y = 160 * (k % 2), svg.CELL * 1.3 * (k // 2)
        body.append(svg.outcome_cell(x, y, outcome) + svg.text(x + 26, y + 12, f"{outcome.label}: {counts[outcome]}"))
    y = svg.CELL * 1.3 * ((len(outcomes) + 1) // 2)
    if missing:
        body.append(svg.line(6, y + 8, 10, y + 8, "s-muted") + svg.text(26, y + 12, f"without a record yet: {missing}"))
        y += svg.CELL * 1.3
    return Panel(
        name="outcomes-key",
        title="What the symbols mean",
        description="; ".join(f"{outcome.letter}: {outcome.label}" for outcome in outcomes),
        width=_MAP_WIDTH,
        height=y,
        body="".join(body),
        is_key=True,
    )


def _mean_rank(competition_id: str, records: Sequence[RunRecord]) -> float:
    outcomes = [record.outcome for record in records if record.competition_id == competition_id]
    # All failures have the same rank.
    return fmean(min(outcome.rank, FAILURES[0].rank) for outcome in outcomes) if outcomes else len(Outcome)
