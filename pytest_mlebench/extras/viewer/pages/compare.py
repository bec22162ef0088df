"""Pages that compare the agents of groups, and show runs side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from pytest_mlebench.errors import UsageError
from pytest_mlebench.extras.viewer.index import ListedRun
from pytest_mlebench.extras.viewer.pages.groups import shared_parts
from pytest_mlebench.extras.viewer.pictures import run_timeline
from pytest_mlebench.extras.viewer.site import Site, seg, whole_number
from pytest_mlebench.extras.viewer.steps import OutlineStep
from pytest_mlebench.results.overview import mean_scores, overview
from pytest_mlebench.results.summary import labels

MOST_COMPARED = 6
MOST_BESIDE = 4
_ROWS, _ROWS_IN_FULL = 200, 20
_SAME_TIME = 60.0


def compare(site: Site, request: Request) -> Response:
    names = list(dict.fromkeys(request.query_params.getlist("g")))
    if not 1 <= len(names) <= MOST_COMPARED:
        raise UsageError(f"up to {MOST_COMPARED} run groups can be compared: choose them in the list of groups")
    groups = [site.group(name) for name in names]
    view = overview([site.read(name) for name in names])
    columns = [_Column(label, folder.name, agent) for (folder, agent), label in labels(view.groups).items()]
    if len(columns) < 2:
        raise UsageError("one agent cannot be compared: choose another run group in the list of groups")
    return site.page(
        request,
        "compare.html",
        " vs ".join(names),
        crumbs=[("Run groups", "/")],
        chosen=groups,
        sides=columns,
        versions=sorted({group.version for group in groups}),
        matrix=_matrix(columns, site.index.runs(*names)),
        **shared_parts(view),
    )


def side(site: Site, request: Request) -> Response:
    """Show the trajectories of runs side by side. A row has the steps of the same number or time."""
    names = [name.partition("/")[::2] for name in dict.fromkeys(request.query_params.getlist("r"))]
    if not 2 <= len(names) <= MOST_BESIDE:
        raise UsageError(f"two to {MOST_BESIDE} runs can be shown side by side: ?r=GROUP/RUN&r=GROUP/RUN")
    runs = [_beside(site, name, run_id, number) for number, (name, run_id) in enumerate(names)]
    query = request.query_params
    by_time = query.get("by") == "time"
    in_full = "full" in query
    found = [run["conversation"] for run in runs]
    rows = aligned([one.steps if one is not None else () for one in found], by_time=by_time)
    size = _ROWS_IN_FULL if in_full else _ROWS
    start = whole_number(query.get("start"), 0, max(0, len(rows) - 1))

    def address(**changes: str | int) -> str:
        parameters = {"by": "time" if by_time else "", "full": "1" if in_full else "", "start": start} | changes
        pairs = [("r", f"{name}/{run_id}") for name, run_id in names]
        return f"/side?{urlencode(pairs + [(name, str(value)) for name, value in parameters.items() if value])}"

    ids = dict.fromkeys(run["record"].competition_id for run in runs if run["record"] is not None)
    return site.page(
        request,
        "side.html",
        f"{', '.join(ids) or 'Runs'} side by side",
        crumbs=[("Run groups", "/"), *((id, f"/competition/{seg(id)}") for id in list(ids)[:1])],
        crumb="Side by side",
        runs=runs,
        rows=rows[start : start + size],
        total=len(rows),
        start=start,
        by_time=by_time,
        in_full=in_full,
        address=address,
        earlier=address(start=max(0, start - size)) if start else None,
        later=address(start=start + size) if start + size < len(rows) else None,
    )


def _beside(site: Site, name: str, run_id: str, number: int) -> dict[str, Any]:
    run = site.run(name, run_id)
    found = site.conversations(run)
    timeline = None
    if run.record is not None and run.record.timeline:
        timeline = run_timeline(run.record, [], f"{run.base}/trajectory?at=", name=f"timeline-{number}")
    return {
        "group": run.group,
        "run_id": run_id,
        "base": run.base,
        "record": run.record,
        "conversation": found[0] if found else None,
        "timeline": timeline,
    }


def aligned(columns: Sequence[Sequence[OutlineStep]], *, by_time: bool) -> list[tuple[OutlineStep | None, ...]]:
    """Return rows with at most one step of each column.

    ``by_time``: steps share a row if they began within a minute of its first step, and a step without a time counts as
    the one before it. Otherwise, steps of the same number share a row.
    """
    if not by_time:
        return list(zip_longest(*columns))
    waiting: list[tuple[float, int, OutlineStep]] = []
    for column, steps in enumerate(columns):
        last = 0.0
        for step in steps:
            last = max(last, step.seconds or 0.0)
            waiting.append((last, column, step))
    rows: list[tuple[OutlineStep | None, ...]] = []
    row: list[OutlineStep | None] = [None] * len(columns)
    began: float | None = None
    for seconds, column, step in sorted(waiting, key=lambda item: (item[0], item[2].number)):
        if began is None or row[column] is not None or seconds - began > _SAME_TIME:
            if began is not None:
                rows.append(tuple(row))
            row, began = [None] * len(columns), seconds
        row[column] = step
    return [*rows, tuple(row)] if began is not None else rows


@dataclass(frozen=True)
class _Column:
    """An agent of a group."""

    label: str
    group: str
    agent: str


def _matrix(columns: Sequence[_Column], runs: Sequence[ListedRun]) -> dict[str, Any]:
    """Return competitions by agents: the runs of each cell, best first, and which agent has the best mean score."""
    cells: dict[tuple[str, str, str], list[ListedRun]] = {}
    for run in runs:
        cells.setdefault((run.competition_id, run.group_name, run.agent), []).append(run)
    wins: dict[str, list[str]] = {column.label: [] for column in columns}
    ties, loose = list[str](), any(run.firm == "not firm" for run in runs)
    rows = []
    for id in sorted({run.competition_id for run in runs}):
        by_agent = {
            column.label: sorted(cells.get((id, column.group, column.agent), []), key=lambda run: run.result.rank)
            for column in columns
        }
        means = mean_scores([{r.seed: r.score for r in found if r.score is not None} for found in by_agent.values()])
        scores = dict(zip(by_agent, means, strict=True))
        best = _best(scores, lower=any(run.lower_is_better for found in by_agent.values() for run in found))
        if all(by_agent.values()) and len(best) == 1:
            wins[best[0]].append(id)
        elif all(by_agent.values()):
            ties.append(id)
        firsts = [found[0] for found in by_agent.values() if found and found[0].has_folder][:MOST_BESIDE]
        pairs = [("r", f"{run.group_name}/{run.run_id}") for run in firsts]
        beside = f"/side?{urlencode(pairs)}" if len(firsts) > 1 else None
        best = best if len(best) == 1 else []
        rows.append({"beside": beside, "id": id, "cells": by_agent, "scores": scores, "best": best})

    def runs_on(ids: Sequence[str]) -> str:
        groups = [("group", name) for name in dict.fromkeys(column.group for column in columns)]
        agents = [("agent", name) for name in dict.fromkeys(column.agent for column in columns)]
        chosen = [*groups, *agents, *(("competition", id) for id in ids)]
        return f"/runs?{urlencode([*chosen, ('order', 'competition')])}"

    compared = sorted([*chain(*wins.values()), *ties])
    return {"rows": rows, "wins": wins, "ties": ties, "paired": compared, "loose": loose, "runs_on": runs_on}


def _best(scores: Mapping[str, float | None], *, lower: bool) -> list[str]:
    """Return who has the best mean score; several if they are equal."""
    known = {name: score for name, score in scores.items() if score is not None}
    top = (min if lower else max)(known.values(), default=None)
    return [name for name, score in known.items() if score == top]
