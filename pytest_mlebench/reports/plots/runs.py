"""What several plots need of runs: their agents and splits, and the shares of teams that they beat."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from pytest_mlebench.catalog import Leaderboard, default_catalogue, medal_ranks
from pytest_mlebench.catalog.leaderboard import MEDALS
from pytest_mlebench.io.units import pluralize
from pytest_mlebench.records.record import RunKey, RunRecord
from pytest_mlebench.reports.medals import in_order
from pytest_mlebench.reports.plots.svg import (
    Panel,
    Plot,
    agents_key,
    at,
    fitting,
    line,
    marker,
    named,
    rect,
    safe,
    text,
)
from pytest_mlebench.results.summary import split_rank


def agents_of(records: Iterable[RunRecord]) -> list[str]:
    return sorted({record.agent for record in records})


def splits_of(records: Iterable[RunRecord]) -> list[str]:
    return sorted({record.split for record in records}, key=split_rank)


def run_numbers(records: Iterable[RunRecord]) -> dict[RunKey, int]:
    """The place of each run in the table of runs, by which a mark finds its row."""
    return {record.key: number for number, record in enumerate(in_order(records))}


def heading(split: str, competitions: int) -> str:
    """What stands over the panel of a split."""
    return f"{split} · {pluralize(competitions, 'competition')}"


def known_leaderboards(records: Iterable[RunRecord]) -> dict[str, Leaderboard]:
    """The leaderboards of those competitions that are bundled."""
    catalogue = default_catalogue()
    ids = {record.competition_id for record in records}
    return {id: catalogue[id].leaderboard for id in catalogue.ids if id in ids}


def medal_shares(board: Leaderboard) -> Mapping[str, float]:
    """The share of the teams, in per cent, that the last team with each medal leaves behind."""
    return {medal: 100 * (1 - rank / board.teams) for medal, rank in medal_ranks(board.teams).items()}


def share_beaten(board: Leaderboard, score: float | None) -> float | None:
    """The share of the teams, in per cent, that a score leaves behind or equals; None for no score.

    As ``Leaderboard.percentile``, but finer at the top, where gold may ask for the best 0.3 %: the thresholds of the
    medals are places on the leaderboard too. So a score's medal is always that of its place.
    """
    if score is None or math.isnan(score):
        return None
    places = [(100.0 - p, threshold) for p, threshold in enumerate(board.percentiles, 1)]
    places += [(share, getattr(board, medal)) for medal, share in medal_shares(board).items()]
    if not board.percentiles:
        places.append((50.0, board.median))
    met = (share for share, s in places if (score <= s if board.lower_is_better else score >= s))
    return max(met, default=0.0)


_TOP, _WIDTH, _LEFT, _RIGHT = 48, 420, 206, 10
_STEP = 6.0
_TICKS = (0, 25, 50, 75, 90, 99)


def score_plot(
    records: Sequence[RunRecord], leaderboards: Mapping[str, Leaderboard], *, agents: Sequence[str] = ()
) -> Plot:
    """A panel for each split, a row for each competition whose leaderboard is given."""
    shown = [record for record in records if record.competition_id in leaderboards]
    agents = agents or agents_of(shown)
    unknown = {record.competition_id for record in records} - leaderboards.keys()
    numbers = run_numbers(records)
    panels = [
        _panel(k, split, [record for record in shown if record.split == split], leaderboards, agents, numbers)
        for k, split in enumerate(splits_of(shown))
    ]
    return Plot(
        name="scores",
        title="Scores on the leaderboards",
        caption="Percentage of the leaderboard's teams that each run beats.",
        more="The scale is stretched towards the top. Marks in the coloured areas earned bronze, silver or gold. "
        "A number next to a name counts runs without a score."
        + (f" Competitions without a known leaderboard are left out: {len(unknown)}." if unknown else ""),
        panels=[*panels, _legend(), *agents_key("scores", agents)],
    )


def position(share: float) -> float:
    """Where on the axis, from 0 to 1, a share of the teams in per cent lies; the best tenth gets a third of it."""
    return 1 - math.sqrt(max(0.0, 100 - share) / 100)


def _x(share: float) -> str:
    return at(position(share))


def _width(start: float, end: float) -> str:
    return at(position(end) - position(start))


def _panel(
    panel: int,
    split: str,
    records: Sequence[RunRecord],
    leaderboards: Mapping[str, Leaderboard],
    agents: Sequence[str],
    numbers: Mapping[RunKey, int],
) -> Panel:
    by_competition: dict[str, list[tuple[RunRecord, float | None]]] = {}
    for record in records:
        share = share_beaten(leaderboards[record.competition_id], record.score)
        by_competition.setdefault(record.competition_id, []).append((record, share))

    def typical(id: str) -> float:
        return median(-1.0 if share is None else share for _, share in by_competition[id])

    height = _row_height(agents)
    bottom = _TOP + height * len(by_competition)
    body = [text(-_LEFT, 14, heading(split, len(by_competition)), "h f-ink")]
    body.append(text("100%", 27, "% of teams beaten", "s e f-muted"))
    body += [text(_x(tick), _TOP - 7, str(tick), "s m f-muted") for tick in _TICKS]
    rows = []
    for k, id in enumerate(sorted(by_competition, key=lambda id: (-typical(id), id))):
        rows.append(_row(_TOP + k * height, id, by_competition[id], leaderboards[id], agents, numbers))
    body += [fields for fields, _ in rows]
    body += [line(_x(tick), _TOP - 3, _x(tick), bottom) for tick in _TICKS if tick != 50]
    body.append(line(_x(50), _TOP - 3, _x(50), bottom, "s-muted dash"))
    body += [marks for _, marks in rows]
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
    y: float,
    id: str,
    runs: Sequence[tuple[RunRecord, float | None]],
    board: Leaderboard,
    agents: Sequence[str],
    numbers: Mapping[RunKey, int],
) -> tuple[str, str]:
    """The fields of the medals, and what stands on top of the grid."""
    height = _row_height(agents)
    base = y + height / 2 + 4
    start = medal_shares(board)
    ends = {"bronze": start["silver"], "silver": start["gold"], "gold": 100.0}
    fields = "".join(
        rect(_x(start[medal]), y + 1, _width(start[medal], end), height - 2, f"f-{medal} faint")
        for medal, end in ends.items()
    )
    marks = [named(id, text(-_LEFT, base, fitting(id, _LEFT - 26)))]
    marks.append(line(0, y + height - 0.5, "100%", y + height - 0.5))
    without = sum(share is None for _, share in runs)
    if without:
        marks.append(text(-6, base, f"{without}×", "s e f-failure"))
    for record, share in runs:
        if share is None:
            continue
        number = agents.index(record.agent)
        middle = y + height / 2 + (number - (len(agents) - 1) / 2) * _STEP
        label = f"{record.agent}, seed {record.seed}: {record.score:.5f} beats {share:.1f} % ({record.outcome.label})"
        marks.append(
            f'<g data-run="{numbers[record.key]}"><title>{safe(label)}</title>'
            f"{marker(number, _x(share), middle, 3.5 if len(agents) > 1 else 4.5)}</g>"
        )
    return fields, "".join(marks)


def _row_height(agents: Sequence[str]) -> float:
    """Agents stand one below the other."""
    return 13 + _STEP * len(agents)


def _legend() -> Panel:
    body = []
    for k, medal in enumerate(reversed(MEDALS)):
        body.append(rect(90 * k, 0, 17, 15, f"f-{medal} faint") + text(90 * k + 23, 11.5, medal))
    return Panel(
        name="scores-key",
        title="What the fields mean",
        description=f"Fields: places of {', '.join(MEDALS)}.",
        width=300,
        height=18,
        body="".join(body),
        is_key=True,
    )
