"""A run's trajectory, step by step."""

from __future__ import annotations

import bisect
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from pytest_mlebench.extras.viewer.answers import timestamp, whole_number
from pytest_mlebench.extras.viewer.site import RUN_PATH, Missing, Site
from pytest_mlebench.extras.viewer.steps import KINDS, PAGE, SHOWN, Conversation
from pytest_mlebench.extras.viewer.text import code

_EXPORTED = 400
_RAW_SHOWN = 10 * SHOWN


class TrajectoryPages:
    """The trajectory of a run, parts of it, and one step as it was recorded."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def routes(self) -> list[Route]:
        return [
            Route(f"{RUN_PATH}/trajectory", self.trajectory),
            Route(f"{RUN_PATH}/steps", self.steps),
            Route(f"{RUN_PATH}/step", self.step),
            Route(f"{RUN_PATH}/step.json", self.step_as_json),
        ]

    def trajectory(self, request: Request) -> Response:
        group, run_id, folder = self.site.place(request)
        record = self.site.record(folder, run_id)
        found = self.site.conversations(folder, run_id, record)
        query = request.query_params
        which = whole_number(query.get("conversation"), 0, len(found) - 1)
        own = found[which] if found else None
        start, hits, words = 1, None, query.get("q", "")[:200]
        kinds = _kinds(request)
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
        numbers = own.chosen(kinds) if own is not None else []
        export = "export" in query
        first = bisect.bisect_left(numbers, start)
        first = 0 if export else max(0, min(first - (5 if first else 0), len(numbers) - 1))
        context = self.site.run_context(request, group, run_id, record, "trajectory")
        return self.site.page(
            request,
            "trajectory.html",
            **context,
            conversations=found,
            conversation=which,
            own=own,
            start=start,
            chosen=numbers,
            numbers=numbers[first : first + (_EXPORTED if export else PAGE)],
            kinds=kinds,
            page=PAGE,
            hits=hits,
            words=words,
        )

    def steps(self, request: Request) -> Response:
        """Some steps as HTML, which the script puts into the page: ``from`` a number on, or ``before`` one."""
        own, _, _ = self._conversation(request)
        numbers = own.chosen(_kinds(request))
        query = request.query_params
        if "before" in query:
            end = bisect.bisect_left(numbers, whole_number(query["before"], 1, len(own) + 1))
            numbers = numbers[max(0, end - PAGE) : end]
        else:
            first = bisect.bisect_left(numbers, whole_number(query.get("from"), 1, max(1, len(own))))
            numbers = numbers[first : first + PAGE]
        template = self.site.environment.get_template("steps.html")
        return HTMLResponse(template.render(own=own, numbers=numbers, **_addresses(request, own)))

    def step(self, request: Request) -> Response:
        """One step as it was recorded; ``part`` asks for what the script puts into the page."""
        own, number, text = self._conversation(request)
        group, run_id, folder = self.site.place(request)
        shown = code(text[:_RAW_SHOWN])
        left_out = max(0, len(text) - _RAW_SHOWN)
        if "part" in request.query_params:
            template = self.site.environment.get_template("step_raw.html")
            return HTMLResponse(template.render(shown=shown, left_out=left_out))
        context = self.site.run_context(request, group, run_id, self.site.record(folder, run_id), "trajectory")
        context |= _addresses(request, own)
        context["crumbs"] = [*context["crumbs"], ("Trajectory", f"{context['steps_page']}from={number}#s-{number}")]
        context["crumb"] = f"Step {number}"
        context["title"] = f"Step {number} of {context['name']}"
        return self.site.page(
            request,
            "step.html",
            **context,
            own=own,
            number=number,
            shown=shown,
            left_out=left_out,
        )

    def step_as_json(self, request: Request) -> Response:
        _, number, text = self._conversation(request)
        headers = {"Content-Disposition": f'attachment; filename="step-{number}.json"'}
        content = text.encode("utf-8", "replace")
        return Response(content, media_type="application/json", headers=headers)

    def _conversation(self, request: Request) -> tuple[Conversation, int, str]:
        """The conversation that is asked for, with the number and the record of its step."""
        _, run_id, folder = self.site.place(request)
        found = self.site.conversations(folder, run_id, self.site.record(folder, run_id))
        if not found or not len(found[0]):
            raise Missing("this run has no trajectory")
        query = request.query_params
        own = found[whole_number(query.get("conversation"), 0, len(found) - 1)]
        number = whole_number(query.get("number"), 1, max(1, len(own)))
        return own, number, own.raw(number) if "number" in query else ""


def _kinds(request: Request) -> list[str]:
    asked = request.query_params.getlist("kind")
    return [kind for kind in KINDS if kind in asked]


def _addresses(request: Request, own: Conversation) -> dict[str, Any]:
    base = request.url.path.rpartition("/")[0]
    which = f"conversation={own.number}&" if own.number else ""
    return {"conversation": own.number, "base": base, "steps_page": f"{base}/trajectory?{which}"}
