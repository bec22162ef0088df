"""A run's trajectory, step by step."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from pytest_mlebench.viewer.answers import timestamp, whole_number
from pytest_mlebench.viewer.site import RUN_PATH, Missing, Site
from pytest_mlebench.viewer.steps import PAGE


class TrajectoryPages:
    """The trajectory of a run, and parts of it."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def routes(self) -> list[Route]:
        return [
            Route(f"{RUN_PATH}/trajectory", self.trajectory),
            Route(f"{RUN_PATH}/steps", self.steps),
        ]

    def trajectory(self, request: Request) -> Response:
        group, run_id, folder = self.site.place(request)
        record = self.site.record(folder, run_id)
        found = self.site.conversations(folder, run_id, record)
        query = request.query_params
        which = whole_number(query.get("conversation"), 0, len(found) - 1)
        own = found[which] if found else None
        start, hits, words = 1, None, query.get("q", "")[:200]
        if own is not None:
            start = whole_number(query.get("from"), 1, max(1, len(own)))
            if "at" in query and record is not None and (began := timestamp(record.started_at)):
                with suppress(ValueError, OverflowError):
                    at = datetime.fromtimestamp(began, UTC) + timedelta(seconds=float(query["at"]))
                    start = own.at(at)
            if query.get("from") == "error" and own.errors:
                start = own.errors[-1]
            if words:
                hits = own.find(words)
        export = "export" in query
        first = 1 if export else max(1, start - (5 if start > 1 else 0))
        count = 400 if export else PAGE
        context = self.site.run_context(request, group, run_id, record, "trajectory")
        return self.site.page(
            request,
            "trajectory.html",
            **context,
            conversations=found,
            conversation=which,
            own=own,
            start=start,
            first=first,
            last=min(len(own), first + count - 1) if own is not None else 0,
            page=PAGE,
            hits=hits,
            words=words,
            peak=max((step.tokens for step in own.steps), default=0) if own is not None else 0,
        )

    def steps(self, request: Request) -> Response:
        """Some steps as HTML, which the script puts into the page."""
        _, run_id, folder = self.site.place(request)
        found = self.site.conversations(folder, run_id, self.site.record(folder, run_id))
        query = request.query_params
        if not found:
            raise Missing("this run has no trajectory")
        own = found[whole_number(query.get("conversation"), 0, len(found) - 1)]
        first = whole_number(query.get("from"), 1, max(1, len(own)))
        last = min(len(own), first + PAGE - 1)
        text = self.site.environment.get_template("steps.html").render(own=own, first=first, last=last)
        return HTMLResponse(text)
