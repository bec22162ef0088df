"""The pages of a run's trajectory, step by step."""

from __future__ import annotations

import bisect
from contextlib import suppress
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from pytest_mlebench.extras.viewer.site import Missing, Site, whole_number
from pytest_mlebench.extras.viewer.steps import KINDS, PAGE, Conversation, timestamp
from pytest_mlebench.extras.viewer.text import code

_EXPORTED = 400
_RAW_SHOWN = 200_000


def trajectory(site: Site, request: Request) -> Response:
    run = site.place(request)
    found = site.conversations(run)
    query = request.query_params
    which = whole_number(query.get("conversation"), 0, len(found) - 1)
    conversation = found[which] if found else None
    start, hits, words = 1, None, query.get("q", "")[:200]
    kinds = _kinds(request)
    if conversation is not None:
        start = whole_number(query.get("from"), 1, max(1, len(conversation)))
        if "at" in query and run.record is not None and (began := timestamp(run.record.started_at)):
            with suppress(ValueError):
                start = conversation.at(began + float(query["at"]))
        if query.get("from") == "error" and conversation.errors:
            start = conversation.errors[-1]
        if words:
            hits = conversation.find(words)
    numbers = conversation.chosen(kinds) if conversation is not None else []
    export = "export" in query
    first = bisect.bisect_left(numbers, start)
    first = 0 if export else max(0, min(first - (5 if first else 0), len(numbers) - 1))
    return site.page(
        request,
        "trajectory.html",
        **site.run_context(run, "trajectory"),
        conversations=found,
        conversation=which,
        own=conversation,
        start=start,
        chosen=numbers,
        numbers=numbers[first : first + (_EXPORTED if export else PAGE)],
        kinds=kinds,
        page=PAGE,
        hits=hits,
        words=words,
    )


def steps(site: Site, request: Request) -> Response:
    """Return steps as HTML, which the script inserts into the page: ``from`` a number on, or ``before`` one."""
    conversation, _, _ = _conversation(site, request)
    numbers = conversation.chosen(_kinds(request))
    query = request.query_params
    if "before" in query:
        end = bisect.bisect_left(numbers, whole_number(query["before"], 1, len(conversation) + 1))
        numbers = numbers[max(0, end - PAGE) : end]
    else:
        first = bisect.bisect_left(numbers, whole_number(query.get("from"), 1, max(1, len(conversation))))
        numbers = numbers[first : first + PAGE]
    template = site.environment.get_template("steps.html")
    return HTMLResponse(template.render(own=conversation, numbers=numbers, **_addresses(request, conversation)))


def step(site: Site, request: Request) -> Response:
    """Show one step as it was recorded. With ``part``, return only what the script inserts into the page."""
    conversation, number, text = _conversation(site, request)
    shown = code(text[:_RAW_SHOWN])
    left_out = max(0, len(text) - _RAW_SHOWN)
    if "part" in request.query_params:
        template = site.environment.get_template("step_raw.html")
        return HTMLResponse(template.render(shown=shown, left_out=left_out))
    context = site.run_context(site.place(request), "trajectory") | _addresses(request, conversation)
    context["crumbs"] = [*context["crumbs"], ("Trajectory", f"{context['steps_page']}from={number}#s-{number}")]
    context["crumb"] = f"Step {number}"
    context["title"] = f"Step {number} of {context['name']}"
    return site.page(request, "step.html", **context, own=conversation, number=number, shown=shown, left_out=left_out)


def step_as_json(site: Site, request: Request) -> Response:
    _, number, text = _conversation(site, request)
    headers = {"Content-Disposition": f'attachment; filename="step-{number}.json"'}
    return Response(text.encode("utf-8", "replace"), media_type="application/json", headers=headers)


def _conversation(site: Site, request: Request) -> tuple[Conversation, int, str]:
    """Return the requested conversation, and the number and JSON of the requested step."""
    found = site.conversations(site.place(request))
    if not found or not len(found[0]):
        raise Missing("this run has no trajectory")
    query = request.query_params
    conversation = found[whole_number(query.get("conversation"), 0, len(found) - 1)]
    number = whole_number(query.get("number"), 1, max(1, len(conversation)))
    return conversation, number, conversation.raw(number) if "number" in query else ""


def _kinds(request: Request) -> list[str]:
    asked = request.query_params.getlist("kind")
    return [kind for kind in KINDS if kind in asked]


def _addresses(request: Request, conversation: Conversation) -> dict[str, Any]:
    base = request.url.path.rpartition("/")[0]
    which = f"conversation={conversation.number}&" if conversation.number else ""
    return {"conversation": conversation.number, "base": base, "steps_page": f"{base}/trajectory?{which}"}
