"""Pages of the runs of all groups in one list, which every count links to, and of one run and its record."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse

from pytest_mlebench.extras.viewer.folder import read
from pytest_mlebench.extras.viewer.index import FACETS, ORDERS, Group, ListedRun, Search
from pytest_mlebench.extras.viewer.live import log_end, log_state, running
from pytest_mlebench.extras.viewer.pictures import run_timeline
from pytest_mlebench.extras.viewer.site import Site, seg, spent, whole_number
from pytest_mlebench.extras.viewer.steps import timestamp
from pytest_mlebench.extras.viewer.text import code
from pytest_mlebench.io.files import NotReadable
from pytest_mlebench.io.units import no_formula, one_line
from pytest_mlebench.records.record import RECORD, RunRecord
from pytest_mlebench.reports.run_details import ending_as_sentence, run_details
from pytest_mlebench.results.findings import findings

_RECORD_SHOWN = 2 << 20
_ROWS = 200
_EXPORTED = [field.name for field in fields(ListedRun) if field.name not in ("latest", "has_folder")]
_ELSEWHERE = {"run", "outcome", "score", "started", "limits", "versions", "connections"}
"""Details that the overview of a run shows elsewhere, or leaves to its record."""


def all_runs(site: Site, request: Request) -> Response:
    site.index.refresh()
    search = _search(request)
    start = whole_number(request.query_params.get("start"), 0, 1 << 30)
    found, total = site.index.search(search, start=start, count=_ROWS)
    facets = {name: values for name, values in site.index.facets().items() if len(values) > 1 or search.facets[name]}

    def address(**changes: str | int) -> str:
        pairs = [(name, value) for name in FACETS for value in search.facets[name]]
        parameters = {"q": " ".join(search.words), "order": search.order, "start": ""} | changes
        pairs += [(name, str(value)) for name, value in parameters.items() if value and value != Search.order]
        return f"/runs?{urlencode(pairs)}" if pairs else "/runs"

    return site.page(
        request,
        "all_runs.html",
        "Runs",
        crumbs=[],
        runs=found,
        total=total,
        start=start,
        search=search,
        orders=ORDERS,
        facets=facets,
        address=address,
        csv_address=address().replace("/runs", "/runs.csv", 1),
        earlier=address(start=max(0, start - _ROWS)) if start else None,
        later=address(start=start + _ROWS) if start + _ROWS < total else None,
    )


def all_runs_as_csv(site: Site, request: Request) -> Response:
    """Return all matching runs with every column of the index."""
    search = _search(request)
    headers = {"Content-Disposition": 'attachment; filename="runs.csv"'}
    return StreamingResponse(_lines(site, search), headers=headers, media_type="text/csv; charset=utf-8")


def _lines(site: Site, search: Search) -> Iterator[str]:
    start, total = 0, 1
    while start < total:
        runs, total = site.index.search(search, start=start, count=1000)
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if runs and start == 0:
            writer.writerow(_EXPORTED)
        for run in runs:
            values = [getattr(run, name) for name in _EXPORTED]
            writer.writerow(no_formula(one_line(value)) if isinstance(value, str) else value for value in values)
        yield text.getvalue()
        start += 1000


def _search(request: Request) -> Search:
    query = request.query_params
    order = query.get("order", Search.order)
    return Search(
        facets={name: [value for value in query.getlist(name)[:100] if value] for name in FACETS},
        words=query.get("q", "")[:200].split()[:10],
        order=order if order.removeprefix("-") in ORDERS else Search.order,
    )


def run(site: Site, request: Request) -> Response:
    if (group := site.group(request.path_params["group"])).is_graded_only:
        return RedirectResponse(f"/group/{seg(group.name)}")  # which shows all that is known of the run
    place = site.place(request)
    folder, run_id, record = place.folder, place.run_id, place.record
    state = log_state(folder, run_id)
    about: dict[str, Any] = {}
    if record is not None:
        made, started = site.calls.of(folder, run_id), timestamp(record.started_at)
        calls = [replace(call, seconds=call.seconds - started) for call in made.marks] if started else []
        about = {
            "details": [detail for detail in run_details(record) if detail[0] not in _ELSEWHERE],
            "siblings": _siblings(site, place.group, record),
            "ladder": _ladder(record),
            "failed": not record.outcome.passed,
            "ended": ending_as_sentence(record),
        }
        if record.timeline or calls:
            cost = spent(made.cost, made.cost_is_complete) if made.cost else ""
            about["timeline"] = run_timeline(record, calls, f"{place.base}/trajectory?at=", cost=cost)
    context = site.run_context(place, "overview")
    now = running(filter(None, [context["unfinished"]]), folder, site.calls)
    return site.page(
        request,
        "run.html",
        **context,
        **about,
        state=state,
        findings=findings(folder / run_id)[:100],
        running=now[0] if now else None,
        log=log_end(folder, run_id, 12, 16384),
    )


def record(site: Site, request: Request) -> Response:
    place = site.place(request)
    record = place.record
    text, size = "", 0
    with suppress(NotReadable):
        content, size = read(place.folder, place.run_id, RECORD, size=_RECORD_SHOWN)
        text = content.decode("utf-8", "replace")
    return site.page(
        request,
        "record.html",
        **site.run_context(place, "record"),
        details=run_details(record) if record is not None else [],
        text=code(text),
        left_out=max(0, size - _RECORD_SHOWN),
    )


def _siblings(site: Site, group: Group, record: RunRecord) -> list[ListedRun]:
    """Return the other runs on the same competition, those of the same group first."""
    runs = site.index.runs(competition=record.competition_id)
    others = [run for run in runs if (run.group_name, run.run_id) != (group.name, record.run_id)]
    order = sorted(others, key=lambda run: (run.group_name != group.name, run.agent != record.agent, run.result.rank))
    return order[:12]


def _ladder(record: RunRecord) -> list[tuple[str, float, bool]]:
    """Return the thresholds, best first, and whether the score meets each. The median must be surpassed."""
    score, sign = record.score, -1 if record.report.is_lower_better else 1

    def meets(name: str, value: float) -> bool:
        if score is None:
            return False
        return sign * score > sign * value if name == "median" else sign * score >= sign * value

    return [(name, value, meets(name, value)) for name, value in record.thresholds.items()]
