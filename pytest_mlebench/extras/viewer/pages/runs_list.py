"""The runs of all groups in one list: what every count leads to."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import asdict
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from pytest_mlebench.extras.viewer.answers import whole_number
from pytest_mlebench.extras.viewer.index import FACETS, ORDERS, Search
from pytest_mlebench.extras.viewer.site import Site
from pytest_mlebench.io.units import no_formula, one_line

_ROWS = 200


class RunListPages:
    """Runs by facets, words and order, as a page and as CSV."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def routes(self) -> list[Route]:
        return [Route("/runs", self.runs), Route("/runs.csv", self.as_csv)]

    def runs(self, request: Request) -> Response:
        self.site.index.refresh()
        search = _search(request)
        start = whole_number(request.query_params.get("start"), 0, 1 << 30)
        found, total = self.site.index.search(search, start=start, count=_ROWS)
        facets = {name: own for name, own in self.site.index.facets().items() if len(own) > 1 or search.facets[name]}

        def address(**changes: str | int) -> str:
            pairs = [(name, value) for name in FACETS for value in search.facets[name]]
            own = {"q": " ".join(search.words), "order": search.order, "start": ""} | changes
            pairs += [(name, str(value)) for name, value in own.items() if value and value != Search.order]
            return f"/runs?{urlencode(pairs)}" if pairs else "/runs"

        return self.site.page(
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

    def as_csv(self, request: Request) -> Response:
        """All runs that are looked for, with every column of the index."""
        search = _search(request)
        headers = {"Content-Disposition": 'attachment; filename="runs.csv"'}
        return StreamingResponse(self._lines(search), headers=headers, media_type="text/csv; charset=utf-8")

    def _lines(self, search: Search) -> Iterator[str]:
        start, total = 0, 1
        while start < total:
            runs, total = self.site.index.search(search, start=start, count=1000)
            text = io.StringIO()
            writer = csv.writer(text, lineterminator="\n")
            if runs and start == 0:
                writer.writerow(name for name in asdict(runs[0]) if name != "latest")
            for run in runs:
                values = [value for name, value in asdict(run).items() if name != "latest"]
                writer.writerow(no_formula(one_line(own)) if isinstance(own, str) else own for own in values)
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
