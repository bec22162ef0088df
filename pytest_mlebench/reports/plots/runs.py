"""What several plots need of runs: their agents and splits, and the shares of teams that they beat."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from pytest_mlebench.catalog import Leaderboard, default_catalogue, medal_ranks
from pytest_mlebench.reports.medals import in_order
from pytest_mlebench.results.summary import split_rank
from pytest_mlebench.runs.record import RunKey, RunRecord
from pytest_mlebench.units import pluralize


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
