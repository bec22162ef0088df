"""Converts a run to OpenTelemetry spans, by the semantic conventions for generative AI, which are in development.

A run is a trace: the root ``invoke_agent``, a ``chat`` span for each model call, an ``execute_tool`` span for each tool
that an answer called, and ``gen_ai.evaluation.result`` events for each graded snapshot and for the grade. The names
of other attributes begin with ``mlebench.``. Ids are derived from the run's id, so resent spans are the same spans.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_mlebench.extras.interop.facts import Clean, trajectory
from pytest_mlebench.io.values import as_number, as_object, as_objects
from pytest_mlebench.llm.ledger import BODIES, read_bodies, read_calls
from pytest_mlebench.records.record import RunRecord
from pytest_mlebench.reports.run_details import conversations, steps_of

if TYPE_CHECKING:
    from opentelemetry.proto.common.v1.common_pb2 import KeyValue
    from opentelemetry.proto.trace.v1.trace_pb2 import Span

VERSION = "1.41.0"
"""Version of the semantic conventions: the last one that includes generative AI. The scope of all spans has it."""
SCHEMA = f"https://opentelemetry.io/schemas/{VERSION}"
EVALUATION = "gen_ai.evaluation.result"
_TEXT, _CONTENT = 2_000, 64 << 10
"""Maximum characters of an attribute, and of one with content."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST = (1 << 63) - 1
"""The times of spans have 64 bits, and a duration may be added."""
_INTERNAL, _CLIENT, _ERROR = 1, 3, 2


OPERATIONS = {"generate": "chat", "embed": "embeddings"}
"""Operations by the ledger's kind of call. Other calls, which cost nothing, have no spans."""
PROVIDERS = {"gemini": "gcp.gemini", "gemini-openai": "gcp.gemini", "azure": "azure.ai.openai", "mistral": "mistral_ai",
              "xai": "x_ai", "bedrock": "aws.bedrock"}  # fmt: skip
"""Names of providers in the conventions that differ from ours."""
TOKENS = {
    "input": "gen_ai.usage.input_tokens",
    "output": "gen_ai.usage.output_tokens",
    "cached": "gen_ai.usage.cache_read.input_tokens",
    "cache_written": "gen_ai.usage.cache_creation.input_tokens",
    "reasoning": "gen_ai.usage.reasoning.output_tokens",
}


class RunSpans:
    """Creates the spans of runs. ``clean`` masks secrets in a text.

    ``content`` adds the contents: the messages that each call added, its answer, and tools' arguments and results.
    Recordings larger than ``max_recording`` bytes are not read, so their answers have no finish reasons.
    """

    def __init__(self, clean: Clean, *, content: bool = False, max_recording: int | None = None) -> None:
        self._clean = clean
        self._content = content
        self._max_recording = max_recording

    def of(self, record: RunRecord, run_dir: Path) -> Iterator[Span]:
        """The spans of a run, the root last."""
        trace = _id(16, record.run_group, record.run_id)
        root = _id(8, record.run_id)
        calls = [call for call in read_calls(run_dir) if call.get("kind") in tuple(OPERATIONS)]
        found = (trajectory(run_dir, record) if calls else None) or {}
        steps = {number: step for one in conversations(found) for number, step in _calls_of(steps_of(one)).items()}
        finish = self._finish_reasons(run_dir)
        began = _unix_nanoseconds(record.started_at)
        starts = {str(call.get("number")): _unix_nanoseconds(str(call.get("started_at"))) or began for call in calls}
        for call in calls:
            number = str(call.get("number"))
            span = self._span(trace, root, _id(8, record.run_id, "call", number), _CLIENT)
            step = steps.get(number)
            self._chat(span, call, starts[number], finish.get(number), step)
            yield span
            if step is None:
                continue
            for at, tool in enumerate(step.tools):
                tool_span = self._span(trace, root, _id(8, record.run_id, "tool", number, at), _INTERNAL)
                self._tool(tool_span, tool, step, number)
                tool_span.start_time_unix_nano = end = span.end_time_unix_nano
                tool_span.end_time_unix_nano = max(end, starts.get(step.next_call or "", 0))
                yield tool_span
        yield self._root(self._span(trace, b"", root, _INTERNAL), record, calls)

    def _span(self, trace: bytes, parent: bytes, id: bytes, kind: int) -> Span:
        from opentelemetry.proto.trace.v1.trace_pb2 import Span

        return Span(trace_id=trace, span_id=id, parent_span_id=parent, kind=kind)  # type: ignore[arg-type]

    def _attributes(self, values: Mapping[str, Any], limit: int = _TEXT) -> list[KeyValue]:
        from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue

        def value(given: Any) -> AnyValue:
            if isinstance(given, bool):
                return AnyValue(bool_value=given)
            if isinstance(given, int) and abs(given) < 1 << 63:
                return AnyValue(int_value=given)
            if isinstance(given, float):
                return AnyValue(double_value=given)
            if isinstance(given, list | tuple):
                return AnyValue(array_value=ArrayValue(values=[value(item) for item in given]))
            text = self._clean(str(given))
            return AnyValue(string_value=text if len(text) <= limit else f"{text[:limit]}…")

        return [KeyValue(key=key, value=value(item)) for key, item in values.items() if item not in (None, "", [])]

    def _chat(
        self, span: Span, call: Mapping[str, Any], start: int, finish: list[str] | None, step: CallStep | None
    ) -> None:
        model, operation = call.get("model") or "unknown", OPERATIONS[str(call.get("kind"))]
        span.name = self._clean(f"{operation} {model}")[:_TEXT]
        span.start_time_unix_nano = start
        span.end_time_unix_nano = start + _nanoseconds(call.get("seconds"))
        tokens = as_object(call.get("tokens"))
        status, error = call.get("status"), call.get("error")
        failed = error is not None or not isinstance(status, int) or status >= 400
        values: dict[str, Any] = {
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": _provider(call.get("provider")),
            "gen_ai.request.model": model,
            "gen_ai.response.model": call.get("answered_model"),
            "gen_ai.response.finish_reasons": finish,
            "gen_ai.request.stream": call.get("stream"),
            "gen_ai.response.time_to_first_chunk": call.get("first_token"),
            **{name: tokens.get(key) for key, name in TOKENS.items()},
            "error.type": (str(status) if isinstance(status, int) and status >= 400 else "_OTHER") if failed else None,
            "mlebench.call": str(call.get("number")),
            **{f"mlebench.{name}": call.get(name) for name in ("cost", "retries", "refused", "replayed")},
        }
        span.attributes.extend(self._attributes(values))
        if failed:
            span.status.code = _ERROR  # type: ignore[assignment]
            span.status.message = self._clean(str(error or ""))[:_TEXT]
        if self._content and step:
            content = {"gen_ai.input.messages": _json(step.input), "gen_ai.output.messages": _json(step.output)}
            span.attributes.extend(self._attributes(content, _CONTENT))

    def _tool(self, span: Span, tool: Mapping[str, Any], step: CallStep, call: str) -> None:
        name, id = str(tool.get("function_name") or "unknown"), str(tool.get("tool_call_id"))
        span.name = self._clean(f"execute_tool {name}")[:_TEXT]
        values = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": name,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": id,
        }
        span.attributes.extend(self._attributes({**values, "mlebench.call": call}))
        if self._content:
            content = {
                "gen_ai.tool.call.arguments": _json(tool.get("arguments")),
                "gen_ai.tool.call.result": step.results.get(id),
            }
            span.attributes.extend(self._attributes(content, _CONTENT))

    def _root(self, span: Span, record: RunRecord, calls: list[dict[str, Any]]) -> Span:
        start, end = _unix_nanoseconds(record.started_at), _unix_nanoseconds(record.ended_at)
        span.name = self._clean(f"invoke_agent {record.agent}")
        span.start_time_unix_nano, span.end_time_unix_nano = start, max(start, end)
        models = list(record.models_called)
        passed, report = record.outcome.passed, record.report
        values: dict[str, Any] = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.provider.name": _provider(calls[0].get("provider") if calls else None),
            "gen_ai.agent.name": record.agent,
            "gen_ai.conversation.id": record.run_id,
            "gen_ai.request.model": models[0] if len(models) == 1 else None,
            **{name: record.usage.tokens.get(key) for key, name in TOKENS.items()},
            "error.type": None if passed else record.outcome.value,
            "mlebench.run_id": record.run_id,
            "mlebench.run_group": record.run_group,
            "mlebench.competition": record.competition_id,
            "mlebench.split": record.split,
            "mlebench.category": record.category,
            "mlebench.seed": record.seed,
            "mlebench.bench_version": report.bench_version,
            "mlebench.outcome": record.outcome.value,
            "mlebench.ending": record.ending.value,
            "mlebench.score": record.score,
            "mlebench.medal": report.medal or "none",
            "mlebench.percentile": report.percentile,
            "mlebench.seconds": record.seconds,
            "mlebench.cost": record.cost,
            "mlebench.models": models,
            "mlebench.sandbox": record.sandbox.name,
            "mlebench.data_verified": record.data_verified,
            "mlebench.generated_data": report.generated or None,
        }
        span.attributes.extend(self._attributes(values))
        if not passed:
            span.status.code = _ERROR  # type: ignore[assignment]
            span.status.message = self._clean(record.reason or record.detail)[:_TEXT]
        for point in record.timeline:
            if not point.final:
                at = start + _nanoseconds(point.seconds)
                more = {"mlebench.calls": point.calls, "mlebench.cost": point.cost, "mlebench.snapshot": True}
                self._evaluation(span, at, point.score, point.medal, point.error, more)
        more = {"mlebench.percentile": report.percentile, "mlebench.snapshot": False}
        self._evaluation(span, span.end_time_unix_nano, record.score, report.medal, record.reason, more)
        return span

    def _evaluation(
        self, span: Span, at: int, score: float | None, medal: str | None, why: str | None, more: Mapping[str, Any]
    ) -> None:
        values = {
            "gen_ai.evaluation.name": "mle-bench",
            "gen_ai.evaluation.score.value": score,
            "gen_ai.evaluation.score.label": medal or "none",
            "gen_ai.evaluation.explanation": why,
        }
        span.events.add(time_unix_nano=at, name=EVALUATION, attributes=self._attributes({**values, **more}))

    def _finish_reasons(self, run_dir: Path) -> dict[str, list[str]]:
        """The finish reasons of each answer, by the call's number."""
        path = run_dir / BODIES
        if not path.is_file() or (self._max_recording is not None and path.stat().st_size > self._max_recording):
            return {}
        return {str(body.get("number")): list(_reasons(body.get("response"))) for body in read_bodies(run_dir)}


def _reasons(answer: Any) -> Iterator[str]:
    """The finish reasons of an answer, as its API names them."""
    answer = as_object(answer)
    for part in (answer, *as_objects(answer.get("choices")), *as_objects(answer.get("candidates"))):
        found = [part.get(name) for name in ("finish_reason", "finishReason", "stop_reason")]
        yield from (reason[:100] for reason in found if isinstance(reason, str))
    if answer.get("object") == "response" and isinstance(status := answer.get("status"), str):
        yield status[:100]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str) if value else ""


def _provider(name: Any) -> str:
    return PROVIDERS.get(str(name), str(name)) if name else "_OTHER"


def _id(size: int, *parts: Any) -> bytes:
    return hashlib.blake2b("\0".join(map(str, parts)).encode("utf-8", "surrogatepass"), digest_size=size).digest()


def _unix_nanoseconds(text: str) -> int:
    """Convert a time in ISO 8601 to nanoseconds since 1970, at most 63 bits; returns 0 if it is invalid."""
    try:
        found = datetime.fromisoformat(text)
        since = (found.replace(tzinfo=found.tzinfo or UTC) - _EPOCH) // timedelta(microseconds=1) * 1000
        return min(max(0, since), _LATEST)
    except ValueError:
        return 0


def _nanoseconds(seconds: Any) -> int:
    return int(min(max(0.0, as_number(seconds) or 0.0), 1e9) * 1e9)


@dataclass(frozen=True)
class CallStep:
    """A model call. Its messages have the form of OpenTelemetry's ``gen_ai.input.messages``."""

    input: list[dict[str, Any]]
    output: list[dict[str, Any]]
    tools: Sequence[Mapping[str, Any]]
    results: Mapping[str, str]
    next_call: str | None
    """The number of the call that received the tools' results; None if there was none."""


def _calls_of(steps: Sequence[Mapping[str, Any]]) -> dict[str, CallStep]:
    """The calls of a conversation by number."""
    calls: dict[str, CallStep] = {}
    messages: list[dict[str, Any]] = []
    answers = [step for step in steps if step.get("llm_call_count") == 1]
    numbers = [_number(step) for step in answers]
    following = iter([*numbers[1:], None])
    for step in steps:
        parts: list[dict[str, Any]] = [{"type": "text", "content": step.get("message")}] if step.get("message") else []
        tools = as_objects(step.get("tool_calls"))
        parts += [
            {
                "type": "tool_call",
                "id": t.get("tool_call_id"),
                "name": t.get("function_name"),
                "arguments": t.get("arguments"),
            }
            for t in tools
        ]
        returned = as_objects(as_object(step.get("observation")).get("results"))
        results = {str(result.get("source_call_id")): str(result.get("content")) for result in returned}
        role = "assistant" if step.get("source") == "agent" else str(step.get("source"))
        message = {"role": role, "parts": parts}
        if step.get("llm_call_count") == 1:
            calls[_number(step)] = CallStep(messages, [message], tools, results, next(following))
            messages = []
        else:
            messages.append(message)
        if results:
            answered = [{"type": "tool_call_response", "id": id, "response": text} for id, text in results.items()]
            messages.append({"role": "tool", "parts": answered})
    return calls


def _number(step: Mapping[str, Any]) -> str:
    return str(as_object(step.get("extra")).get("call"))
