"""A run's trajectory, step by step."""

from __future__ import annotations

import bisect
from contextlib import suppress
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from pytest_mlebench.extras.viewer.site import Missing, Site, whole_number
from pytest_mlebench.extras.viewer.steps import KINDS, PAGE, SHOWN, Conversation, timestamp
from pytest_mlebench.extras.viewer.text import code

_EXPORTED = 400
_RAW_SHOWN = 10 * SHOWN


def trajectory(site: Site, request: Request) -> Response:
    run = site.place(request)
    found = site.conversations(run)
    query = request.query_params
    which = whole_number(query.get("conversation"), 0, len(found) - 1)
    own = found[which] if found else None
    start, hits, words = 1, None, query.get("q", "")[:200]
    kinds = _kinds(request)
    if own is not None:
        start = whole_number(query.get("from"), 1, max(1, len(own)))
        if "at" in query and run.record is not None and (began := timestamp(run.record.started_at)):
            with suppress(ValueError):
                start = own.at(began + float(query["at"]))
        if query.get("from") == "error" and own.errors:
            start = own.errors[-1]
        if words:
            hits = own.find(words)
    numbers = own.chosen(kinds) if own is not None else []
    export = "export" in query
    first = bisect.bisect_left(numbers, start)
    first = 0 if export else max(0, min(first - (5 if first else 0), len(numbers) - 1))
    return site.page(
        request,
        "trajectory.html",
        **site.run_context(run, "trajectory"),
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


def steps(site: Site, request: Request) -> Response:
    """Some steps as HTML, which the script puts into the page: ``from`` a number on, or ``before`` one."""
    own, _, _ = _conversation(site, request)
    numbers = own.chosen(_kinds(request))
    query = request.query_params
    if "before" in query:
        end = bisect.bisect_left(numbers, whole_number(query["before"], 1, len(own) + 1))
        numbers = numbers[max(0, end - PAGE) : end]
    else:
        first = bisect.bisect_left(numbers, whole_number(query.get("from"), 1, max(1, len(own))))
        numbers = numbers[first : first + PAGE]
    template = site.environment.get_template("steps.html")
    return HTMLResponse(template.render(own=own, numbers=numbers, **_addresses(request, own)))


def step(site: Site, request: Request) -> Response:
    """One step as it was recorded; ``part`` asks for what the script puts into the page."""
    own, number, text = _conversation(site, request)
    shown = code(text[:_RAW_SHOWN])
    left_out = max(0, len(text) - _RAW_SHOWN)
    if "part" in request.query_params:
        template = site.environment.get_template("step_raw.html")
        return HTMLResponse(template.render(shown=shown, left_out=left_out))
    context = site.run_context(site.place(request), "trajectory") | _addresses(request, own)
    context["crumbs"] = [*context["crumbs"], ("Trajectory", f"{context['steps_page']}from={number}#s-{number}")]
    context["crumb"] = f"Step {number}"
    context["title"] = f"Step {number} of {context['name']}"
    return site.page(request, "step.html", **context, own=own, number=number, shown=shown, left_out=left_out)


def step_as_json(site: Site, request: Request) -> Response:
    _, number, text = _conversation(site, request)
    headers = {"Content-Disposition": f'attachment; filename="step-{number}.json"'}
    return Response(text.encode("utf-8", "replace"), media_type="application/json", headers=headers)


def _conversation(site: Site, request: Request) -> tuple[Conversation, int, str]:
    """The conversation that is asked for, with the number and the record of its step."""
    found = site.conversations(site.place(request))
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
