"""Gemini's API: generateContent, streamGenerateContent in both its forms, countTokens, embeddings, models."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from typing import Any

from pytest_mlebench.llm.flavours.base import (
    MEDIA_TOKENS,
    Body,
    Endpoint,
    Expected,
    Flavour,
    Problem,
    Refusal,
    StreamReader,
    normal,
    number,
    refuse_disguises,
    refuse_references,
    text,
    withheld_tool,
)

_CALL = re.compile(r"/v1(?:beta|alpha)?/models/([A-Za-z0-9][A-Za-z0-9._-]*):([A-Za-z]+)")
_MODELS = re.compile(r"/v1(?:beta|alpha)?/models(/[A-Za-z0-9][A-Za-z0-9._-]*)?")
_CLIENT_TOOLS = {"functiondeclarations", "computeruse"}
"""Tools that the client itself runs; any other field of a tool is the provider's."""
_GUARDED = {
    "contents": "contents",
    "tools": "tools",
    "toolconfig": "toolConfig|tool_config",
    "systeminstruction": "systemInstruction|system_instruction",
    "generationconfig": "generationConfig|generation_config",
    "cachedcontent": "cachedContent|cached_content",
    "generatecontentrequest": "generateContentRequest|generate_content_request",
}
_STATUS: dict[Problem, str] = {
    "authentication": "UNAUTHENTICATED",
    "not_found": "NOT_FOUND",
    "invalid": "INVALID_ARGUMENT",
    "too_large": "INVALID_ARGUMENT",
    "unsupported": "INVALID_ARGUMENT",
    "budget": "PERMISSION_DENIED",
    "model": "NOT_FOUND",
    "overloaded": "UNAVAILABLE",
    "upstream": "UNAVAILABLE",
    "timeout": "DEADLINE_EXCEEDED",
}


class Gemini(Flavour):
    name = "gemini"
    key_header = "x-goog-api-key"
    usage_of = "google"
    # Others (`fields`, `$httpMethod`, `access_token`, …) change what is asked, and what of the answer is seen.
    query = frozenset({"alt", "pageSize", "pageToken"})

    def endpoint(self, method: str, path: str) -> Endpoint | None:
        if method == "GET" and _MODELS.fullmatch(path):
            return Endpoint(kind="models", stream=False)
        match = _CALL.fullmatch(path) if method == "POST" else None
        if match is None:
            return None
        model, what = match.groups()
        match what:
            case "generateContent" | "streamGenerateContent":
                return Endpoint(kind="generate", model=model, stream=what != "generateContent")
            case "countTokens":
                return Endpoint(kind="count", model=model, stream=False)
            case "embedContent" | "batchEmbedContents":
                return Endpoint(kind="embed", model=model, stream=False)
        return None

    def error(self, problem: Problem, message: str) -> Body:
        error: Body = {"code": self.status(problem), "message": message, "status": _STATUS[problem]}
        if problem == "budget":
            reason = {"reason": "BILLING_DISABLED", "domain": "googleapis.com"}
            error["details"] = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", **reason}]
        return {"error": error}

    def status(self, problem: Problem) -> int:
        return 403 if problem == "budget" else super().status(problem)  # as Google answers without a billing account

    def guard(self, endpoint: Endpoint, body: Body, received: Container[str] = ()) -> list[str]:
        withheld = []
        inner = _get(body, "generateContentRequest")
        for request in (body, inner) if isinstance(inner, dict) else (body,):
            refuse_disguises(request, _GUARDED)
            if _get(request, "cachedContent"):
                raise Refusal("invalid", "cachedContent: contents that the provider holds are not offered here")
            withheld += _take_out_tools(request)
            refuse_references(_contents(request))
        return withheld

    def expected(self, endpoint: Endpoint, body: Body, size: int) -> Expected:
        images, unbounded = refuse_references(_contents(body))
        config = _get(body, "generationConfig")
        config = config if isinstance(config, dict) else {}
        return Expected(
            input_tokens=None if unbounded else size + images * MEDIA_TOKENS,
            output_tokens=number(_get(config, "maxOutputTokens")) if endpoint.kind == "generate" else 0,
            answers=max(1, number(_get(config, "candidateCount")) or 1),
            audio=unbounded,
        )

    def limit_output(self, endpoint: Endpoint, body: Body, tokens: int, name: str) -> bool:
        if endpoint.kind != "generate":
            return False
        key = "generation_config" if "generation_config" in body else "generationConfig"
        config = body.setdefault(key, {})
        if not isinstance(config, dict):
            raise Refusal("invalid", f"{key} must be an object")
        config.pop("max_output_tokens", None)
        config["maxOutputTokens"] = tokens
        return True

    def stream(self, endpoint: Endpoint, *, drop_usage: bool) -> StreamReader:
        return _Contents()

    def as_stream(self, endpoint: Endpoint, answer: Body) -> Iterator[tuple[str | None, Body | str]]:
        yield None, answer

    def answered_model(self, answer: Body) -> str | None:
        return text(answer.get("modelVersion"))


def _get(values: Body, name: str) -> Any:
    """A field by its name in camel case, or as it is in protocol buffers; servers take both."""
    other = re.sub("[A-Z]", lambda match: f"_{match[0].lower()}", name)
    return values[name] if name in values else values.get(other)


def _contents(body: Body) -> list[Any]:
    return [
        body.get("contents"),
        body.get("content"),
        _get(body, "systemInstruction"),
        body.get("requests"),
    ]


def _take_out_tools(body: Body) -> list[str]:
    tools = body.get("tools")
    if tools is None:
        return []
    tools = tools if isinstance(tools, list) else [tools]
    if not all(isinstance(tool, dict) for tool in tools):
        raise Refusal("invalid", "tools must be a list of objects")
    withheld = [key[:64] for tool in tools for key in tool if normal(key) not in _CLIENT_TOOLS]
    if not withheld:
        return []
    kept = [{key: value for key, value in tool.items() if normal(key) in _CLIENT_TOOLS} for tool in tools]
    body["tools"] = [tool for tool in kept if tool]
    if not body["tools"]:
        config = _get(body, "toolConfig")
        calling = _get(config, "functionCallingConfig") if isinstance(config, dict) else None
        if isinstance(calling, dict) and str(calling.get("mode")).upper() == "ANY":
            raise withheld_tool(withheld[0])
        for key in ("tools", "toolConfig", "tool_config"):
            body.pop(key, None)
    return withheld


class _Contents(StreamReader):
    """Parts of a ``GenerateContentResponse`` to one."""

    def __init__(self) -> None:
        self._answer: Body = {}
        self._candidates: dict[int, Body] = {}

    def feed(self, event: Body) -> None:
        for key, value in event.items():
            if key == "candidates" and isinstance(value, list):
                for candidate in value:
                    if isinstance(candidate, dict):
                        self._candidate(candidate)
            elif key == "usageMetadata" and isinstance(value, dict):
                self._answer[key] = {**self._answer.get(key, {}), **value}
            else:
                self._answer[key] = value

    def _candidate(self, candidate: Body) -> None:
        index = number(candidate.get("index")) or 0
        whole = self._candidates.setdefault(index, {})
        for key, value in candidate.items():
            if key == "content" and isinstance(value, dict):
                content = whole.setdefault("content", {})
                parts = content.setdefault("parts", [])
                content |= {name: item for name, item in value.items() if name != "parts"}
                for part in value.get("parts") or ():
                    if parts and _is_text(part) and _is_text(parts[-1]) and _kind(part) == _kind(parts[-1]):
                        parts[-1] = {**parts[-1], **part, "text": parts[-1]["text"] + part["text"]}
                    else:
                        parts.append(part)
            else:
                whole[key] = value

    def answer(self) -> Body:
        return {**self._answer, "candidates": [self._candidates[index] for index in sorted(self._candidates)]}


def _is_text(part: Any) -> bool:
    return isinstance(part, dict) and isinstance(part.get("text"), str)


def _kind(part: Body) -> bool:
    return bool(part.get("thought"))
