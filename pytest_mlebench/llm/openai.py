"""OpenAI's API: Chat Completions, Responses, Embeddings and Models. Many other servers offer it, too."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from typing import Any, ClassVar

from pytest_mlebench.io.values import as_object, as_objects
from pytest_mlebench.llm import api
from pytest_mlebench.llm.api import Body, CallContent, Endpoint, Message, StreamReader
from pytest_mlebench.llm.requests import (
    DROPPED,
    Admission,
    Fields,
    Problem,
    Refusal,
    Rule,
    Tagged,
    Wrong,
    base64,
    by_address,
    client_tool,
    count,
    data_url,
    either,
    fields,
    flag,
    kept,
    labels,
    many,
    mapping,
    media,
    number,
    one_of,
    only_with_provider,
    refused,
    some_of,
    text,
    whole,
    word,
)

CHAT, RESPONSES = "chat", "responses"
_CLIENT_TOOLS = {"function", "custom", "local_shell", "apply_patch", "computer_use_preview", "computer", "tool_search"}
"""Tools that the client runs itself; the provider runs all others. (Tool search does not access the network.)"""
_STORED_PROMPTS = "stored prompts are not passed on, because they may contain tools that access the network"
_CONVERSATIONS = "conversations are stored by the provider: send all messages instead"
_FALLBACKS = "fallbacks and routing are not passed on because they could cost more: name one model"
_MODEL_CHOICES = dict.fromkeys("models fallbacks route preset user_config provider".split(), refused(_FALLBACKS))
_CONTENT_FIELDS = tuple("content encrypted_content arguments output input action operation result tools".split())
"""Fields of a conversation's item that hold its content; an item without them refers to a stored one."""
_SEARCHING = re.compile(r"(-search(-|$))|deep-research|[:-]online|(^|/)sonar|(^|/)compound", re.IGNORECASE)
"""Models that search the web on their own."""
_MODEL_NAME = re.compile(r"[A-Za-z0-9][\w.+-]*(/[A-Za-z0-9][\w.+-]*)*(@\d+)?(:[\w.-]*)*", re.ASCII)
_OPENROUTER_VARIANTS = {"free", "thinking", "beta", "extended"}
"""Suffixes of OpenRouter's model names that select neither a search nor another provider's price."""

_cache = fields("ttl")
_google = Fields(
    thinking_config=Fields(include_thoughts=flag, thinking_budget=whole, thinking_level=word),
    thought_tag_marker=text,
    thought_signature=text,
    cached_content=only_with_provider("cached content"),
    tools=only_with_provider("Google tools"),
)
_thinking = fields(budget_tokens=count)
_function = Fields(name=text, description=text, parameters=mapping, strict=flag)
_function_call = Fields(name=text, arguments=text)
_format = fields(
    *("name", "description"),
    json_schema=Fields(name=text, description=text, schema=mapping, strict=flag),
    schema=mapping,
    strict=flag,
    verbosity=word,
)
_SAMPLING: dict[str, Rule] = {
    **dict.fromkeys(("temperature", "top_p", "presence_penalty", "frequency_penalty", "min_p", "top_a"), number),
    **dict.fromkeys(("repetition_penalty", "repetition_context_size"), number),
    **dict.fromkeys(("top_k", "seed", "thinking_budget"), whole),
    **dict.fromkeys(("top_logprobs", "min_tokens"), count),
    **dict.fromkeys(("parallel_tool_calls", "store", "stream", "enable_thinking", "include_reasoning"), flag),
    **dict.fromkeys(("model", "user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"), text),
    **dict.fromkeys(("service_tier", "reasoning_effort", "verbosity", "speed", "inference_geo"), word),
    "metadata": labels,
    "stream_options": Fields(include_usage=flag, include_obfuscation=flag),
    "n": count,
    "best_of": refused("ask for several answers with n"),
    **dict.fromkeys(("background", "background_options"), refused("background answers are not supported here")),
    "extra_body": Fields(google=_google),
    "google": _google,
    "thinking": _thinking,
    "chat_template_kwargs": labels,
    **_MODEL_CHOICES,
    "web_search_options": only_with_provider("web search"),  # OpenAI
    "search_parameters": only_with_provider("live search"),  # xAI
    "search_settings": only_with_provider("web search"),  # Groq
    "plugins": only_with_provider("plugins"),  # OpenRouter: web, files
    "data_sources": only_with_provider("data sources"),  # Azure
    **dict.fromkeys(("enable_search", "search_options", "web_search"), only_with_provider("web search")),  # Qwen
    "mcp_servers": only_with_provider("MCP"),
}


def _tool(value: Any, admission: Admission) -> Any:
    """A tool that the client runs, or a namespace of such tools; others are withheld."""
    if type(value) is dict and value.get("type") == "namespace" and type(value.get("tools")) is list:
        namespace = _namespace(value, admission)
        return namespace if namespace["tools"] else DROPPED
    return _client_tool(value, admission)


def _runs_on_client(tool: Body) -> bool:
    type = tool.get("type")
    if type == "shell":  # without a local environment, it runs in the provider's container
        environment = tool.get("environment")
        return isinstance(environment, dict) and environment.get("type") == "local"
    return isinstance(type, str) and type in _CLIENT_TOOLS and not {"server_url", "connector_id"} & tool.keys()


_client_tool = client_tool(
    fields(
        *("name", "description", "execution", "environment_id"),
        function=_function,
        custom=Fields(name=text, description=text, format=mapping),
        **dict.fromkeys(("parameters", "output_schema", "format"), mapping),
        **dict.fromkeys(("strict", "defer_loading"), flag),
        cache_control=_cache,
        **dict.fromkeys(("display_width", "display_height"), count),
        environment=either({str: word, dict: fields("local")}),
    ),
    _runs_on_client,
)
_namespace = fields("name", "description", tools=many(_tool))
_named = Fields(name=text)


def _choice(value: Any, admission: Admission) -> Any:
    if type(value) is str:
        return word(value, admission)
    listed = mapping(value, admission).get("type") == "allowed_tools" or "allowed_tools" in value
    if not listed and not _runs_on_client(value) and not admission.provider_tools:
        raise api.withheld_tool(str(value.get("type")))
    return _choice_fields(value, admission)


_allowed_tools = Fields(mode=word, tools=many(_tool))
_choice_fields = fields("name", "mode", function=_named, custom=_named, tools=many(_tool), allowed_tools=_allowed_tools)
_image = either({str: data_url, dict: Fields(url=data_url, detail=word, media_type=text)})


_audio = media(Fields(data=base64, format=word).requiring("data"), default="audio/")
_file = Fields(file_data=data_url, filename=text, file_id=by_address).requiring("file_data")
_PART = {
    "text": fields("text", cache_control=_cache),
    "refusal": fields("refusal"),
    "image_url": fields(image_url=_image, cache_control=_cache),
    "input_audio": fields(input_audio=_audio),
    "file": fields(file=_file, cache_control=_cache),
    "thinking": fields("signature", thinking=either({str: text, list: many(fields("text"))})),
    "redacted_thinking": fields("data"),
}
_parts = either({str: text, list: many(Tagged(_PART, what="a part"))})
_tool_call = fields(
    "id",
    index=count,
    function=_function_call,
    custom=Fields(name=text, input=text),
    extra_content=Fields(google=_google),
    cache_control=_cache,
)


def _earlier_audio(value: Any, admission: Admission) -> Any:
    """A reference to the audio of an earlier answer, which the provider stores."""
    audio = Fields(id=text)(value, admission)
    _check_received(audio.get("id"), admission)
    return audio


_message = fields(
    *("role", "name", "tool_call_id", "refusal", "reasoning_content", "status", "id"),
    content=either({str: text, list: _parts, dict: Tagged(_PART, what="a part")}),
    tool_calls=many(_tool_call),
    function_call=_function_call,
    audio=_earlier_audio,
    reasoning=either({str: text, dict: fields("text", "summary")}),
    reasoning_details=many(fields("id", "text", "summary", "data", "signature", "format", index=count)),
    thinking_blocks=many(fields("thinking", "signature", "data")),
    cache_control=_cache,
    extra_content=Fields(google=_google),
    prefix=flag,
    partial=flag,
)
_CHAT = Fields(
    **_SAMPLING,
    messages=many(_message),
    **dict.fromkeys(api.CHAT_LIMITS, count),
    stop=either({str: text, list: many(text)}),
    logit_bias=labels,
    logprobs=flag,
    tools=many(_tool),
    tool_choice=_choice,
    functions=many(_function),
    function_call=either({str: word, dict: _named}),
    response_format=_format,
    modalities=many(one_of("text", "audio")),
    audio=Fields(voice=either({str: word, dict: Fields(id=text)}), format=word),
    reasoning=Fields(effort=word, max_tokens=count, exclude=flag, enabled=flag, summary=word),
    usage=Fields(include=flag),
    prompt=kept(_STORED_PROMPTS),
    **dict.fromkeys(("conversation", "previous_response_id"), kept(_CONVERSATIONS)),
    **dict.fromkeys(("api_base", "base_url", "api_key"), only_with_provider("another server")),
).requiring("messages")
_ITEM_PART = {
    **dict.fromkeys(("input_text", "text", "reasoning_text", "summary_text"), fields("text", cache_control=_cache)),
    "output_text": fields("text", annotations=many(mapping), logprobs=many(mapping)),
    "refusal": fields("refusal"),
    "input_image": fields("detail", image_url=data_url, file_id=by_address),
    "input_file": fields("filename", "detail", file_data=data_url, file_id=by_address, file_url=by_address),
    "input_audio": fields(input_audio=_audio),
    "computer_screenshot": fields("detail", image_url=data_url, file_id=by_address),
    "encrypted_content": fields("encrypted_content"),
}
_item_parts = either(
    {str: text, list: many(Tagged(_ITEM_PART, what="a part")), dict: Tagged(_ITEM_PART, what="a part")}
)
_message_item = fields("role", "status", "id", "phase", "name", content=_item_parts)
_call_words = ("id", "call_id", "status", "name", "namespace")
_ITEMS: dict[str, Rule] = {
    "message": _message_item,
    "function_call": fields(*_call_words, "arguments"),
    "function_call_output": fields(*_call_words, output=_item_parts),
    "custom_tool_call": fields(*_call_words, "input"),
    "custom_tool_call_output": fields(*_call_words, output=_item_parts),
    "local_shell_call": fields(*_call_words, action=mapping),
    "local_shell_call_output": fields(*_call_words, "output"),
    "shell_call": fields(*_call_words, action=mapping, environment=fields("local")),
    "shell_call_output": fields(*_call_words, output=either({str: text, list: many(mapping)}), max_output_length=count),
    "apply_patch_call": fields(*_call_words, operation=mapping),
    "apply_patch_call_output": fields(*_call_words, "output"),
    "computer_call": fields(*_call_words, action=mapping, actions=many(mapping), pending_safety_checks=many(mapping)),
    "computer_call_output": fields(*_call_words, output=_item_parts, acknowledged_safety_checks=many(mapping)),
    "tool_search_call": fields(*_call_words, "execution", arguments=either({str: text, dict: mapping})),
    "tool_search_output": fields(*_call_words, "execution", tools=many(_tool)),
    "additional_tools": fields("id", "role", tools=many(_tool)),
    "reasoning": fields("id", "status", "encrypted_content", summary=_item_parts, content=_item_parts),
    **dict.fromkeys(("compaction", "compaction_summary"), fields("id", "encrypted_content")),
    "item_reference": fields("id"),
}
_item_by_type = Tagged(_ITEMS, default="message", what="an item")


def _item(value: Any, admission: Admission) -> Any:
    """An item of a conversation. It may refer only to stored answers that the run has received."""
    if type(value) is dict and _is_reference(value):
        _check_received(value["id"], admission)
    item = _item_by_type(value, admission)
    return DROPPED if type(item) is dict and item.get("tools") == [] and value.get("tools") else item


def _previous(value: Any, admission: Admission) -> Any:
    if value == "":
        return DROPPED
    _check_received(value, admission)
    return value


def _check_received(id: Any, admission: Admission) -> None:
    if not admission.provider_tools and (type(id) is not str or id not in admission.received):
        raise Wrong(
            f"this run has received no answer with id {str(id)[:100]!r}, and may not refer to answers of other runs"
        )
    admission.stored = True


_RESPONSES = Fields(
    **_SAMPLING,
    input=either({str: text, list: many(_item)}),
    instructions=text,
    **dict.fromkeys(("max_output_tokens", "max_tool_calls"), count),
    tools=many(_tool),
    tool_choice=_choice,
    text=Fields(format=_format, verbosity=word),
    reasoning=Fields(effort=word, summary=word, generate_summary=word, context=word),
    include=some_of(
        "reasoning.encrypted_content",
        "message.output_text.logprobs",
        "message.input_image.image_url",
        "computer_call_output.output.image_url",
    ),
    truncation=word,
    client_metadata=labels,
    previous_response_id=_previous,
    prompt=kept(_STORED_PROMPTS),
    conversation=kept(
        "conversations are stored by the provider, and other runs may have written to them: send all items instead"
    ),
).requiring("input")
_EMBEDDINGS = Fields(
    **{name: _SAMPLING[name] for name in ("model", "user", *_MODEL_CHOICES)},
    input=either({str: text, list: many(either({str: text, int: count, list: many(count)}))}),
    dimensions=count,
    encoding_format=word,
    input_type=word,
).requiring("input")


class OpenAI(api.API):
    name = "openai"
    key_header = "authorization"
    usage_of = "openai"
    paths: ClassVar = {
        "POST /chat/completions": Endpoint(kind="generate", api=CHAT, rule=_CHAT),
        "POST /responses": Endpoint(kind="generate", api=RESPONSES, rule=_RESPONSES),
        "POST /embeddings": Endpoint(kind="embed", api="embeddings", stream=False, rule=_EMBEDDINGS),
    }
    models = re.compile(r"/models(/[A-Za-z0-9][A-Za-z0-9._:-]*)*")
    query = frozenset({"limit", "after"})
    last_events = ("[DONE]", "response.completed", "response.incomplete", "response.failed")

    def error(self, problem: Problem, message: str) -> Body:
        form = api.ERRORS[problem]
        type = "server_error" if form.status >= 500 else "invalid_request_error"
        if problem == "budget":
            type = "insufficient_quota"
        return {"error": {"message": message, "type": type, "param": None, "code": form.openai}}

    def admit(self, endpoint: Endpoint, body: Body, admission: Admission) -> Body:
        if not admission.provider_tools and _SEARCHING.search(admission.model):
            raise Refusal("invalid", f"model {admission.model} searches the web on its own, which this run may not")
        return super().admit(endpoint, body, admission)

    def drop_withheld_tools(self, body: Body, admission: Admission) -> None:
        if admission.withheld and not body.get("tools"):
            if body.get("tool_choice") not in (None, "auto", "none"):
                raise api.withheld_tool(admission.withheld[0])
            for name in ("tools", "tool_choice", "parallel_tool_calls"):
                body.pop(name, None)

    def model_problem(self, model: str, *, routed: bool) -> str:
        if _MODEL_NAME.fullmatch(model) is None:
            return "it is not the name of a single model"
        variant = model.partition(":")[2]
        if routed and (model.startswith("openrouter/") or (variant and variant not in _OPENROUTER_VARIANTS)):
            return "it lets OpenRouter choose the model or the price"
        return ""

    def expected(self, endpoint: Endpoint, body: Body, size: int, admission: Admission) -> api.Expected:
        names, supported = api.CHAT_LIMITS, admission.output_limits
        if endpoint.api == RESPONSES:
            names = supported = ("max_output_tokens",)
        limits = {name: body[name] for name in names if body.get(name)}
        # If a limit that the server may ignore is larger, the server may also use only that one.
        limit = max(limits.values()) if any(name in supported for name in limits) else None
        return api.Expected(
            input_tokens=None if admission.unbounded or admission.stored else size + admission.media * api.MEDIA_TOKENS,
            output_tokens=0 if endpoint.kind == "embed" else limit,
            answers=max(1, body.get("n") or 1),
            audio=admission.unbounded,
            media_output="audio" if "audio" in (body.get("modalities") or ()) or body.get("audio") else "",
        )

    def limit_output(self, endpoint: Endpoint, body: Body, tokens: int, admission: Admission) -> bool:
        if endpoint.api == RESPONSES:
            body["max_output_tokens"] = tokens
            return True
        given = [known for known in api.CHAT_LIMITS if known in body]
        if not any(known in admission.output_limits for known in given):
            given.append(admission.output_limits[0])
        body |= {known: min(body.get(known) or tokens, tokens) for known in given}
        return True

    def ask_for_usage(self, endpoint: Endpoint, body: Body) -> bool:
        if endpoint.api != CHAT:
            return False
        options = as_object(body.get("stream_options"))
        if options.get("include_usage") is True:
            return False
        body["stream_options"] = {**options, "include_usage": True}
        return True

    def stored_ids(self, endpoint: Endpoint, answer: Body) -> Iterable[str]:
        stored = [answer, *as_objects(answer.get("output"))] if endpoint.api == RESPONSES else []
        messages = (as_object(choice.get("message")) for choice in as_objects(answer.get("choices")))
        stored += [as_object(message.get("audio")) for message in messages]
        return filter(None, (api.as_string(one.get("id")) for one in stored))

    def stream(self, endpoint: Endpoint) -> StreamReader:
        return _Responses() if endpoint.api == RESPONSES else _Chat()

    def as_stream(self, endpoint: Endpoint, answer: Body) -> Iterator[tuple[str | None, Body | str]]:
        if endpoint.api == CHAT:
            yield from _chat_events(answer)
        else:
            for number, event in enumerate(_response_events(answer)):
                yield event["type"], {**event, "sequence_number": number}

    def said(self, path: str, request: Body, answer: Body) -> CallContent:
        if path.rstrip("/").endswith("/responses"):
            return _response_content(request, answer)
        messages = api.merge_messages(map(_chat_message, as_objects(request.get("messages"))))
        choices = as_objects(answer.get("choices"))
        reply = _chat_agent(as_object(choices[0].get("message"))) if choices else None
        return CallContent(messages=messages, answer=reply, tools=as_objects(request.get("tools")))

    def question(self, question: api.Question) -> tuple[str, Body]:
        body: Body = {
            "model": question.model,
            "messages": [
                {"role": "system", "content": question.system},
                {"role": "user", "content": question.user},
            ],
            question.output_limit: question.max_tokens,
        }
        if question.with_schema:
            form = {"name": api.ANSWER, "strict": True, "schema": question.schema}
            body["response_format"] = {"type": "json_schema", "json_schema": form}
        return "/v1/chat/completions", body


def _is_reference(item: Body) -> bool:
    """Return whether an item with an id refers to one that the provider stores. Without a type and a role, it does."""
    if item.get("id") is None:
        return False
    if item.get("type") == "item_reference" or not (item.get("type") or item.get("role")):
        return True
    return not any(item.get(name) is not None and item[name] != [] for name in _CONTENT_FIELDS)


class _Chat(StreamReader):
    """Assembles a ``chat.completion`` from ``chat.completion.chunk`` objects."""

    def __init__(self) -> None:
        self._answer: Body = {}
        self._choices: dict[int, Body] = {}

    def feed(self, event: Body) -> None:
        for key, value in event.items():
            if key == "choices" and isinstance(value, list):
                for choice in as_objects(value):
                    self._choice(choice)
            elif value is not None or key not in self._answer:
                self._answer[key] = value

    def _choice(self, choice: Body) -> None:
        index = api.as_index(choice.get("index"))
        whole = self._choices.setdefault(index, {"index": index, "message": {}, "finish_reason": None})
        for key, value in choice.items():
            if key == "delta" and isinstance(value, dict):
                merge_delta(whole["message"], value)
            elif key == "message":
                whole[key] = as_object(value)
            elif key == "logprobs" and isinstance(value, dict) and isinstance(whole.get(key), dict):
                for name, entries in value.items():
                    whole[key][name] = as_objects(whole[key].get(name)) + as_objects(entries)
            elif value is not None or key not in whole:
                whole[key] = value

    def answer(self) -> Body:
        choices = [self._choices[index] for index in sorted(self._choices)]
        for choice in choices:
            for call in as_objects(choice["message"].get("tool_calls")):
                call.pop("index", None)
        return {**self._answer, "object": "chat.completion", "choices": choices}


_SET_ONCE = {"role", "type", "id", "name", "index", "format", "status", "call_id"}


def merge_delta(whole: Body, delta: Body) -> None:
    """Add a delta to the message so far: strings are appended, and lists are merged by their entries' ``index``."""
    for key, value in delta.items():
        before = whole.get(key)
        if isinstance(value, str) and isinstance(before, str):
            whole[key] = (before or value) if key in _SET_ONCE else before + value
        elif isinstance(value, dict) and isinstance(before, dict):
            merge_delta(before, value)
        elif isinstance(value, list) and all(isinstance(item, dict) and "index" in item for item in value):
            if before is None:
                before = whole[key] = []
            entries = before if isinstance(before, list) else []
            for item in value:
                known = (entry for entry in as_objects(entries) if entry.get("index") == item["index"])
                if (entry := next(known, None)) is None:
                    entries.append(entry := {})
                merge_delta(entry, item)
        elif isinstance(value, list) and isinstance(before, list):
            whole[key] = before + value
        elif value is not None or key not in whole:
            whole[key] = deepcopy(value)


class _Responses(StreamReader):
    """Reads the events of a response; the last one contains the whole response."""

    def __init__(self) -> None:
        self._answer: Body = {}
        self._items: dict[int, Any] = {}

    def feed(self, event: Body) -> None:
        if isinstance(response := event.get("response"), dict):
            self._answer = response
        if event.get("type") == "response.output_item.done":
            self._items[api.as_index(event.get("output_index"))] = event.get("item")

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
    started = {**answer, "status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": started}
    for index, item in enumerate(answer.get("output") or ()):
        position = {"output_index": index, "item_id": item.get("id")}
        empty = {**item, "status": "in_progress"}
        if item.get("type") == "message":
            empty["content"] = []
        yield {"type": "response.output_item.added", "output_index": index, "item": empty}
        for part_index, part in enumerate(item.get("content") or () if item.get("type") == "message" else ()):
            part_position = {**position, "content_index": part_index}
            text = part.get("text")
            empty_part = {**part, "text": ""} if text else part
            yield {"type": "response.content_part.added", **part_position, "part": empty_part}
            if isinstance(text, str):
                yield {"type": "response.output_text.delta", **part_position, "delta": text, "logprobs": []}
                yield {"type": "response.output_text.done", **part_position, "text": text, "logprobs": []}
            yield {"type": "response.content_part.done", **part_position, "part": part}
        if item.get("type") == "function_call":
            arguments = item.get("arguments") or ""
            yield {"type": "response.function_call_arguments.delta", **position, "delta": arguments}
            done = {"name": item.get("name"), "arguments": arguments}
            yield {"type": "response.function_call_arguments.done", **position, **done}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    ended = {"incomplete": "response.incomplete", "failed": "response.failed"}
    yield {"type": ended.get(str(answer.get("status")), "response.completed"), "response": answer}


def _chat_message(message: Mapping[str, Any]) -> Message:
    role, text = message.get("role"), api.content_text(message.get("content"))
    if role == "assistant":
        return _chat_agent(message)
    if role in ("tool", "function"):
        id = api.as_string(message.get("tool_call_id") or message.get("name"))
        return Message(role="results", results=(api.ToolResult(id=id, content=text),))
    return Message(role="system" if role in ("system", "developer") else "user", text=text)


def _chat_agent(message: Mapping[str, Any]) -> Message:
    calls = []
    for call in as_objects(message.get("tool_calls")):
        function = as_object(call.get("function") or call.get("custom"))
        calls.append(api.called(call.get("id"), function.get("name"), function.get("arguments", function.get("input"))))
    if legacy := as_object(message.get("function_call")):
        calls.append(api.called(legacy.get("name"), legacy.get("name"), legacy.get("arguments")))
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    text = api.content_text(message.get("content")) or api.as_string(message.get("refusal"))
    return Message(role="agent", text=text, reasoning=api.content_text(reasoning), calls=tuple(calls))


def _response_content(request: Mapping[str, Any], answer: Mapping[str, Any]) -> CallContent:
    given = request.get("input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else as_objects(given)
    instructions = api.content_text(request.get("instructions"))
    messages = [Message(role="system", text=instructions)] if instructions else []
    messages += api.merge_messages(map(_item_message, items))
    output = api.merge_messages(map(_item_message, as_objects(answer.get("output"))))
    return CallContent(
        messages=messages,
        answer=next((message for message in output if message.role == "agent"), None),
        tools=as_objects(request.get("tools")),
        id=api.as_string(answer.get("id")) or None,
        previous=api.as_string(request.get("previous_response_id")) or None,
    )


def _item_message(item: Mapping[str, Any]) -> Message:
    """Convert an item of a response's input or output to a message."""
    type, id = api.as_string(item.get("type") or "message"), item.get("call_id") or item.get("id")
    if type.endswith("_output"):
        result = api.ToolResult(id=api.as_string(id), content=api.content_text(item.get("output")))
        return Message(role="results", results=(result,))
    if type == "reasoning":
        reasoning = api.content_text(item.get("summary")) or api.content_text(item.get("content"))
        return Message(role="agent", reasoning=reasoning)
    if type.endswith("_call"):
        given: Any = next((item[key] for key in ("arguments", "input", "action") if key in item), {})
        return Message(role="agent", calls=(api.called(id, item.get("name") or type, given),))
    return _chat_message(item)
