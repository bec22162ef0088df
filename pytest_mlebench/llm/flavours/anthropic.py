"""Anthropic's API: Messages and count_tokens."""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterator
from typing import Any

from pytest_mlebench.json_values import loads
from pytest_mlebench.llm.flavours.base import (
    MEDIA_TOKENS,
    Body,
    Endpoint,
    Expected,
    Flavour,
    Problem,
    Refusal,
    StreamReader,
    number,
    refuse_disguises,
    refuse_references,
    withheld_tool,
)

_PATHS = {
    ("POST", "/v1/messages"): Endpoint(kind="generate"),
    ("POST", "/v1/messages/count_tokens"): Endpoint(kind="count", stream=False),
    ("GET", "/v1/models"): Endpoint(kind="models", stream=False),
}
_MODEL = re.compile(r"/v1/models/[A-Za-z0-9][A-Za-z0-9._-]*")
_CLIENT_TOOLS = re.compile(r"custom|(bash|text_editor|computer|memory|tool_search_tool_(regex|bm25))_\d{8}")
"""Tools that the client itself runs, and the search among tools, which reaches no network."""
_PROVIDER_FIELDS = {"mcp_servers": "mcp", "container": "container"}
_GUARDED = {
    **{name.replace("_", ""): name for name in (*_PROVIDER_FIELDS, "tool_choice", "max_tokens")},
    **{name: name for name in ("model", "tools", "messages", "system", "stream")},
}
_TYPES: dict[Problem, str] = {
    "authentication": "authentication_error",
    "not_found": "not_found_error",
    "invalid": "invalid_request_error",
    "too_large": "request_too_large",
    "unsupported": "invalid_request_error",
    "budget": "billing_error",
    "model": "not_found_error",
    "overloaded": "overloaded_error",
    "upstream": "api_error",
    "timeout": "timeout_error",
}
_SYSTEM_TOKENS = 4096
"""More than the system prompt that tools bring along."""


class Anthropic(Flavour):
    name = "anthropic"
    key_header = "x-api-key"
    usage_of = "anthropic"

    def endpoint(self, method: str, path: str) -> Endpoint | None:
        if method == "GET" and _MODEL.fullmatch(path):
            return _PATHS["GET", "/v1/models"]
        return _PATHS.get((method, path))

    def error(self, problem: Problem, message: str) -> Body:
        return {"type": "error", "error": {"type": _TYPES[problem], "message": message}}

    def guard(self, endpoint: Endpoint, body: Body, received: Container[str] = ()) -> list[str]:
        refuse_disguises(body, _GUARDED)
        withheld = [what for name, what in _PROVIDER_FIELDS.items() if body.pop(name, None)]
        names = set()
        if (tools := body.get("tools")) is not None:
            if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
                raise Refusal("invalid", "tools must be a list of objects")
            out = [tool for tool in tools if not _is_clients(tool)]
            names = {str(tool.get("name")) for tool in out}
            withheld += [str(tool.get("type"))[:64] for tool in out]
            if out:
                body["tools"] = [tool for tool in tools if _is_clients(tool)]
        choice = body.get("tool_choice")
        choice = choice if isinstance(choice, dict) else {}
        if choice.get("type") == "tool" and str(choice.get("name")) in names:
            raise withheld_tool(str(choice["name"]))
        if names and not body["tools"]:
            if choice.get("type") == "any":
                raise withheld_tool(withheld[-1])
            body.pop("tools")
            body.pop("tool_choice", None)
        refuse_references([body.get("messages"), body.get("system")])
        return withheld

    def expected(self, endpoint: Endpoint, body: Body, size: int) -> Expected:
        images, unbounded = refuse_references([body.get("messages"), body.get("system")])
        return Expected(
            input_tokens=None if unbounded else size + images * MEDIA_TOKENS + _SYSTEM_TOKENS,
            output_tokens=number(body.get("max_tokens")) if endpoint.kind == "generate" else 0,
        )

    def limit_output(self, endpoint: Endpoint, body: Body, tokens: int, name: str) -> bool:
        thinking = body.get("thinking")
        least = number(thinking.get("budget_tokens")) or 0 if isinstance(thinking, dict) else 0
        if endpoint.kind != "generate" or tokens <= least:  # thinking needs less than all
            return False
        body["max_tokens"] = tokens
        return True

    def stream(self, endpoint: Endpoint, *, drop_usage: bool) -> StreamReader:
        return _Messages()

    def as_stream(self, endpoint: Endpoint, answer: Body) -> Iterator[tuple[str | None, Body | str]]:
        for event in _events(answer):
            yield event["type"], event


def _is_clients(tool: Body) -> bool:
    type = tool.get("type")
    return type is None or (isinstance(type, str) and _CLIENT_TOOLS.fullmatch(type) is not None)


class _Messages(StreamReader):
    """``message_start``, ``content_block_…`` and ``message_delta`` to a message."""

    last = ("message_stop",)

    def __init__(self) -> None:
        self._answer: Body = {}
        self._blocks: dict[int, Body] = {}
        self._arguments: dict[int, str] = {}

    def feed(self, event: Body) -> None:
        type = event.get("type")
        if type == "message_start" and isinstance(event.get("message"), dict):
            self._answer = dict(event["message"])
        elif type == "content_block_start" and isinstance(event.get("content_block"), dict):
            self._blocks[number(event.get("index")) or 0] = dict(event["content_block"])
        elif type == "content_block_delta" and isinstance(event.get("delta"), dict):
            self._delta(number(event.get("index")) or 0, event["delta"])
        elif type == "message_delta":
            if isinstance(event.get("delta"), dict):
                self._answer |= event["delta"]
            if isinstance(event.get("usage"), dict):
                before = self._answer.get("usage")
                known = {key: value for key, value in event["usage"].items() if value is not None}
                self._answer["usage"] = {**(before if isinstance(before, dict) else {}), **known}

    def is_last(self, event: Body | None, data: str | None) -> bool:
        return event is not None and event.get("type") == "message_stop"

    def _delta(self, index: int, delta: Body) -> None:
        block = self._blocks.setdefault(index, {})
        for key, value in delta.items():
            if key == "partial_json":
                self._arguments[index] = self._arguments.get(index, "") + str(value)
            elif key == "citation":
                block["citations"] = [*(block.get("citations") or ()), value]
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
                except ValueError:  # cut off
                    block["input"] = arguments
            blocks.append(block)
        return {**self._answer, "content": blocks}


def _events(answer: Body) -> Iterator[Body]:
    usage = answer.get("usage") or {}
    begun = {**answer, "content": [], "stop_reason": None, "stop_sequence": None}
    yield {"type": "message_start", "message": begun}
    for index, block in enumerate(answer.get("content") or ()):
        empty, delta = _block(block)
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        for part in delta:
            yield {"type": "content_block_delta", "index": index, "delta": part}
        yield {"type": "content_block_stop", "index": index}
    ended = {key: answer.get(key) for key in ("stop_reason", "stop_sequence")}
    yield {"type": "message_delta", "delta": ended, "usage": usage}
    yield {"type": "message_stop"}


def _block(block: Body) -> tuple[Body, list[Any]]:
    match block.get("type"):
        case "text":
            return {**block, "text": ""}, [{"type": "text_delta", "text": block.get("text", "")}]
        case "tool_use":
            arguments = json.dumps(block.get("input", {}))
            return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": arguments}]
        case "thinking":
            return {**block, "thinking": "", "signature": ""}, [
                {"type": "thinking_delta", "thinking": block.get("thinking", "")},
                {"type": "signature_delta", "signature": block.get("signature", "")},
            ]
        case _:
            return block, []
