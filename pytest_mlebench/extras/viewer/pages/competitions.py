"""Pages of all competitions, and of all runs of one on its leaderboard."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from pytest_mlebench.catalog import Catalogue, Competition, default_catalogue
from pytest_mlebench.catalog.competition import is_twin_label
from pytest_mlebench.extras.viewer.folder import MAX_ENTRIES, is_folder, is_utf8, read
from pytest_mlebench.extras.viewer.index import ListedRun
from pytest_mlebench.extras.viewer.pages.files import head_of_table, is_table
from pytest_mlebench.extras.viewer.pictures import leaderboard
from pytest_mlebench.extras.viewer.site import Missing, Site, seg
from pytest_mlebench.io.files import NotReadable
from pytest_mlebench.reports.plots import share_beaten

_TABLES, _ROWS, _SAMPLE = 8, 5, 64 << 10
"""Maximum number of tables of a competition's data that are shown, of their rows, and of the bytes that are read."""


def competitions(site: Site, request: Request) -> Response:
    site.index.refresh()
    catalogue = default_catalogue()
    found = site.index.competitions()
    rows = [(id, known_competition(catalogue, id), *counts) for id, *counts in found]
    return site.page(request, "competitions.html", "Competitions", crumbs=[("Run groups", "/")], rows=rows)


def competition(site: Site, request: Request) -> Response:
    id = request.path_params["id"]
    site.index.refresh()
    runs = site.index.runs(competition=id)
    catalogue = default_catalogue()
    known = known_competition(catalogue, id)
    if not runs and known is None:
        raise Missing(f"there is no competition {id}")
    lower = bool(runs[0].lower_is_better) if runs else False
    sign = 1 if lower else -1
    order = sorted(runs, key=lambda run: (run.score is None, sign * (run.score or 0.0), run.group_name))
    board = known.leaderboard if known is not None else None
    places = {}
    # Twins have separate leaderboards.
    on_board = [run for run in order if run.score is not None and not is_twin_label(run.split)]
    for run in on_board:
        share = share_beaten(board, run.score) if board is not None else None
        if board is not None and share is not None:
            places[run.group_name, run.run_id] = max(1, round(board.teams * (100 - share) / 100))
    samples = _samples(site.store.dataset(known).prepared) if site.store is not None and known is not None else ()
    return site.page(
        request,
        "competition.html",
        id,
        crumbs=[("Run groups", "/"), ("Competitions", "/competitions")],
        id=id,
        known=known,
        board=board,
        runs=order,
        places=places,
        lower=lower,
        picture=leaderboard(board, on_board, _address) if board is not None and on_board else None,
        costs=any(run.calls for run in runs),
        samples=list(islice(samples, _TABLES)),
    )


def _samples(prepared: Path) -> Iterator[dict[str, Any]]:
    """Yield the first rows of the public tables, which are directly in their folder. Links are not followed."""
    if not is_folder(prepared, "public"):
        return
    with suppress(OSError), os.scandir(prepared / "public") as entries:
        names = sorted(entry.name for entry in islice(entries, MAX_ENTRIES) if is_table(entry.name))
        for name in filter(is_utf8, names):
            with suppress(NotReadable):
                content, size = read(prepared, "public", name, size=_SAMPLE)
                yield {"name": name, "size": size, **head_of_table(name, content.decode("utf-8", "replace"), _ROWS)}


def _address(run: ListedRun) -> str:
    return f"/run/{seg(run.group_name)}/{seg(run.run_id)}"


def known_competition(catalogue: Catalogue, id: str) -> Competition | None:
    return catalogue[id] if id in catalogue else None  # noqa: SIM401 - it has no `get`
