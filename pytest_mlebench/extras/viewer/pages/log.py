"""A run's log."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from pytest_mlebench.extras.viewer import logs
from pytest_mlebench.extras.viewer.answers import events, whole_number
from pytest_mlebench.extras.viewer.folder import size_of
from pytest_mlebench.extras.viewer.live import changes, log_state
from pytest_mlebench.extras.viewer.site import RUN_PATH, Site
from pytest_mlebench.records.record import RUN_LOG


class LogPages:
    """The log of a run, and parts of it."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def routes(self) -> list[Route]:
        return [
            Route(f"{RUN_PATH}/log", self.log),
            Route(f"{RUN_PATH}/log/part", self.log_part),
            Route(f"{RUN_PATH}/log/events", self.log_events),
        ]

    def log(self, request: Request) -> Response:
        group, run_id, folder = self.site.place(request)
        record = self.site.record(folder, run_id)
        query = request.query_params
        words = query.get("q", "")[:200]
        found, hits, more, part = size_of(folder, run_id, RUN_LOG), None, False, None
        if found:
            place = whole_number(query.get("at"), -1, found)
            if "errors" in query or query.get("at") == "error":
                hits, more = logs.find(folder, run_id, None)
                if query.get("at") == "error" and hits:
                    place = hits[-1].number
            elif words:
                hits, more = logs.find(folder, run_id, words)
            part = logs.part(folder, run_id) if place < 0 else logs.around(folder, run_id, place)
        else:
            place = -1
        return self.site.page(
            request,
            "log.html",
            **self.site.run_context(request, group, run_id, record, "log"),
            part=part,
            place=place,
            hits=hits,
            more=more,
            words=words,
            errors="errors" in query,
            live=record is None,
        )

    def log_part(self, request: Request) -> Response:
        _, run_id, folder = self.site.place(request)
        query = request.query_params
        start = whole_number(query["start"], 0, 1 << 62) if "start" in query else None
        end = whole_number(query["end"], 0, 1 << 62) if "end" in query else None
        part = logs.part(folder, run_id, start=start, end=end)
        return HTMLResponse(self.site.environment.get_template("log_part.html").render(part=part, place=-1))

    async def log_events(self, request: Request) -> Response:
        _, run_id, folder = self.site.place(request)
        return events(changes(lambda: log_state(folder, run_id)))
