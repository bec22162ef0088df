"""Anthropic's API: Messages and count_tokens."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, ClassVar

from pytest_mlebench.io.values import as_object, as_objects, loads
from pytest_mlebench.llm import api
from pytest_mlebench.llm.api import Body, CallContent, Endpoint, Message, ToolResult
from pytest_mlebench.llm.requests import (
    DROPPED,
    Admission,
    Fields,
    Problem,
    Rule,
    Tagged,
    base64,
    by_address,
    client_tool,
    count,
    either,
    fields,
    flag,
    many,
    mapping,
    media,
    number,
    only_with_provider,
    refused,
    text,
    whole,
    word,
)

_CLIENT_TOOLS = re.compile(r"custom|(bash|text_editor|computer|memory|tool_search_tool_(regex|bm25))_\d{8}")
"""Tools that the client runs itself, and tool search, which does not access the network."""
_BETAS = re.compile(
    "(interleaved-thinking|dev-full-thinking|context-1m|context-management|prompt-caching|prompt-caching-scope"
    "|extended-cache-ttl|token-efficient-tools|fine-grained-tool-streaming|output-128k|output-300k|effort"
    "|structured-outputs|advanced-tool-use|tool-search-tool|tool-examples|computer-use|model-context-window-exceeded"
    "|max-tokens-3-5-sonnet|pdfs|token-counting|thinking-token-count|thinking-display-updates|redact-thinking"
    r"|task-budgets|mid-conversation-system)-\d{4}-\d\d-\d\d|claude-code-\d{8}"
)
"""Features that do not select a model, tool, file or price. Others are dropped, with the fields that they add."""
_BETAS_OF_TOOLS = re.compile(r"(web-search|web-fetch|code-execution|mcp-client|files-api|skills)-\d{4}-\d\d-\d\d")

_cache = fields("ttl", "scope")
_INNER: dict[str, Rule] = {}
_nested = either({str: text, list: many(Tagged(_INNER, what="a block"))})
"""Content of a tool's result, a document or a system prompt. Its blocks, which can contain others, are added below."""
_citations = either({dict: Fields(enabled=flag), list: many(mapping)})


def _source(what: str) -> Rule:
    return Tagged(
        {
            "base64": media(fields("media_type", data=base64), "media_type"),
            "text": fields("media_type", "data"),
            "content": fields(content=_nested),
            "url": by_address,
            "file": by_address,
        },
        what=f"the source of {what}",
    )


_INNER |= {
    "text": fields("text", cache_control=_cache, citations=_citations),
    "image": fields(source=_source("an image"), cache_control=_cache),
    "document": fields("title", "context", source=_source("a document"), citations=_citations, cache_control=_cache),
    "search_result": fields("source", "title", content=_nested, citations=_citations, cache_control=_cache),
    "tool_reference": fields("tool_name", cache_control=_cache),
}
_BLOCK: dict[str, Rule] = {
    **_INNER,
    "tool_use": fields("id", "name", input=mapping, cache_control=_cache),
    "tool_result": fields("tool_use_id", content=_nested, is_error=flag, cache_control=_cache),
    "thinking": fields("thinking", "signature"),
    "redacted_thinking": fields("data"),
}
_blocks = either({str: text, list: many(Tagged(_BLOCK, what="a block"))})


def _runs_on_client(tool: Body) -> bool:
    type = tool.get("type")
    return type is None or (isinstance(type, str) and _CLIENT_TOOLS.fullmatch(type) is not None)


_tool = client_tool(
    fields(
        *("name", "description"),
        input_schema=mapping,
        input_examples=many(mapping),
        cache_control=_cache,
        **dict.fromkeys(("strict", "defer_loading", "eager_input_streaming", "enable_zoom"), flag),
        **dict.fromkeys(("max_characters", "display_height_px", "display_width_px", "display_number"), count),
    ),
    _runs_on_client,
)
_EDITS = ("clear_tool_uses_20250919", "clear_thinking_20251015")
_amount = either({str: word, dict: fields(value=count)})


def _edit(value: Any, admission: Admission) -> Any:
    """How the provider shortens a conversation. Summaries by the model are dropped because they cost more."""
    if type(value) is dict and value.get("type") not in _EDITS:
        admission.drop(f"context_management.{str(value.get('type'))[:64]}")
        return DROPPED
    return _edit_fields(value, admission)


_edit_fields = fields(
    trigger=fields(value=count),
    keep=_amount,
    clear_at_least=fields(value=count),
    exclude_tools=many(text),
    clear_tool_inputs=either({bool: flag, list: many(text)}),
)
_FALLBACKS = "fallbacks are not passed on because they could cost more: name one model"
_MESSAGES = Fields(
    model=text,
    max_tokens=count,
    messages=many(fields("role", content=_blocks)),
    system=_nested,
    stream=flag,
    stop_sequences=many(text),
    temperature=number,
    top_p=number,
    top_k=whole,
    tools=many(_tool),
    tool_choice=fields("name", disable_parallel_tool_use=flag),
    thinking=fields("display", budget_tokens=count),
    metadata=Fields(user_id=text),
    **dict.fromkeys(("service_tier", "speed", "inference_geo"), word),
    cache_control=_cache,
    context_management=Fields(edits=many(_edit)),
    output_format=fields(schema=mapping),
    output_config=Fields(effort=word, format=fields(schema=mapping), task_budget=fields(total=count, remaining=count)),
    mcp_servers=only_with_provider("mcp"),
    container=only_with_provider("container"),
    **dict.fromkeys(("fallbacks", "models"), refused(_FALLBACKS)),
    thread=refused("threads are stored by the provider: send all messages instead"),
).requiring("messages")
_SYSTEM_TOKENS = 4096
"""Upper bound for the system prompt that tools add."""


class Anthropic(api.API):
    name = "anthropic"
    key_header = "x-api-key"
    usage_of = "anthropic"
    paths: ClassVar = {
        "POST /v1/messages": Endpoint(kind="generate", rule=_MESSAGES),
        "POST /v1/messages/count_tokens": Endpoint(kind="count", stream=False, rule=_MESSAGES),
    }
    models = re.compile(r"/v1/models(/[A-Za-z0-9][A-Za-z0-9._-]*)?")
    query = frozenset({"beta", "limit", "before_id", "after_id"})
    last_events = ("message_stop",)
    headers: ClassVar = {
        "anthropic-version": re.compile(r"\d{4}-\d\d-\d\d"),
        "anthropic-beta": re.compile("[ -~]{0,4096}"),
    }

    def error(self, problem: Problem, message: str) -> Body:
        return {"type": "error", "error": {"type": api.ERRORS[problem].anthropic, "message": message}}

    def betas(self, names: str, *, provider_tools: bool) -> tuple[str, list[str]]:
        given = [name.strip() for name in names.split(",") if name.strip()]
        known = [
            name for name in given if _BETAS.fullmatch(name) or (provider_tools and _BETAS_OF_TOOLS.fullmatch(name))
        ]
        return ",".join(known), [name for name in given if name not in known]

    def drop_withheld_tools(self, body: Body, admission: Admission) -> None:
        choice = body.get("tool_choice") or {}
        if choice.get("type") == "tool" and choice.get("name") in admission.withheld_names:
            raise api.withheld_tool(str(choice["name"]))
        if admission.withheld_names and not body["tools"]:
            if choice.get("type") == "any":
                raise api.withheld_tool(admission.withheld[-1])
            body.pop("tools")
            body.pop("tool_choice", None)

    def expected(self, endpoint: Endpoint, body: Body, size: int, admission: Admission) -> api.Expected:
        tokens = size + admission.media * api.MEDIA_TOKENS + _SYSTEM_TOKENS
        return api.Expected(
            input_tokens=None if admission.unbounded else tokens,
            output_tokens=(body.get("max_tokens") or None) if endpoint.kind == "generate" else 0,
            long_context=admission.long_context,
        )

    def limit_output(self, endpoint: Endpoint, body: Body, tokens: int, admission: Admission) -> bool:
        least = as_object(body.get("thinking")).get("budget_tokens") or 0
        if tokens <= least:  # max_tokens must be larger than the thinking budget
            return False
        body["max_tokens"] = tokens
        return True

    def stream(self, endpoint: Endpoint) -> api.StreamReader:
        return _Messages()

    def as_stream(self, endpoint: Endpoint, answer: Body) -> Iterator[tuple[str | None, Body | str]]:
        for event in _events(answer):
            yield event["type"], event

    def said(self, path: str, request: Body, answer: Body) -> CallContent:
        messages = [Message(role="system", text=system)] if (system := api.content_text(request.get("system"))) else []
        for message in as_objects(request.get("messages")):
            blocks = message.get("content")
            if message.get("role") == "assistant":
                messages.append(_agent_message(blocks))
                continue
            results = [
                ToolResult(id=api.as_string(block.get("tool_use_id")), content=api.content_text(block.get("content")))
                for block in as_objects(blocks)
                if block.get("type") == "tool_result"
            ]
            if results:
                messages.append(Message(role="results", results=tuple(results)))
            if isinstance(blocks, list):
                blocks = [block for block in blocks if as_object(block).get("type") != "tool_result"]
            if blocks or not results:
                messages.append(Message(role="user", text=api.content_text(blocks)))
        reply = _agent_message(answer.get("content")) if answer else None
        return CallContent(messages=api.merge_messages(messages), answer=reply, tools=as_objects(request.get("tools")))

    def question(self, question: api.Question) -> tuple[str, Body]:
        tool = {"name": api.ANSWER, "description": "Give the answers.", "input_schema": question.schema}
        return "/v1/messages", {
            "model": question.model,
            "max_tokens": question.max_tokens,
            "system": question.system,
            "messages": [{"role": "user", "content": question.user}],
            "tools": [tool],
            "tool_choice": {"type": "tool", "name": api.ANSWER},
        }


class _Messages(api.StreamReader):
    """Assembles a message from ``message_start``, ``content_block_…`` and ``message_delta`` events."""

    def __init__(self) -> None:
        self._answer: Body = {}
        self._blocks: dict[int, Body] = {}
        self._arguments: dict[int, str] = {}

    def feed(self, event: Body) -> None:
        type = event.get("type")
        if type == "message_start" and isinstance(event.get("message"), dict):
            self._answer = dict(event["message"])
        elif type == "content_block_start" and isinstance(event.get("content_block"), dict):
            self._blocks[api.as_index(event.get("index"))] = dict(event["content_block"])
        elif type == "content_block_delta" and isinstance(event.get("delta"), dict):
            self._delta(api.as_index(event.get("index")), event["delta"])
        elif type == "message_delta":
            self._answer |= as_object(event.get("delta"))
            if known := {key: value for key, value in as_object(event.get("usage")).items() if value is not None}:
                self._answer["usage"] = {**as_object(self._answer.get("usage")), **known}

    def _delta(self, index: int, delta: Body) -> None:
        block = self._blocks.setdefault(index, {})
        for key, value in delta.items():
            if key == "partial_json":
                self._arguments[index] = self._arguments.get(index, "") + str(value)
            elif key == "citation":
                block["citations"] = [*as_objects(block.get("citations")), value]
            elif key != "type":
                before = block.get(key)
                block[key] = before + value if isinstance(before, str) and isinstance(value, str) else value

    def answer(self) -> Body:
        blocks = []
        for index in sorted(self._blocks):
            block = dict(self._blocks[index])
            if arguments := self._arguments.get(index):
                try:
                    block["input"] = loads(arguments)
                except ValueError:  # truncated
                    block["input"] = arguments
            blocks.append(block)
        return {**self._answer, "content": blocks}


def _events(answer: Body) -> Iterator[Body]:
    usage = answer.get("usage") or {}
    started = {**answer, "content": [], "stop_reason": None, "stop_sequence": None}
    yield {"type": "message_start", "message": started}
    for index, block in enumerate(answer.get("content") or ()):
        empty, delta = _block(block)
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        for part in delta:
            yield {"type": "content_block_delta", "index": index, "delta": part}
        yield {"type": "content_block_stop", "index": index}
    ended = {key: answer.get(key) for key in ("stop_reason", "stop_sequence")}
    yield {"type": "message_delta", "delta": ended, "usage": usage}
    yield {"type": "message_stop"}


_STREAMED = {"text": ("text",), "thinking": ("thinking", "signature")}
"""Fields of a block that deltas contain, by the block's type."""


def _block(block: Body) -> tuple[Body, list[Any]]:
    """Return a block as it starts in a stream, and its deltas."""
    if block.get("type") == "tool_use":
        arguments = json.dumps(block.get("input", {}))
        return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": arguments}]
    names = _STREAMED.get(block.get("type", ""), ())
    deltas = [{"type": f"{name}_delta", name: block.get(name, "")} for name in names]
    return {**block, **dict.fromkeys(names, "")}, deltas


def _agent_message(content: Any) -> Message:
    blocks = as_objects(content)
    text = api.joined(block.get("text") for block in blocks if block.get("type") == "text")
    return Message(
        role="agent",
        text=content if isinstance(content, str) else text,
        reasoning=api.joined(block.get("thinking") for block in blocks if block.get("type") == "thinking"),
        calls=tuple(
            api.called(block.get("id"), block.get("name"), block.get("input"))
            for block in blocks
            if api.as_string(block.get("type")).endswith("tool_use")
        ),
    )
