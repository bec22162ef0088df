"""Groups compared, and two runs side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pytest_mlebench.errors import UsageError
from pytest_mlebench.reports.page import parts
from pytest_mlebench.results.overview import overview
from pytest_mlebench.viewer.folder import is_folder
from pytest_mlebench.viewer.formats import seg
from pytest_mlebench.viewer.index import Run
from pytest_mlebench.viewer.pages.groups import without_rows
from pytest_mlebench.viewer.pictures import run_timeline
from pytest_mlebench.viewer.site import Missing, Site

MOST_COMPARED = 6


class ComparePages:
    """The pages of comparisons."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def routes(self) -> list[Route]:
        return [
            Route("/compare", self.compare),
            Route("/side", self.side),
        ]

    def compare(self, request: Request) -> Response:
        names = list(dict.fromkeys(request.query_params.getlist("g")))
        if not 2 <= len(names) <= MOST_COMPARED:
            raise UsageError(f"two to {MOST_COMPARED} run groups can be compared: choose them in the list of groups")
        groups = [self.site.group(name) for name in names]
        view = overview([self.site.read(name) for name in names])
        found = without_rows(parts(view, log_bytes=0))
        return self.site.page(
            request,
            "compare.html",
            " vs ".join(names),
            crumbs=[("Run groups", "/")],
            chosen=groups,
            versions=sorted({group.version for group in groups}),
            matrix=_matrix(names, self.site.index.runs(*names)),
            **found,
        )

    def side(self, request: Request) -> Response:
        """Two runs beside each other, each with the outline of its trajectory."""
        names = [name.partition("/")[::2] for name in request.query_params.getlist("r")]
        if len(names) != 2:
            raise UsageError("two runs can stand side by side: ?r=GROUP/RUN&r=GROUP/RUN")
        runs: list[dict[str, Any]] = []
        for name, run_id in names:
            group = self.site.group(name)
            folder = self.site.index.runs_dir / name
            if not is_folder(folder, run_id):
                raise Missing(f"run group {name} has no run {run_id}")
            record = self.site.record(folder, run_id)
            found = self.site.conversations(folder, run_id, record)
            base = f"/run/{seg(name)}/{seg(run_id)}"
            runs.append(
                {
                    "group": group,
                    "run_id": run_id,
                    "base": base,
                    "record": record,
                    "own": found[0] if found else None,
                    "outline": Markup(found[0].outline().replace('href="?', f'href="{base}/trajectory?'))
                    if found
                    else None,
                    "timeline": run_timeline(record, [], f"{base}/trajectory?at=", name=f"timeline-{len(runs)}")
                    if record is not None and record.timeline
                    else None,
                }
            )
        return self.site.page(request, "side.html", "Side by side", crumbs=[("Run groups", "/")], runs=runs)


def _matrix(names: Sequence[str], runs: Sequence[Run]) -> dict[str, Any]:
    """Competitions by groups: each cell's runs, best first, and which group has the best mean rank of outcomes."""
    cells: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        cells.setdefault((run.competition_id, run.group_name), []).append(run)
    ids = sorted({run.competition_id for run in runs}, key=lambda id: id)
    wins: Counter[str] = Counter()
    ties = 0
    rows = []
    for id in ids:
        own = {name: sorted(cells.get((id, name), []), key=lambda run: run.result.rank) for name in names}
        scores = {name: _mean([run.score for run in found if run.score is not None]) for name, found in own.items()}
        lower = any(run.lower_is_better for found in own.values() for run in found)
        known = {name: score for name, score in scores.items() if score is not None}
        best: list[str] = []
        if known:
            top = min(known.values()) if lower else max(known.values())
            best = [name for name, score in known.items() if score == top]
        paired = sum(1 for found in own.values() if found) == len(names)
        if paired and len(best) == 1:
            wins[best[0]] += 1
        elif paired:
            ties += 1
        rows.append({"id": id, "cells": own, "scores": scores, "best": best if len(best) == 1 else [], "lower": lower})
    return {"rows": rows, "wins": wins, "ties": ties, "paired": sum(wins.values()) + ties}


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
