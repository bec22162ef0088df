"""OpenAI's API: Chat Completions, Responses, Embeddings, Models; and all servers that speak it."""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterable, Iterator
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
    number,
    refuse_disguises,
    refuse_references,
    text,
    withheld_tool,
)

CHAT, RESPONSES = "chat", "responses"
_PATHS = {
    ("POST", "/chat/completions"): Endpoint(kind="generate", api=CHAT),
    ("POST", "/responses"): Endpoint(kind="generate", api=RESPONSES),
    ("POST", "/embeddings"): Endpoint(kind="embed", api="embeddings", stream=False),
    ("GET", "/models"): Endpoint(kind="models", stream=False),
}
_MODEL = re.compile(r"/models/[A-Za-z0-9][A-Za-z0-9._:-]*(/[A-Za-z0-9][A-Za-z0-9._:-]*)*")

_CLIENT_TOOLS = {"function", "custom", "local_shell", "apply_patch", "computer_use_preview", "computer", "tool_search"}
"""Tools that the client itself runs; any other type is the provider's. (A search among tools reaches no network.)"""
_PROVIDER_FIELDS = {
    "web_search_options": "web search",  # OpenAI
    "search_parameters": "live search",  # xAI
    "search_settings": "web search",  # Groq
    "plugins": "plugins",  # OpenRouter: web, files
    "data_sources": "data sources",  # Azure
    "enable_search": "web search",  # Qwen
    "search_options": "web search",
    "web_search": "web search",
    "api_base": "another server",  # LiteLLM
    "base_url": "another server",
}
_HARMLESS_OF_GOOGLE = {"thinking_config", "thought_tag_marker", "safety_settings"}
_MAY_HOLD_TOOLS = "are kept by the provider and may hold tools that reach the network"
_ONLY_WITH_PROVIDER = {
    "prompt": f"stored prompts {_MAY_HOLD_TOOLS}",
    "preset": f"presets {_MAY_HOLD_TOOLS}",
    "conversation": "conversations are kept by the provider, where other runs may have written them: send all items",
}
_WHOLE_ITEMS = (
    "content",
    "encrypted_content",
    "arguments",
    "output",
    "input",
    "action",
    "operation",
    "result",
    "tools",
)
"""Fields of an item of a conversation that has all that it says in itself."""
_GUARDED = {
    **{re.sub("_", "", name): name for name in (*_PROVIDER_FIELDS, *_ONLY_WITH_PROVIDER)},
    **{name: name for name in ("model", "models", "tools", "messages", "input", "stream", "background", "n")},
    "toolchoice": "tool_choice",
    "maxtokens": "max_tokens",
    "maxcompletiontokens": "max_completion_tokens",
    "maxoutputtokens": "max_output_tokens",
    "previousresponseid": "previous_response_id",
    "streamoptions": "stream_options",
    "extrabody": "extra_body",
}
_SEARCHING = re.compile(r"(-search(-|$))|deep-research|:online|(^|/)sonar|(^|/)compound|^@preset", re.IGNORECASE)
"""Models that search the network by themselves."""
_TYPES: dict[Problem, tuple[str, str | None]] = {
    "authentication": ("invalid_request_error", "invalid_api_key"),
    "not_found": ("invalid_request_error", "unknown_url"),
    "invalid": ("invalid_request_error", None),
    "too_large": ("invalid_request_error", "request_too_large"),
    "unsupported": ("invalid_request_error", None),
    "budget": ("insufficient_quota", "insufficient_quota"),
    "model": ("invalid_request_error", "model_not_found"),
    "overloaded": ("server_error", None),
    "upstream": ("server_error", None),
    "timeout": ("server_error", None),
}


class OpenAI(Flavour):
    name = "openai"
    key_header = "authorization"
    usage_of = "openai"

    def endpoint(self, method: str, path: str) -> Endpoint | None:
        if method == "GET" and _MODEL.fullmatch(path):
            return _PATHS["GET", "/models"]
        return _PATHS.get((method, path))

    def error(self, problem: Problem, message: str) -> Body:
        type, code = _TYPES[problem]
        return {"error": {"message": message, "type": type, "param": None, "code": code}}

    def guard(self, endpoint: Endpoint, body: Body, received: Container[str] = ()) -> list[str]:
        for model in (body.get("model"), *(models if isinstance(models := body.get("models"), list) else ())):
            if isinstance(model, str) and _SEARCHING.search(model):
                raise Refusal("invalid", f"model {model} searches the network by itself, which this run may not")
        refuse_disguises(body, _GUARDED)
        for name, why in _ONLY_WITH_PROVIDER.items():
            if body.get(name) and (endpoint.api == RESPONSES or name != "prompt"):
                raise Refusal("invalid", f"{name}: {why}")
        for where, id in _references(body):
            if not isinstance(id, str) or id not in received:
                raise Refusal(
                    "invalid",
                    f"{where}: this run has received no answer with {str(id)[:100]!r}; what the provider keeps of "
                    "others is not offered here",
                )
        if body.get("background"):
            raise Refusal("invalid", "background: answers that are fetched later are not offered here")
        withheld = [what for name, what in _PROVIDER_FIELDS.items() if body.pop(name, None) not in (None, False)]
        withheld += _take_out_googles(body)
        withheld += _take_out_tools(body)
        withheld += _take_out_later_tools(body)
        refuse_references([body.get("messages"), body.get("input")])
        return withheld

    def expected(self, endpoint: Endpoint, body: Body, size: int) -> Expected:
        images, unbounded = refuse_references([body.get("messages"), body.get("input")])
        limits = [
            limit
            for name in ("max_completion_tokens", "max_tokens", "max_output_tokens")
            if (limit := number(body.get(name))) is not None
        ]
        stored = body.get("conversation") or any(True for _ in _references(body))
        return Expected(
            input_tokens=None if unbounded or stored else size + images * MEDIA_TOKENS,
            output_tokens=0 if endpoint.kind == "embed" else max(limits, default=None),
            answers=max(1, number(body.get("n")) or 1),
            audio=unbounded,
        )

    def limit_output(self, endpoint: Endpoint, body: Body, tokens: int, name: str) -> bool:
        if endpoint.kind != "generate":
            return False
        names = ("max_output_tokens",) if endpoint.api == RESPONSES else ("max_completion_tokens", "max_tokens")
        given = [known for known in names if known in body]
        for known in given or [names[0] if endpoint.api == RESPONSES else name]:
            body[known] = tokens
        return True

    def ask_for_usage(self, endpoint: Endpoint, body: Body) -> bool:
        if endpoint.api != CHAT:
            return False
        options = body.get("stream_options")
        if isinstance(options, dict) and options.get("include_usage") is True:
            return False
        body["stream_options"] = {**(options if isinstance(options, dict) else {}), "include_usage": True}
        return True

    def kept_by_provider(self, endpoint: Endpoint, answer: Body) -> Iterable[str]:
        kept: list[Any] = [answer, *_objects(answer.get("output"))] if endpoint.api == RESPONSES else []
        for choice in _objects(answer.get("choices")):
            message = choice.get("message")
            kept.append(message.get("audio") if isinstance(message, dict) else None)
        return (id for one in kept if isinstance(one, dict) and (id := text(one.get("id"))) is not None)

    def stream(self, endpoint: Endpoint, *, drop_usage: bool) -> StreamReader:
        return _Responses() if endpoint.api == RESPONSES else _Chat(drop_usage)

    def as_stream(self, endpoint: Endpoint, answer: Body) -> Iterator[tuple[str | None, Body | str]]:
        if endpoint.api == CHAT:
            yield from _chat_events(answer)
        else:
            for number, event in enumerate(_response_events(answer)):
                yield event["type"], {**event, "sequence_number": number}


def _references(body: Body) -> Iterator[tuple[str, Any]]:
    """Where a request speaks of what the provider keeps of an answer, and by which id."""
    if body.get("previous_response_id"):
        yield "previous_response_id", body["previous_response_id"]
    items = body.get("input")
    for index, item in enumerate([items] if isinstance(items, dict) else items if isinstance(items, list) else ()):
        if isinstance(item, dict) and _is_reference(item):
            yield f"input[{index}]", item["id"]
    for index, message in enumerate(body["messages"] if isinstance(body.get("messages"), list) else ()):
        audio = message.get("audio") if isinstance(message, dict) else None
        if isinstance(audio, dict) and audio.get("id"):
            yield f"messages[{index}].audio", audio["id"]


def _is_reference(item: Body) -> bool:
    """Whether an item of a conversation stands for one that the provider keeps. Without a type and a role it does."""
    if item.get("id") is None:
        return False
    if item.get("type") == "item_reference" or not (item.get("type") or item.get("role")):
        return True
    return not any(item.get(name) is not None and item[name] != [] for name in _WHOLE_ITEMS)


def _take_out_googles(body: Body) -> list[str]:
    """What Gemini takes of its own API's fields beside OpenAI's: tools, and contents that it holds."""
    extra = body.get("extra_body")
    withheld = []
    for holder in (body, extra if isinstance(extra, dict) else {}):
        own = holder.get("google")
        if isinstance(own, dict):
            names = [name for name in own if name not in _HARMLESS_OF_GOOGLE]
            holder["google"] = {name: value for name, value in own.items() if name not in names}
            withheld += [name[:64] for name in names]
    return withheld


def _take_out_tools(body: Body) -> list[str]:
    withheld: list[str] = []
    if "tools" in body and body["tools"] is not None:
        body["tools"] = _client_tools(body["tools"], withheld)
    choice = body.get("tool_choice")
    if isinstance(choice, dict):
        if choice.get("type") == "allowed_tools" or "allowed_tools" in choice:
            holder = choice["allowed_tools"] if isinstance(choice.get("allowed_tools"), dict) else choice
            if "tools" in holder:
                holder["tools"] = _client_tools(holder["tools"], withheld)
        elif not _is_clients(choice):
            raise withheld_tool(str(choice.get("type")))
    if withheld and not body.get("tools"):
        if choice not in (None, "auto", "none"):
            raise withheld_tool(withheld[0])
        for name in ("tools", "tool_choice", "parallel_tool_calls"):
            body.pop(name, None)
    return withheld


def _take_out_later_tools(body: Body) -> list[str]:
    """Items of a conversation can bring further tools, as Codex's ``additional_tools`` do."""
    withheld: list[str] = []
    items = body.get("input")
    if isinstance(items, list):
        kept = []
        for item in items:
            if isinstance(item, dict):
                refuse_disguises(item, {"tools": "tools"})
                if item.get("tools") is not None:
                    item["tools"] = _client_tools(item["tools"], withheld)
                    if not item["tools"]:
                        continue
            kept.append(item)
        if withheld:
            body["input"] = kept
    return withheld


def _client_tools(tools: Any, withheld: list[str]) -> list[Any]:
    if not isinstance(tools, list):
        raise Refusal("invalid", "tools must be a list")
    kept = []
    for tool in tools:
        if not isinstance(tool, dict):
            raise Refusal("invalid", "a tool must be an object")
        if tool.get("type") == "namespace" and isinstance(tool.get("tools"), list):
            tool["tools"] = _client_tools(tool["tools"], withheld)
            if tool["tools"]:
                kept.append(tool)
        elif _is_clients(tool):
            kept.append(tool)
        else:
            withheld.append(str(tool.get("type"))[:64])
    return kept


def _is_clients(tool: Body) -> bool:
    type = tool.get("type")
    if type == "shell":  # without an environment of the client's it runs in a container of the provider's
        environment = tool.get("environment")
        return isinstance(environment, dict) and environment.get("type") == "local"
    return isinstance(type, str) and type in _CLIENT_TOOLS and not {"server_url", "connector_id"} & tool.keys()


def _objects(values: Any) -> list[Body]:
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []


class _Chat(StreamReader):
    """``chat.completion.chunk`` objects to a ``chat.completion``."""

    last = ("[DONE]",)
    usage = "usage"

    def __init__(self, drop_usage: bool) -> None:
        self._drop_usage = drop_usage
        self._answer: Body = {}
        self._choices: dict[int, Body] = {}

    def feed(self, event: Body) -> None:
        for key, value in event.items():
            if key == "choices" and isinstance(value, list):
                for choice in value:
                    if isinstance(choice, dict):
                        self._choice(choice)
            elif value is not None or key not in self._answer:
                self._answer[key] = value

    def _choice(self, choice: Body) -> None:
        index = number(choice.get("index")) or 0
        whole = self._choices.setdefault(index, {"index": index, "message": {}, "finish_reason": None})
        for key, value in choice.items():
            if key == "delta" and isinstance(value, dict):
                merge_delta(whole["message"], value)
            elif key == "logprobs" and isinstance(value, dict) and isinstance(whole.get(key), dict):
                for name, entries in value.items():
                    whole[key][name] = (whole[key].get(name) or []) + (entries or [])
            elif value is not None or key not in whole:
                whole[key] = value

    def answer(self) -> Body:
        choices = [self._choices[index] for index in sorted(self._choices)]
        for choice in choices:
            for call in choice["message"].get("tool_calls") or ():
                if isinstance(call, dict):
                    call.pop("index", None)
        return {**self._answer, "object": "chat.completion", "choices": choices}

    def is_last(self, event: Body | None, data: str | None) -> bool:
        return data == "[DONE]"

    def pass_on(self, event: Body) -> Body | None:
        if not self._drop_usage or "usage" not in event:
            return event
        if event["usage"] is not None and not event.get("choices"):
            return None
        return {key: value for key, value in event.items() if key != "usage"}


_SET_ONCE = {"role", "type", "id", "name", "index", "format", "status", "call_id"}


def merge_delta(whole: Body, delta: Body) -> None:
    """Add a delta to what came before it: texts grow, lists are merged by their entries' ``index``."""
    for key, value in delta.items():
        before = whole.get(key)
        if isinstance(value, str) and isinstance(before, str):
            whole[key] = (before or value) if key in _SET_ONCE else before + value
        elif isinstance(value, dict) and isinstance(before, dict):
            merge_delta(before, value)
        elif isinstance(value, list) and all(isinstance(item, dict) and "index" in item for item in value):
            entries = whole.setdefault(key, []) if isinstance(before, list) or before is None else []
            if before is None:
                entries = whole[key] = []
            for item in value:
                known = next((entry for entry in entries if entry.get("index") == item["index"]), None)
                if known is None:
                    known = {}
                    entries.append(known)
                merge_delta(known, item)
        elif isinstance(value, list) and isinstance(before, list):
            whole[key] = before + value
        elif value is not None or key not in whole:
            whole[key] = json.loads(json.dumps(value)) if isinstance(value, dict | list) else value


_LAST = {"response.completed", "response.incomplete", "response.failed"}


class _Responses(StreamReader):
    """Events of a response; the last one holds all of it."""

    last = tuple(_LAST)

    def __init__(self) -> None:
        self._answer: Body = {}
        self._items: dict[int, Any] = {}

    def feed(self, event: Body) -> None:
        if isinstance(response := event.get("response"), dict):
            self._answer = response
        if event.get("type") == "response.output_item.done":
            self._items[number(event.get("output_index")) or 0] = event.get("item")

    def is_last(self, event: Body | None, data: str | None) -> bool:
        return event is not None and event.get("type") in _LAST

    def answer(self) -> Body:
        if self._answer.get("output") or not self._items:
            return self._answer
        return {**self._answer, "output": [self._items[index] for index in sorted(self._items)]}


def _chat_events(answer: Body) -> Iterator[tuple[None, Body | str]]:
    common: Body = {key: answer[key] for key in ("id", "created", "model", "system_fingerprint") if key in answer}
    common["object"] = "chat.completion.chunk"
    for choice in answer.get("choices") or ():
        message = dict(choice.get("message") or {})
        if isinstance(calls := message.get("tool_calls"), list):
            message["tool_calls"] = [{"index": index, **call} for index, call in enumerate(calls)]
        index = choice.get("index", 0)
        yield None, {**common, "choices": [{"index": index, "delta": message, "finish_reason": None}]}
        last = {"index": index, "delta": {}, "finish_reason": choice.get("finish_reason")}
        yield None, {**common, "choices": [last]}
    if answer.get("usage") is not None:
        yield None, {**common, "choices": [], "usage": answer["usage"]}
    yield None, "[DONE]"


def _response_events(answer: Body) -> Iterator[Body]:
    begun = {**answer, "status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": begun}
    for index, item in enumerate(answer.get("output") or ()):
        place = {"output_index": index, "item_id": item.get("id")}
        empty = {**item, "status": "in_progress"}
        if item.get("type") == "message":
            empty["content"] = []
        yield {"type": "response.output_item.added", "output_index": index, "item": empty}
        for part_index, part in enumerate(item.get("content") or () if item.get("type") == "message" else ()):
            where = {**place, "content_index": part_index}
            said = text(part.get("text"))
            yield {"type": "response.content_part.added", **where, "part": {**part, "text": ""} if said else part}
            if said is not None:
                yield {"type": "response.output_text.delta", **where, "delta": said, "logprobs": []}
                yield {"type": "response.output_text.done", **where, "text": said, "logprobs": []}
            yield {"type": "response.content_part.done", **where, "part": part}
        if item.get("type") == "function_call":
            arguments = item.get("arguments") or ""
            yield {"type": "response.function_call_arguments.delta", **place, "delta": arguments}
            yield {
                "type": "response.function_call_arguments.done",
                **place,
                "name": item.get("name"),
                "arguments": arguments,
            }
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    ended = {"incomplete": "response.incomplete", "failed": "response.failed"}
    yield {"type": ended.get(str(answer.get("status")), "response.completed"), "response": answer}
