"""A trajectory as text that reads well, and as a page. What it holds was written by agents and models."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from pytest_mlebench.io.units import format_dollars, pluralize
from pytest_mlebench.reports.palette import stylesheet, variables
from pytest_mlebench.reports.plots.svg import SCHEME
from pytest_mlebench.reports.tables import markdown_text
from pytest_mlebench.reports.untrusted import one_line, plain

TEXT = 20_000
"""Characters that are shown of one message, argument or result."""
PAGE = 8 << 20
"""Characters of a page; the steps that come after them are left out."""
_STYLE = """
body{margin:0 auto;max-width:60rem;padding:1rem;font:15px/1.5 system-ui,sans-serif;background:var(--paper);
color:var(--ink)}
article{border:1px solid var(--line);border-radius:6px;margin:.75rem 0;padding:.5rem .75rem;background:var(--card)}
h1{font-size:1.3rem}h2{font-size:1.1rem;margin-top:2rem}h3{font-size:.85rem;margin:0;color:var(--muted);font-weight:500}
h3 b{color:var(--ink)}pre{white-space:pre-wrap;overflow-wrap:anywhere;font:13px/1.45 ui-monospace,monospace;
margin:.4rem 0}details>pre{border-left:3px solid var(--line);padding-left:.6rem}summary{cursor:pointer;font-size:.85rem}
.copied{opacity:.6}
"""


def markdown(trajectory: Mapping[str, Any]) -> str:
    """The trajectory as Markdown that is readable as it is; without control sequences, whatever was said."""
    return "\n".join(_markdown_lines(trajectory)) + "\n"


def _markdown_lines(trajectory: Mapping[str, Any]) -> Iterator[str]:
    found = conversations(trajectory)
    for number, one in enumerate(found):
        if number:
            yield ""
        yield f"{'#' * min(2, number + 1)} {markdown_text(title_of(one, number))}"
        yield ""
        if not number and len(found) > 1:
            yield from (f"{headline(trajectory)}; in the first:", "")
        yield totals(one)
        for step in steps_of(one):
            yield ""
            yield f"### {markdown_text(head(step))}"
            for title, text in blocks(step):
                yield ""
                if title:
                    what, _, name = one_line(title).partition(" ")
                    yield f"{what} `{name.replace('`', ' ')}`:" if name else f"{what}:"
                    yield ""
                # Indented, it is code for Markdown, which nothing in it can end.
                yield from (f"    {line}".rstrip() for line in _shown(text).split("\n"))
    if notes := trajectory.get("notes"):
        yield from ("", markdown_text(str(notes)))


def page(trajectory: Mapping[str, Any]) -> str:
    """The trajectory as self-contained HTML without scripts; all that was said is text in it."""
    parts: list[str] = []
    size = 0
    found = conversations(trajectory)
    for number, one in enumerate(found):
        steps = steps_of(one)
        parts.append(f"<h{min(2, number + 1)}>{_safe(title_of(one, number))}</h{min(2, number + 1)}>")
        whole = f"{headline(trajectory)}; in the first: " if not number and len(found) > 1 else ""
        parts.append(f"<p>{_safe(whole + totals(one))}</p>")
        for shown, step in enumerate(steps):
            if size > PAGE:
                parts.append(
                    f"<p>{pluralize(len(steps) - shown, 'further step')} left out: trajectory.json has all.</p>"
                )
                break
            parts.append(article := _article(step))
            size += len(article)
    if notes := trajectory.get("notes"):
        parts.append(f"<p>{_safe(str(notes))}</p>")
    title = _safe(f"Trajectory of {trajectory.get('session_id') or 'a run'}")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
        "base-uri 'none'; form-action 'none'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{SCHEME}:root{{{variables()}}}{stylesheet()}{_STYLE}</style></head>"
        f"<body><main>{''.join(parts)}</main></body></html>\n"
    )


def conversations(trajectory: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The trajectory itself, then those of its sub-agents."""
    others = trajectory.get("subagent_trajectories")
    return [trajectory, *(other for other in others or () if isinstance(other, Mapping))]


def _article(step: Mapping[str, Any]) -> str:
    source, _, rest = head(step).partition(" · ")
    body = []
    for title, text in blocks(step):
        content = f"<pre>{_safe(_shown(text))}</pre>"
        long = len(text) > 2000
        if title or long:
            opened = "" if long else " open"
            content = f"<details{opened}><summary>{_safe(title or 'message')}</summary>{content}</details>"
        body.append(content)
    copied = ' class="copied"' if step.get("is_copied_context") else ""
    return f"<article{copied}><h3><b>{_safe(source)}</b> {_safe(rest)}</h3>{''.join(body)}</article>\n"


def title_of(trajectory: Mapping[str, Any], number: int) -> str:
    agent = mapping(trajectory.get("agent"))
    if number:
        named = trajectory.get("trajectory_id") or agent.get("name")
        return one_line(f"Conversation {number + 1}" + (f": {named}" if named else ""))
    model = f" with {agent['model_name']}" if agent.get("model_name") else ""
    return one_line(f"{agent.get('name')}{model}: {trajectory.get('session_id') or 'trajectory'}")


def headline(trajectory: Mapping[str, Any]) -> str:
    """The totals of all conversations, with their number if there are several."""
    found = conversations(trajectory)
    return f"{pluralize(len(found), 'conversation')}, {totals(*found)}" if len(found) > 1 else totals(*found)


def totals(*trajectories: Mapping[str, Any]) -> str:
    """For example ``12 steps, 3,400 tokens in, 210 out, cost $0.02``, over all of these; the cost of all or none."""
    finals = [mapping(one.get("final_metrics")) for one in trajectories]
    count = sum(len(steps_of(one)) for one in trajectories)
    parts = [f"{count:,} step{'' if count == 1 else 's'}"]
    for name, word in (("total_prompt_tokens", "tokens in"), ("total_completion_tokens", "out")):
        if tokens := [value for final in finals if isinstance(value := final.get(name), int)]:
            parts.append(f"{sum(tokens):,} {word}")
    costs = [value for final in finals if isinstance(value := final.get("total_cost_usd"), int | float)]
    parts.append(f"cost {format_dollars(sum(costs) if len(costs) == len(finals) else None)}")
    return ", ".join(parts)


def head(step: Mapping[str, Any]) -> str:
    """For example ``3 agent · 2026-03-01 12:00:05 · gpt-4o · 1,200 tokens in, 90 out, $0.0021``."""
    parts = [f"{step.get('step_id')} {step.get('source')}"]
    if moment := step.get("timestamp"):
        parts.append(str(moment)[:19].replace("T", " "))
    if model := step.get("model_name"):
        parts.append(str(model))
    if metrics := mapping(step.get("metrics")):
        cost = metrics.get("cost_usd")
        used = [f"{metrics[name]:,} {word}" for name, word in _USED if isinstance(metrics.get(name), int)]
        parts.append(", ".join([*used, *([format_dollars(cost)] if isinstance(cost, int | float) else [])]))
    return " · ".join(filter(None, parts))


_USED = (("prompt_tokens", "tokens in"), ("completion_tokens", "out"))


def blocks(step: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What a step holds, each with a title; that of the message is empty."""
    if reasoning := step.get("reasoning_content"):
        yield "reasoning", str(reasoning)
    if message := step.get("message"):
        yield (
            "message" if reasoning else "",
            message if isinstance(message, str) else json.dumps(message, indent=2, ensure_ascii=False),
        )
    results = listed(mapping(step.get("observation")).get("results"))
    for call in listed(step.get("tool_calls")):
        yield f"calls {one_line(str(call.get('function_name')))}", arguments_text(mapping(call.get("arguments")))
        for result in results:
            if result.get("source_call_id") == call.get("tool_call_id"):
                yield "result", content_text(result.get("content"))
    for result in results:
        if result.get("source_call_id") is None:
            yield "result", content_text(result.get("content"))


def arguments_text(arguments: Mapping[str, Any]) -> str:
    """A single text as it is, such as a command; else a line for each argument."""
    if len(arguments) == 1 and isinstance(only := next(iter(arguments.values())), str):
        return only
    return "\n".join(f"{name}: {content_text(value)}" for name, value in arguments.items())


def content_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _shown(text: str) -> str:
    return plain(text, TEXT)


def _safe(text: str) -> str:
    return escape(plain(text))


def mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def listed(value: Any) -> Sequence[Mapping[str, Any]]:
    """The objects of a list; none where it is not a list."""
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def steps_of(trajectory: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return listed(trajectory.get("steps"))
