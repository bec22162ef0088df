"""Details of a single run, as every report format shows them, and its trajectory as Markdown and HTML."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from typing import Any

from pytest_mlebench.io.units import (
    format_dollars,
    format_duration,
    format_score,
    format_size,
    one_line,
    plain,
    pluralize,
)
from pytest_mlebench.io.values import as_object, as_objects
from pytest_mlebench.records.outcome import TWIN_DATA, Ending, SandboxAccount
from pytest_mlebench.records.record import RunRecord
from pytest_mlebench.reports.palette import stylesheet, variables
from pytest_mlebench.reports.plots.svg import SCHEME
from pytest_mlebench.reports.tables import markdown_text

TEXT = 20_000
"""Maximum number of characters shown of one message, argument or result."""
PAGE = 8 << 20
"""Approximate maximum size of a page, in characters."""
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
    """Return the trajectory as Markdown that is readable without rendering. Control sequences are removed."""
    return "\n".join(_markdown_lines(trajectory)) + "\n"


def _markdown_lines(trajectory: Mapping[str, Any]) -> Iterator[str]:
    found = conversations(trajectory)
    for number, conversation in enumerate(found):
        if number:
            yield ""
        yield f"{'#' * min(2, number + 1)} {markdown_text(title_of(conversation, number))}"
        yield ""
        if not number and len(found) > 1:
            yield from (f"{headline(trajectory)}; first conversation:", "")
        yield totals(conversation)
        for step in steps_of(conversation):
            yield ""
            yield f"### {markdown_text(head(step))}"
            for title, text in blocks(step):
                yield ""
                if title:
                    what, _, name = one_line(title).partition(" ")
                    yield f"{what} `{name.replace('`', ' ')}`:" if name else f"{what}:"
                    yield ""
                # Indented code blocks cannot be closed by their content, unlike fenced ones.
                yield from (f"    {line}".rstrip() for line in plain(text, TEXT).split("\n"))
    if notes := trajectory.get("notes"):
        yield from ("", markdown_text(str(notes)))


def page(trajectory: Mapping[str, Any]) -> str:
    """Return the trajectory as self-contained HTML without scripts. Messages are escaped.

    Steps after about ``PAGE`` characters are left out.
    """
    parts: list[str] = []
    size = 0
    found = conversations(trajectory)
    for number, conversation in enumerate(found):
        steps = steps_of(conversation)
        parts.append(f"<h{min(2, number + 1)}>{_safe(title_of(conversation, number))}</h{min(2, number + 1)}>")
        overall = f"{headline(trajectory)}; first conversation: " if not number and len(found) > 1 else ""
        parts.append(f"<p>{_safe(overall + totals(conversation))}</p>")
        for shown, step in enumerate(steps):
            if size > PAGE:
                omitted = pluralize(len(steps) - shown, "more step")
                parts.append(f"<p>{omitted} omitted: see trajectory.json.</p>")
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
    """Return the trajectory itself, then those of its sub-agents."""
    return [trajectory, *as_objects(trajectory.get("subagent_trajectories"))]


def _article(step: Mapping[str, Any]) -> str:
    source, _, rest = head(step).partition(" · ")
    body = []
    for title, text in blocks(step):
        content = f"<pre>{_safe(plain(text, TEXT))}</pre>"
        long = len(text) > 2000
        if title or long:
            opened = "" if long else " open"
            content = f"<details{opened}><summary>{_safe(title or 'message')}</summary>{content}</details>"
        body.append(content)
    copied = ' class="copied"' if step.get("is_copied_context") else ""
    return f"<article{copied}><h3><b>{_safe(source)}</b> {_safe(rest)}</h3>{''.join(body)}</article>\n"


def title_of(trajectory: Mapping[str, Any], number: int) -> str:
    agent = as_object(trajectory.get("agent"))
    if number:
        named = trajectory.get("trajectory_id") or agent.get("name")
        return one_line(f"Conversation {number + 1}" + (f": {named}" if named else ""))
    model = f" with {agent['model_name']}" if agent.get("model_name") else ""
    return one_line(f"{agent.get('name')}{model}: {trajectory.get('session_id') or 'trajectory'}")


def headline(trajectory: Mapping[str, Any]) -> str:
    """Return the totals of all conversations, with their number if there are several."""
    found = conversations(trajectory)
    return f"{pluralize(len(found), 'conversation')}, {totals(*found)}" if len(found) > 1 else totals(*found)


def totals(*trajectories: Mapping[str, Any]) -> str:
    """Return for example ``12 steps, 3,400 tokens in, 210 out, cost $0.02``; cost unknown unless all have one."""
    finals = [as_object(trajectory.get("final_metrics")) for trajectory in trajectories]
    count = sum(len(steps_of(trajectory)) for trajectory in trajectories)
    parts = [f"{count:,} step{'' if count == 1 else 's'}"]
    for name, word in _TOKEN_COUNTS:
        if tokens := [value for final in finals if isinstance(value := final.get(f"total_{name}"), int)]:
            parts.append(f"{sum(tokens):,} {word}")
    costs = [value for final in finals if isinstance(value := final.get("total_cost_usd"), int | float)]
    parts.append(f"cost {format_dollars(sum(costs) if len(costs) == len(finals) else None)}")
    return ", ".join(parts)


def head(step: Mapping[str, Any]) -> str:
    """Return for example ``3 agent · 2026-03-01 12:00:05 · gpt-4o · 1,200 tokens in, 90 out, $0.0021``."""
    parts = [f"{step.get('step_id')} {step.get('source')}"]
    if moment := step.get("timestamp"):
        parts.append(str(moment)[:19].replace("T", " "))
    if model := step.get("model_name"):
        parts.append(str(model))
    if metrics := as_object(step.get("metrics")):
        cost = metrics.get("cost_usd")
        used = [f"{metrics[name]:,} {word}" for name, word in _TOKEN_COUNTS if isinstance(metrics.get(name), int)]
        parts.append(", ".join([*used, *([format_dollars(cost)] if isinstance(cost, int | float) else [])]))
    return " · ".join(filter(None, parts))


_TOKEN_COUNTS = (("prompt_tokens", "tokens in"), ("completion_tokens", "out"))


def blocks(step: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield a step's parts as (title, text); a message without reasoning has an empty title."""
    if reasoning := step.get("reasoning_content"):
        yield "reasoning", str(reasoning)
    if message := step.get("message"):
        text = message if isinstance(message, str) else json.dumps(message, indent=2, ensure_ascii=False)
        yield "message" if reasoning else "", text
    results: dict[str | None, list[Any]] = {}
    for result in as_objects(as_object(step.get("observation")).get("results")):
        id = result.get("source_call_id")
        results.setdefault(id if isinstance(id, str) else None, []).append(result.get("content"))
    others = results.pop(None, [])
    for call in as_objects(step.get("tool_calls")):
        yield f"calls {one_line(str(call.get('function_name')))}", arguments_text(as_object(call.get("arguments")))
        id = call.get("tool_call_id")
        for content in results.pop(id, []) if isinstance(id, str) else []:
            yield "result", content_text(content)
    for content in others:
        yield "result", content_text(content)


def arguments_text(arguments: Mapping[str, Any]) -> str:
    """Return a single string argument, such as a command, unchanged; otherwise one line per argument."""
    if len(arguments) == 1 and isinstance(only := next(iter(arguments.values())), str):
        return only
    return "\n".join(f"{name}: {content_text(value)}" for name, value in arguments.items())


def content_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _safe(text: str) -> str:
    return escape(plain(text))


def steps_of(trajectory: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return as_objects(trajectory.get("steps"))


_LATEST = 20
_MAX_ITEMS = 10
_SHOWN_SEPARATELY = {"name", "limits", "validations", "connections", "unrecorded_connections", "gpu_usage"}
"""Keys of a sandbox's account that have their own line."""


def run_details(record: RunRecord) -> list[tuple[str, str]]:
    """Return (term, text) pairs, most interesting first; a text may have several lines.

    The texts are untrusted: control sequences are not removed and nothing is escaped.
    """
    better = "lower" if record.report.is_lower_better else "higher"
    checks = [f"after {format_duration(check.at)}: {check.verdict}" for check in record.sandbox.validations]
    thresholds = ", ".join(f"{name} {format_score(threshold)}" for name, threshold in record.thresholds.items())
    found = {
        "run": record.run_id,
        "outcome": record.outcome.label + (f": {record.reason}" if record.reason else ""),
        "ended": ending_in_words(record),
        "score": f"{format_score(record.score)}, {better} is better; {thresholds}",
        "certainty": _certainty(record),
        "submissions": "\n".join(_timeline(record)),
        "own estimate": _estimate(record),
        "checks": "\n".join(_latest(checks)),
        "models": "\n".join(_models(record)),
        "connections": "\n".join(_connections(record.sandbox)),
        "data": _data(record),
        "sandbox": _account(record.sandbox),
        "limits": _in_words(_limits({**record.limits, **record.sandbox.limits})),
        "versions": _in_words(record.versions),
        "started": f"{record.started_at[:16].replace('T', ' ')} UTC",
    }
    return [(term, text) for term, text in found.items() if text]


def _certainty(record: RunRecord) -> str:
    report = record.report
    if report.score_low is None or report.score_high is None:
        return f"unknown whether the {report.medal} medal is firm" if report.medal else ""
    interval = f"{format_score(report.score_low)} to {format_score(report.score_high)} in 95 % of resamples"
    return interval + (f"; the {report.medal} medal is {report.firmness}" if report.medal else "")


def last_change_in_words(record: RunRecord) -> str:
    """Return for example ``the last change cost a gold medal: 1.00000 after 0:25, 0.65000 at the end``, or empty."""
    change = record.last_change
    if change is None:
        return ""
    lost = f"a {change.best_medal} medal" if change.medal_lost else "some of the score"
    end = f"{format_score(change.score)}{f' ({change.medal})' if change.medal else ''} at the end"
    if change.score is None:
        end = "no valid submission at the end"
    best = f"{format_score(change.best_score)} after {format_duration(change.best_seconds)}"
    return f"the last change cost {lost}: {best}, {end}"


def _timeline(record: RunRecord) -> list[str]:
    if all(point.final for point in record.timeline):
        return []
    lines = [
        f"after {format_duration(point.seconds)}: {format_score(point.score)}"
        + (f", {point.medal}" if point.medal else "")
        + (f", {format_dollars(point.cost)}" if point.cost is not None else "")
        + (f" ({point.error})" if point.error else "")
        for point in record.timeline
    ]
    return [*_latest(lines), *filter(None, [last_change_in_words(record)])]


def _estimate(record: RunRecord) -> str:
    if record.validation_score is None:
        return ""
    gap = record.validation_gap
    error = "" if gap is None else f", {abs(gap):.5f} {'better' if gap > 0 else 'worse'} than the actual score"
    return f"{record.validation_score:.5f}{error}"


def ending_in_words(record: RunRecord) -> str:
    """Return for example ``crashed after 3.2 s (exit code 3)``."""
    return f"{record.ending} after {format_duration(record.seconds)}" + (f" ({record.detail})" if record.detail else "")


def ending_as_sentence(record: RunRecord) -> str:
    """Return for example ``The run crashed after 3.2 s (exit code 3).``"""
    detail = f" ({record.detail})" if record.detail else ""
    if record.ending is Ending.NOT_STARTED:
        return f"The agent was not started{detail}."
    verbs = {Ending.OUT_OF_MEMORY: "ran out of memory", Ending.BUDGET_ENDED: "ran out of budget"}
    return f"The run {verbs.get(record.ending, record.ending)} after {format_duration(record.seconds)}{detail}."


def failure_text(record: RunRecord, log_tail: str, min_medal: str | None = None) -> str:
    """Return why a run failed: the reason, how it ended, and the end of the log, safe to show on a terminal."""
    report = record.report
    lines = [f"{record.agent} on {record.competition_id}, seed {record.seed}: {record.outcome.label}"]
    if record.outcome.is_below(min_medal):
        lines.append(f"score {report.score}; --min-medal {min_medal} requires {record.thresholds[str(min_medal)]}")
    elif record.error is not None:
        lines.append(f"the harness failed: {record.error}")
    else:
        lines.append(f"reason: {record.reason}")
    lines.append(f"the run: {ending_in_words(record)}")
    if log_tail:
        lines += ["end of the agent's log:", *(f"    {line}" for line in log_tail.splitlines())]
    return plain("\n".join(lines))


def properties(record: RunRecord) -> list[tuple[str, Any]]:
    """Return a run as properties of a test case, for JUnit XML; properties without a value are left out."""
    report = record.report
    found: list[tuple[str, Any]] = [
        ("competition", record.competition_id),
        ("agent", record.agent),
        ("seed", record.seed),
        ("outcome", str(record.outcome)),
        ("ending", str(record.ending)),
        ("seconds", record.seconds),
        ("score", record.score),
        ("medal", report.medal),
        ("firm", report.firm),
        *((f"{name}_threshold", threshold) for name, threshold in record.thresholds.items()),
        ("percentile", report.percentile),
        ("run_id", record.run_id),
    ]
    if (usage := record.usage).calls is not None:
        found += [
            ("cost", usage.cost),
            ("model_calls", usage.calls),
            ("models", ", ".join(usage.models)),
            *((f"{name}_tokens", count) for name, count in usage.tokens.items()),
            ("model_seconds", usage.seconds),
            ("budget_ended", usage.budget_ended),
        ]
    return [(name, value) for name, value in found if value is not None]


def _data(record: RunRecord) -> str:
    states = {True: "matches the reference's checksums", False: "differs from the reference", None: ""}
    known = TWIN_DATA if record.is_twin else states[record.data_verified]
    return ", ".join(filter(None, [known, record.description and f"{record.description} description"]))


def _latest(lines: list[str]) -> list[str]:
    earlier = [f"({len(lines) - _LATEST} earlier)"] if len(lines) > _LATEST else []
    return earlier + lines[-_LATEST:]


def _models(record: RunRecord) -> list[str]:
    usage = record.usage
    if usage.calls is None:
        return ["the gateway was off"] if usage.gateway == "off" else []
    tokens = usage.tokens
    lines = [
        f"{pluralize(usage.calls, 'call')}, {tokens.get('input', 0):,} tokens in, "
        f"{tokens.get('cached', 0):,} of them cached, {tokens.get('output', 0):,} out, "
        f"{format_duration(usage.seconds)}, cost {format_dollars(record.cost) if usage.calls else '$0'}"
    ]
    models = list(usage.models.items())[:_MAX_ITEMS]
    lines += [f"{model.calls} × {name}, {format_dollars(model.cost)}" for name, model in models]
    if usage.replayed:
        nearly = f", {usage.replayed_nearly} of them for a nearly identical request"
        lines.append(f"{usage.replayed} replayed" + (nearly if usage.replayed_nearly else ""))
    for what, counts in (("errors", usage.errors), ("withheld", usage.withheld)):
        if counts:
            lines.append(f"{what}: {counted(counts)}")
    return lines


def counted(counts: Mapping[str, int]) -> str:
    """Return for example ``12 × 429, 1 × 500``."""
    return ", ".join(f"{count} × {name}" for name, count in list(counts.items())[:_MAX_ITEMS])


def _connections(sandbox: SandboxAccount) -> list[str]:
    counts = Counter((c.host, c.port, c.allowed) for c in sandbox.connections)
    lines = [
        f"{count} × {host}:{port}{'' if allowed else ' refused'}"
        for (host, port, allowed), count in counts.most_common(_MAX_ITEMS)
    ]
    others = sum(counts.values()) - sum(count for _, count in counts.most_common(_MAX_ITEMS))
    others += sandbox.unrecorded_connections
    return [*lines, f"{others} more"] if others else lines


def _limits(limits: Mapping[str, Any]) -> Mapping[str, Any]:
    found = {}
    for key, value in limits.items():
        words, shown = _LIMITS.get(key, (key.replace("_", " "), None))
        found[words] = shown(value) if shown and isinstance(value, int | float) else value
    return found


_LIMITS: Mapping[str, tuple[str, Callable[[float], str]]] = {
    "time_limit": ("time limit", format_duration),
    "cpus": ("processors", "{:g}".format),
    "memory": ("memory", format_size),
    "gpus": ("GPUs", "{:g}".format),
    "disk": ("disk", format_size),
    "log_bytes": ("log", format_size),
    "collect_bytes": ("collected files", format_size),
    "collect_files": ("number of collected files", str),
}


def _account(sandbox: SandboxAccount) -> str:
    """Return for example ``docker, network llm, notes: …``."""
    rest = {key.replace("_", " "): value for key, value in sandbox.to_json().items() if key not in _SHOWN_SEPARATELY}
    if used := _gpu_usage(sandbox):
        rest["GPU use"] = used
    texts = {key: value for key, value in rest.items() if not isinstance(value, list)}
    lists = [f"{key}: {'; '.join(map(str, value))}" for key, value in rest.items() if isinstance(value, list)]
    return "\n".join(filter(None, [", ".join(filter(None, [sandbox.name, _in_words(texts)])), *lists]))


def _gpu_usage(sandbox: SandboxAccount) -> list[str]:
    """Return for example ``GPU-1234: 35 % on average, 99 % peak, 3.2 GiB peak memory``."""
    lines = []
    for uuid, values in sandbox.gpu_usage.items():
        numbers = {k: v for k, v in as_object(values).items() if isinstance(v, int | float) and math.isfinite(v)}
        parts = [
            f"{numbers[key]:.0f} % {words}"
            for key, words in (("utilization_mean", "on average"), ("utilization_peak", "peak"))
            if key in numbers
        ]
        if "memory_peak" in numbers:
            parts.append(f"{format_size(numbers['memory_peak'])} peak memory")
        lines.append(f"{uuid}: {', '.join(parts)}")
    return lines


def _in_words(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in values.items() if value not in (None, "", [], {}))
