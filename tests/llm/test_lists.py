"""The allow-lists of the three APIs: listed fields pass unchanged if they have the right type."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any

import pytest

from pytest_mlebench.llm.api import Endpoint, Expected, Question, StreamReader
from pytest_mlebench.llm.providers import APIS
from pytest_mlebench.llm.requests import INLINE, MOST_NOTED, Admission, Refusal

Body = dict[str, Any]
GEMINI = "/v1beta/models/gemini-x"
CACHED = {"type": "ephemeral", "ttl": "5m"}
PNG = "data:image/png;base64,AAAA"
SCHEMA = {"type": "object"}
GOOGLE: Body = {
    "thinking_config": {"include_thoughts": True, "thinking_budget": -1, "thinking_level": "low"},
    "thought_tag_marker": "think",
    "thought_signature": "s",
}
FORMAT: Body = {"type": "json_schema", "json_schema": {"name": "f", "description": "d", "schema": {}, "strict": True},
    "name": "f", "description": "d", "schema": SCHEMA, "strict": True, "verbosity": "low"}  # fmt: skip
SAMPLING: Body = {
    **dict.fromkeys(("temperature", "top_p", "presence_penalty", "frequency_penalty", "min_p", "top_a"), 0.5),
    **dict.fromkeys(("repetition_penalty", "repetition_context_size"), 1),
    **dict.fromkeys(("top_k", "seed", "thinking_budget"), -1),
    **dict.fromkeys(("top_logprobs", "min_tokens", "n"), 2),
    **dict.fromkeys(("parallel_tool_calls", "store", "stream", "enable_thinking", "include_reasoning"), True),
    **dict.fromkeys(("model", "user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"), "some text"),
    **dict.fromkeys(("service_tier", "reasoning_effort", "verbosity", "speed", "inference_geo"), "low"),
    "metadata": {"a": "b"},
    "stream_options": {"include_usage": True, "include_obfuscation": False},
    "extra_body": {"google": GOOGLE},
    "google": GOOGLE,
    "thinking": {"type": "enabled", "budget_tokens": 1024},
    "chat_template_kwargs": {"enable_thinking": False},
}
TOOL: Body = {
    **dict.fromkeys(("name", "description", "execution", "environment_id"), "x"),
    "type": "function",
    "function": {"name": "f", "description": "d", "parameters": SCHEMA, "strict": True},
    "custom": {"name": "f", "description": "d", "format": SCHEMA},
    **dict.fromkeys(("parameters", "output_schema", "format"), SCHEMA),
    **dict.fromkeys(("strict", "defer_loading"), False),
    "cache_control": CACHED,
    **dict.fromkeys(("display_width", "display_height"), 1024),
    "environment": {"type": "local", "local": "x"},
}
TOOLS: list[Body] = [
    TOOL,
    {"type": "shell", "environment": {"type": "local"}},
    *({"type": kind} for kind in ("custom", "local_shell", "apply_patch", "computer_use_preview", "computer")),
    {"type": "tool_search", "environment": "linux"},
    {"type": "namespace", "name": "n", "description": "d", "tools": [{"type": "function"}]},
]
PARTS: list[Body] = [
    {"type": "text", "text": "x", "cache_control": CACHED},
    {"type": "refusal", "refusal": "x"},
    {"type": "image_url", "image_url": PNG, "cache_control": CACHED},
    {"type": "image_url", "image_url": {"url": PNG, "detail": "low", "media_type": "image/png"}},
    {"type": "thinking", "thinking": "x", "signature": "s"},
    {"type": "thinking", "thinking": [{"type": "text", "text": "x"}]},
    {"type": "redacted_thinking", "data": "x"},
]
CHAT: Body = {
    **SAMPLING,
    "messages": [
        {
            **dict.fromkeys(("type", "role", "name", "tool_call_id", "refusal", "reasoning_content"), "x"),
            **dict.fromkeys(("status", "id"), "x"),
            "content": PARTS,
            "tool_calls": [
                {
                    "id": "c",
                    "type": "function",
                    "index": 0,
                    "function": {"name": "f", "arguments": "{}"},
                    "custom": {"name": "f", "input": "x"},
                    "extra_content": {"google": GOOGLE},
                    "cache_control": CACHED,
                }
            ],
            "function_call": {"name": "f", "arguments": "{}"},
            "reasoning": {"type": "x", "text": "x", "summary": "x"},
            "reasoning_details": [
                dict.fromkeys(("type", "id", "text", "summary", "data", "signature", "format"), "x") | {"index": 0}
            ],
            "thinking_blocks": [dict.fromkeys(("type", "thinking", "signature", "data"), "x")],
            "cache_control": CACHED,
            "extra_content": {"google": GOOGLE},
            "prefix": True,
            "partial": False,
        },
        {"role": "user", "content": {"type": "text", "text": "x"}, "reasoning": "x"},
        {"role": "user", "content": "x"},
    ],
    **dict.fromkeys(("max_tokens", "max_completion_tokens"), 100),
    "stop": ["a", "b"],
    "logit_bias": {"50256": -100},
    "logprobs": True,
    "tools": TOOLS,
    "tool_choice": {
        "type": "function",
        "name": "f",
        "mode": "auto",
        "function": {"name": "f"},
        "custom": {"name": "f"},
    },
    "functions": [{"name": "f", "description": "d", "parameters": SCHEMA, "strict": False}],
    "function_call": {"name": "f"},
    "response_format": FORMAT,
    "modalities": ["text", "audio"],
    "audio": {"voice": {"id": "v"}, "format": "wav"},
    "reasoning": {"effort": "low", "max_tokens": 10, "exclude": False, "enabled": True, "summary": "auto"},
    "usage": {"include": True},
}
CALL: Body = dict.fromkeys(("id", "call_id", "status", "name", "namespace"), "x")
SAID: list[Body] = [
    *({"type": kind, "text": "x", "cache_control": CACHED} for kind in ("input_text", "text", "reasoning_text")),
    {"type": "summary_text", "text": "x", "cache_control": CACHED},
    {"type": "output_text", "text": "x", "annotations": [{}], "logprobs": [{}]},
    {"type": "refusal", "refusal": "x"},
    {"type": "input_image", "detail": "low", "image_url": PNG},
    {"type": "input_file", "filename": "f", "detail": "low", "file_data": "data:text/plain,x"},
    {"type": "computer_screenshot", "detail": "low", "image_url": PNG},
    {"type": "encrypted_content", "encrypted_content": "x"},
]
RESPONSES: Body = {
    **SAMPLING,
    "input": [
        {"role": "user", "status": "x", "id": "x", "phase": "x", "name": "x", "content": SAID},
        {"type": "message", "role": "user", "content": SAID[0]},
        {"type": "function_call", **CALL, "arguments": "{}"},
        {"type": "function_call_output", **CALL, "output": SAID},
        {"type": "custom_tool_call", **CALL, "input": "x"},
        {"type": "custom_tool_call_output", **CALL, "output": "x"},
        {"type": "local_shell_call", **CALL, "action": {"a": 1}},
        {"type": "local_shell_call_output", **CALL, "output": "x"},
        {"type": "shell_call", **CALL, "action": {"a": 1}, "environment": {"type": "local", "local": "x"}},
        {"type": "shell_call_output", **CALL, "output": [{"a": 1}], "max_output_length": 10},
        {"type": "apply_patch_call", **CALL, "operation": {"a": 1}},
        {"type": "apply_patch_call_output", **CALL, "output": "x"},
        {"type": "computer_call", **CALL, "action": {"a": 1}, "actions": [{}], "pending_safety_checks": [{}]},
        {"type": "computer_call_output", **CALL, "output": SAID[8], "acknowledged_safety_checks": [{}]},
        {"type": "tool_search_call", **CALL, "execution": "client", "arguments": {"a": 1}},
        {"type": "tool_search_output", **CALL, "execution": "client", "tools": TOOLS},
        {"type": "additional_tools", "id": "x", "role": "x", "tools": TOOLS},
        {"type": "reasoning", "id": "x", "status": "x", "encrypted_content": "x", "summary": SAID, "content": SAID},
        {"type": "compaction", "id": "x", "encrypted_content": "x"},
        {"type": "compaction_summary", "id": "x", "encrypted_content": "x"},
    ],
    "instructions": "x",
    **dict.fromkeys(("max_output_tokens", "max_tool_calls"), 10),
    "tools": TOOLS,
    "tool_choice": {
        "type": "allowed_tools",
        "mode": "auto",
        "tools": TOOLS,
        "allowed_tools": {"mode": "auto", "tools": TOOLS},
    },
    "text": {"format": FORMAT, "verbosity": "low"},
    "reasoning": dict.fromkeys(("effort", "summary", "generate_summary", "context"), "low"),
    "include": [
        "reasoning.encrypted_content",
        "message.output_text.logprobs",
        "message.input_image.image_url",
        "computer_call_output.output.image_url",
    ],
    "truncation": "auto",
    "client_metadata": {"a": "b"},
}
EMBEDDINGS: Body = {
    **dict.fromkeys(("model", "user"), "x"),
    "input": ["x", 5, [1, 2]],
    "dimensions": 10,
    **dict.fromkeys(("encoding_format", "input_type"), "float"),
}
ANTHROPIC_CACHE = {**CACHED, "scope": "global"}
CITED = {"citations": {"enabled": True}, "cache_control": ANTHROPIC_CACHE}
INNER: list[Body] = [
    {"type": "text", "text": "x", "cache_control": ANTHROPIC_CACHE, "citations": [{"a": 1}]},
    {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"},
        "cache_control": ANTHROPIC_CACHE,
    },
    {
        "type": "document",
        "title": "x",
        "context": "x",
        "source": {"type": "text", "media_type": "text/plain", "data": "see https://example.org"},
        **CITED,
    },
    {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "x"}]}},
    {"type": "search_result", "source": "x", "title": "x", "content": [{"type": "text", "text": "x"}], **CITED},
    {"type": "tool_reference", "tool_name": "f", "cache_control": ANTHROPIC_CACHE},
]
MESSAGES: Body = {
    "model": "x",
    "max_tokens": 100,
    "messages": [
        {
            "role": "user",
            "content": [
                *INNER,
                {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}, "cache_control": ANTHROPIC_CACHE},
                {
                    "type": "tool_result",
                    "tool_use_id": "t",
                    "content": INNER,
                    "is_error": True,
                    "cache_control": ANTHROPIC_CACHE,
                },
                {"type": "thinking", "thinking": "x", "signature": "s"},
                {"type": "redacted_thinking", "data": "x"},
            ],
        },
        {"role": "assistant", "content": "x"},
    ],
    "system": [{"type": "text", "text": "x"}],
    "stream": True,
    "stop_sequences": ["x"],
    "temperature": 0.5,
    "top_p": 0.5,
    "top_k": -1,
    "tools": [
        {
            **dict.fromkeys(("name", "description"), "x"),
            "type": "custom",
            "input_schema": SCHEMA,
            "input_examples": [{}],
            "cache_control": ANTHROPIC_CACHE,
            **dict.fromkeys(("strict", "defer_loading", "eager_input_streaming", "enable_zoom"), True),
            **dict.fromkeys(("max_characters", "display_height_px", "display_width_px", "display_number"), 1),
        },
        {"name": "f"},
        *(
            {"type": f"{kind}_20250124", "name": kind}
            for kind in ("bash", "text_editor", "computer", "memory", "tool_search_tool_regex", "tool_search_tool_bm25")
        ),
    ],
    "tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": True},
    "thinking": {"type": "enabled", "display": "summarized", "budget_tokens": 50},
    "metadata": {"user_id": "u"},
    **dict.fromkeys(("service_tier", "speed", "inference_geo"), "low"),
    "cache_control": ANTHROPIC_CACHE,
    "context_management": {
        "edits": [
            {
                "type": "clear_tool_uses_20250919",
                "trigger": {"type": "input_tokens", "value": 1},
                "keep": {"type": "tool_uses", "value": 1},
                "clear_at_least": {"type": "input_tokens", "value": 1},
                "exclude_tools": ["f"],
                "clear_tool_inputs": True,
            },
            {"type": "clear_thinking_20251015", "keep": "all", "clear_tool_inputs": ["f"]},
        ]
    },
    "output_format": {"type": "json_schema", "schema": SCHEMA},
    "output_config": {
        "effort": "low",
        "format": {"type": "json_schema", "schema": SCHEMA},
        "task_budget": {"type": "tokens", "total": 10, "remaining": 5},
    },
}
BLOB: Body = {"inlineData": {"mimeType": "image/png", "data": "AAAA", "displayName": "x"}}
VOICE = {"prebuiltVoiceConfig": {"voiceName": "v"}}
CONTENT: Body = {
    "role": "user",
    "parts": [
        {"text": "x", "thought": True, "thoughtSignature": "s", "partMetadata": {"a": 1}},
        {**BLOB, "mediaResolution": {"level": "low", "numTokens": 10}},
        {**BLOB, "mediaResolution": "low", "videoMetadata": {"startOffset": "1s", "endOffset": "2s", "fps": 0.5}},
        {"functionCall": {"id": "c", "name": "f", "args": {"a": 1}}},
        {
            "functionResponse": {
                **dict.fromkeys(("id", "name"), "x"),
                "response": {"a": 1},
                "parts": [BLOB],
                "willContinue": True,
                "scheduling": "SILENT",
            }
        },
        {"executableCode": {"id": "e", "language": "PYTHON", "code": "x"}},
        {"codeExecutionResult": {"id": "e", "outcome": "OUTCOME_OK", "output": "x"}},
    ],
}
GENERATE: Body = {
    "model": "models/gemini-x",
    "contents": [CONTENT, {"role": "user", "parts": {"text": "x"}}],
    "systemInstruction": CONTENT,
    "tools": [
        {
            "functionDeclarations": [
                {
                    **dict.fromkeys(("name", "description"), "x"),
                    "behavior": "BLOCKING",
                    **dict.fromkeys(("parameters", "response"), SCHEMA),
                    **dict.fromkeys(("parametersJsonSchema", "responseJsonSchema"), SCHEMA),
                }
            ],
            "computerUse": {"environment": "BROWSER", "excludedPredefinedFunctions": ["f"]},
        },
        {"functionDeclarations": {"name": "f"}},
    ],
    "toolConfig": {
        "functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"], "streamFunctionCallArguments": True}
    },
    "generationConfig": {
        **dict.fromkeys(("temperature", "topP", "topK", "presencePenalty", "frequencyPenalty"), 0.5),
        **dict.fromkeys(("candidateCount", "maxOutputTokens", "logprobs"), 1),
        "seed": -1,
        "stopSequences": ["x"],
        "responseMimeType": "text/plain",
        **dict.fromkeys(("responseSchema", "responseJsonSchema"), SCHEMA),
        "responseLogprobs": True,
        "responseModalities": ["TEXT", "IMAGE", "AUDIO"],
        "thinkingConfig": {"includeThoughts": True, "thinkingBudget": -1, "thinkingLevel": "low"},
        "mediaResolution": "low",
        **dict.fromkeys(("enableAffectiveDialog", "enableEnhancedCivicAnswers", "audioTimestamp"), True),
        "imageConfig": {"aspectRatio": "1:1", "imageSize": "1K"},
        "speechConfig": {
            "languageCode": "en-US",
            "voiceConfig": VOICE,
            "multiSpeakerVoiceConfig": {"speakerVoiceConfigs": [{"speaker": "s", "voiceConfig": VOICE}]},
        },
    },
    "safetySettings": [{"category": "HARM", "threshold": "OFF", "method": "SEVERITY"}],
    "labels": {"a": "b"},
    "serviceTier": "low",
    "store": False,
}
EMBED: Body = {
    "model": "models/gemini-x",
    "content": CONTENT,
    "taskType": "X",
    "title": "x",
    "outputDimensionality": 10,
}
WHOLE: dict[str, tuple[str, str, Body]] = {
    "chat": ("openai", "/chat/completions", CHAT),
    "responses": ("openai", "/responses", RESPONSES),
    "embeddings": ("openai", "/embeddings", EMBEDDINGS),
    "messages": ("anthropic", "/v1/messages", MESSAGES),
    "count_tokens": ("anthropic", "/v1/messages/count_tokens", MESSAGES),
    "generateContent": ("gemini", f"{GEMINI}:generateContent", GENERATE),
    "countTokens": ("gemini", f"{GEMINI}:countTokens", {**GENERATE, "generateContentRequest": GENERATE}),
    "embedContent": ("gemini", f"{GEMINI}:embedContent", {**EMBED, "requests": [EMBED]}),
}
REQUESTS = pytest.mark.parametrize("name", WHOLE)


def admit(name: str, body: Body, **options: Any) -> tuple[Body, Admission]:
    api, path, _ = WHOLE[name]
    endpoint = APIS[api].endpoint("POST", path)
    assert endpoint is not None
    admission = Admission(**{"model": "gemini-x", **options})
    return APIS[api].admit(endpoint, body, admission), admission


def expect(name: str, body: Body, size: int = 100, **options: Any) -> Expected:
    """The maximum usage of an admitted request."""
    api, path, _ = WHOLE[name]
    endpoint = APIS[api].endpoint("POST", path)
    assert endpoint is not None
    made, admission = admit(name, body, **options)
    return APIS[api].expected(endpoint, made, size, admission)


def limited(name: str, body: Body, **options: Any) -> Body | None:
    """A request after its response was limited to 7 tokens; None if it was not limited."""
    api, path, _ = WHOLE[name]
    endpoint = APIS[api].endpoint("POST", path)
    assert endpoint is not None
    made = copy.deepcopy(body)
    return made if APIS[api].limit_output(endpoint, made, 7, Admission(**options)) else None


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of nested values, at any depth."""
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*path, key)
        yield from places(item, (*path, key))


def put(body: Any, path: tuple[Any, ...], value: Any) -> Any:
    """A copy with another value at one path."""
    if not path:
        return value
    made = body.copy()
    made[path[0]] = put(body[path[0]], path[1:], value)
    return made


@REQUESTS
def test_all_listed_fields_pass_unchanged(name: str) -> None:
    body = WHOLE[name][2]
    made, admission = admit(name, body)
    assert made == body
    assert not (admission.dropped or admission.withheld or admission.unbounded or admission.stored)


FREE = {
    *("parameters", "output_schema", "schema", "input_schema", "response", "args", "partMetadata", "action", "actions"),
    *("operation", "annotations", "logprobs", "pending_safety_checks", "acknowledged_safety_checks"),
    *("responseSchema", "responseJsonSchema", "parametersJsonSchema", "input_examples", "citations"),
}
"""Content inside these fields is up to the agent."""


@REQUESTS
def test_a_value_of_another_type_is_rejected_anywhere(name: str) -> None:
    body = WHOLE[name][2]
    for path in places(body):
        if not (path[-1] in ("type", "environment", "local", "a") or FREE & set(map(str, path))):
            with pytest.raises(Refusal):
                print(path, admit(name, put(body, path, [[None]]))[1])


@REQUESTS
def test_null_counts_as_a_missing_value(name: str) -> None:
    body = WHOLE[name][2]
    for key in body:
        if key in ("input", "messages", "contents") and name != "countTokens":
            with pytest.raises(Refusal, match=f"needs '{key}'"):
                admit(name, {**body, key: None})
        else:
            assert admit(name, {**body, key: None})[0] == {**body, key: None}


ENDPOINTS: list[tuple[str, str, str, Endpoint | None]] = [
    ("openai", "POST", "/chat/completions", Endpoint(kind="generate", api="chat")),
    ("openai", "POST", "/responses", Endpoint(kind="generate", api="responses")),
    ("openai", "POST", "/embeddings", Endpoint(kind="embed", api="embeddings", stream=False)),
    ("openai", "GET", "/models", Endpoint(kind="models", stream=False)),
    ("openai", "GET", "/models/meta/llama-3:free", Endpoint(kind="models", stream=False)),
    ("openai", "POST", "/models/gpt-4o", None),
    ("openai", "GET", "/models/", None),
    ("openai", "GET", "/chat/completions", None),
    ("openai", "POST", "/completions", None),
    ("anthropic", "POST", "/v1/messages", Endpoint(kind="generate")),
    ("anthropic", "POST", "/v1/messages/count_tokens", Endpoint(kind="count", stream=False)),
    ("anthropic", "GET", "/v1/models", Endpoint(kind="models", stream=False)),
    ("anthropic", "GET", "/v1/models/claude-3.5", Endpoint(kind="models", stream=False)),
    ("anthropic", "POST", "/v1/models/claude-3.5", None),
    ("anthropic", "POST", "/v1/messages/batches", None),
    ("gemini", "POST", f"{GEMINI}:generateContent", Endpoint(kind="generate", model="gemini-x", stream=False)),
    ("gemini", "POST", f"{GEMINI}:streamGenerateContent", Endpoint(kind="generate", model="gemini-x", stream=True)),
    ("gemini", "POST", "/v1/models/g:countTokens", Endpoint(kind="count", model="g", stream=False)),
    ("gemini", "POST", "/v1alpha/models/g:embedContent", Endpoint(kind="embed", model="g", stream=False)),
    ("gemini", "POST", "/v1/models/g:batchEmbedContents", Endpoint(kind="embed", model="g", stream=False)),
    ("gemini", "GET", "/v1beta/models", Endpoint(kind="models", stream=False)),
    ("gemini", "GET", GEMINI, Endpoint(kind="models", stream=False)),
    ("gemini", "GET", f"{GEMINI}:generateContent", None),
    ("gemini", "POST", f"{GEMINI}:batchGenerateContent", None),
    ("gemini", "POST", "/v1beta/cachedContents", None),
    ("gemini", "POST", "/v1beta/models", None),
]


@pytest.mark.parametrize(("api", "method", "path", "endpoint"), ENDPOINTS)
def test_no_other_endpoint_is_offered(api: str, method: str, path: str, endpoint: Endpoint | None) -> None:
    assert APIS[api].endpoint(method, path) == endpoint


def test_forwarded_parameters_and_headers_are_listed() -> None:
    openai, anthropic, gemini = (APIS[name] for name in ("openai", "anthropic", "gemini"))
    assert openai.query == {"limit", "after"} and not openai.headers
    assert anthropic.query == {"beta", "limit", "before_id", "after_id"}
    assert anthropic.headers.keys() == {"anthropic-version", "anthropic-beta"}
    for value, passes in (("a" * 4096, True), ("a" * 4097, False), ("", True), (" ~", True), ("\n", False)):
        assert bool(anthropic.headers["anthropic-beta"].fullmatch(value)) == passes
    for value, passes in (("2023-06-01", True), ("2023-6-1", False), ("2023-06-01x", False)):
        assert bool(anthropic.headers["anthropic-version"].fullmatch(value)) == passes
    assert gemini.query == {"alt", "pageSize", "pageToken"} and not gemini.headers
    assert [api.key_header for api in (openai, anthropic, gemini)] == ["authorization", "x-api-key", "x-goog-api-key"]
    assert [api.usage_of for api in (openai, anthropic, gemini)] == ["openai", "anthropic", "google"]
    assert [api.name for api in (openai, anthropic, gemini)] == ["openai", "anthropic", "gemini"]


ERRORS: dict[str, tuple[tuple[str, str | None], str, tuple[int, str]]] = {
    "authentication": (("invalid_request_error", "invalid_api_key"), "authentication_error", (401, "UNAUTHENTICATED")),
    "not_found": (("invalid_request_error", "unknown_url"), "not_found_error", (404, "NOT_FOUND")),
    "invalid": (("invalid_request_error", None), "invalid_request_error", (400, "INVALID_ARGUMENT")),
    "too_large": (("invalid_request_error", "request_too_large"), "request_too_large", (413, "INVALID_ARGUMENT")),
    "unsupported": (("invalid_request_error", None), "invalid_request_error", (415, "INVALID_ARGUMENT")),
    "budget": (("insufficient_quota", "insufficient_quota"), "billing_error", (403, "PERMISSION_DENIED")),
    "model": (("invalid_request_error", "model_not_found"), "not_found_error", (404, "NOT_FOUND")),
    "overloaded": (("server_error", None), "overloaded_error", (503, "UNAVAILABLE")),
    "upstream": (("server_error", None), "api_error", (502, "UNAVAILABLE")),
    "timeout": (("server_error", None), "timeout_error", (504, "DEADLINE_EXCEEDED")),
}


@pytest.mark.parametrize("problem", ERRORS)
def test_an_error_has_the_format_of_its_provider(problem: Any) -> None:
    (type, code), anthropic, (number, status) = ERRORS[problem]
    assert APIS["openai"].error(problem, "why") == {
        "error": {"message": "why", "type": type, "param": None, "code": code}
    }
    assert APIS["anthropic"].error(problem, "why") == {"type": "error", "error": {"type": anthropic, "message": "why"}}
    gemini = APIS["gemini"].error(problem, "why")["error"]
    details = gemini.pop("details", None)
    assert gemini == {"code": number, "message": "why", "status": status}
    assert APIS["gemini"].status(problem) == number
    reason = {"reason": "BILLING_DISABLED", "domain": "googleapis.com"}
    told = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", **reason}]
    assert details == (told if problem == "budget" else None)


SEARCH = {"type": "web_search", "name": "web_search"}
SEARCHES: dict[str, Body] = {
    "chat": {"messages": [], "tools": [SEARCH]},
    "responses": {"input": "x", "tools": [SEARCH]},
    "messages": {"messages": [], "tools": [SEARCH]},
    "generateContent": {"contents": [], "tools": [{"googleSearch": {}}]},
}
CHOICES: dict[str, tuple[Any, Any]] = {
    "chat": ("required", "auto"),
    "responses": ("required", "none"),
    "messages": ({"type": "any"}, {"type": "auto"}),
}


@pytest.mark.parametrize("name", SEARCHES)
def test_provider_tools_are_withheld_and_noted(name: str) -> None:
    made, admission = admit(name, SEARCHES[name])
    assert "tools" not in made and not admission.unbounded
    assert admission.withheld == ["googleSearch" if name == "generateContent" else "web_search"]
    given = {**SEARCHES[name], "tools": [*SEARCHES[name]["tools"], *WHOLE[name][2]["tools"]]}
    assert admit(name, given)[0]["tools"] == WHOLE[name][2]["tools"]
    made, admission = admit(name, given, provider_tools=True)
    assert made == given and admission.unbounded and not admission.withheld
    own = {**given, "tools": WHOLE[name][2]["tools"]}
    assert not admit(name, own, provider_tools=True)[1].unbounded
    kinds = [f"{number}{'x' * 500}" for number in range(2 * MOST_NOTED)]
    many: list[Body] = (
        [{kind: {} for kind in kinds}] if name == "generateContent" else [{"type": kind} for kind in kinds]
    )
    assert admit(name, {**given, "tools": many})[1].withheld == [kind[:64] for kind in kinds[:MOST_NOTED]]


@pytest.mark.parametrize("name", CHOICES)
def test_a_required_tool_choice_without_tools_is_rejected(name: str) -> None:
    must, may = CHOICES[name]
    with pytest.raises(Refusal, match="web_search"):
        admit(name, {**SEARCHES[name], "tool_choice": must})
    made = admit(name, {**SEARCHES[name], "tool_choice": may})[0]
    assert not {"tools", "tool_choice"} & made.keys()
    own = {**SEARCHES[name], "tools": [*SEARCHES[name]["tools"], WHOLE[name][2]["tools"][0]], "tool_choice": must}
    assert admit(name, own)[0]["tool_choice"] == must


def test_a_required_gemini_function_call_without_functions_is_rejected() -> None:
    for mode, refused in (("ANY", True), ("any", True), ("AUTO", False), (None, False)):
        calling = {"toolConfig": {"functionCallingConfig": {"mode": mode}}}
        body = {**SEARCHES["generateContent"], **calling}
        if refused:
            with pytest.raises(Refusal, match="googleSearch"):
                admit("generateContent", body)
        else:
            assert admit("generateContent", body)[0] == {"contents": []}
            assert admit("countTokens", {"generateContentRequest": body})[0] == {
                "generateContentRequest": {"contents": []}
            }
    body = {**GENERATE, "tools": [*GENERATE["tools"], {"googleSearch": {}}]}
    assert admit("generateContent", body)[0] == GENERATE
    assert admit("generateContent", {"contents": [], "tools": []})[0] == {"contents": [], "tools": []}


def test_a_withheld_tool_cannot_be_chosen_by_name() -> None:
    body = {**SEARCHES["messages"], "tools": [SEARCH, {"name": "f"}]}
    assert admit("messages", {**body, "tool_choice": {"type": "tool", "name": "f"}})[0]["tools"] == [{"name": "f"}]
    with pytest.raises(Refusal, match="web_search"):
        admit("messages", {**body, "tool_choice": {"type": "tool", "name": "web_search"}})
    for choice in ({"type": "web_search"}, {"type": "function", "server_url": "https://example.org"}, {"type": "mcp"}):
        with pytest.raises(Refusal, match=choice["type"]):
            admit("chat", {"messages": [], "tool_choice": choice})
        assert admit("chat", {"messages": [], "tool_choice": choice}, provider_tools=True)[1].dropped in (
            [],
            ["tool_choice.server_url"],
        )
    allowed: list[Body] = [{"type": "allowed_tools", "tools": [SEARCH]}, {"allowed_tools": {"tools": [SEARCH]}}]
    for some in allowed:
        made, admission = admit("chat", {"messages": [], "tools": [TOOL], "tool_choice": some})
        assert admission.withheld == ["web_search"] and "web_search" not in str(made)


@pytest.mark.parametrize(
    ("tool", "is_clients"),
    [
        ({"type": "shell"}, False),
        ({"type": "shell", "environment": {"type": "container_auto"}}, False),
        ({"type": "shell", "environment": "local"}, False),
        ({"type": "function", "server_url": "https://example.org"}, False),
        ({"type": "custom", "connector_id": "c"}, False),
        ({"type": ["function"]}, False),
        ({"name": "f"}, False),
        ({"type": "namespace", "tools": [{"type": "web_search"}]}, False),
        ({"type": "namespace", "tools": [{"type": "custom"}]}, True),
    ],
)
def test_a_tool_is_the_clients_if_no_part_of_it_runs_elsewhere(tool: Body, is_clients: bool) -> None:
    made = admit("chat", {"messages": [], "tools": [tool]})[0]
    assert made == {"messages": [], **({"tools": [tool]} if is_clients else {})}


def test_a_type_listed_by_the_user_passes() -> None:
    for name, kind in (("chat", "web_search"), ("messages", "web_search")):
        made, admission = admit(name, SEARCHES[name], types={kind})
        assert made == SEARCHES[name] and admission.unbounded and not admission.withheld
    made = admit("generateContent", SEARCHES["generateContent"], types={"googleSearch"})[0]
    assert made["tools"] == [{}]


@pytest.mark.parametrize("model", ["gpt-4o-search-preview", "x-search", "o3-deep-research", "gpt-4o:online", "x-online",
    "sonar-pro", "perplexity/sonar", "groq/compound", "compound-mini", "GPT-4O-SEARCH-PREVIEW"])  # fmt: skip
def test_a_model_that_searches_needs_the_providers_tools(model: str) -> None:
    body = {"messages": [], "model": model}
    with pytest.raises(Refusal, match="searches the web on its own"):
        admit("chat", body, model=model)
    assert admit("chat", body, model=model, provider_tools=True)[0] == body


@pytest.mark.parametrize("model", ["gpt-4o", "search-7b", "research-1", "text-sonar"])
def test_a_model_that_does_not_search_needs_no_provider_tools(model: str) -> None:
    assert admit("chat", {"messages": [], "model": model}, model=model)[0]["model"] == model


def test_a_model_name_is_one_word_without_alternatives() -> None:
    why = APIS["openai"].model_problem
    for model in ("gpt-4o", "a/b/c.d+e", "x@20240101", "x:", "a/b:free", "a/b:thinking", "a/b:beta", "a/b:extended"):
        assert why(model, routed=True) == ""
    for model in ("openrouter/auto", "a/b:nitro", "a/b:floor", "a:free:online"):
        assert why(model, routed=True) == "it lets OpenRouter choose the model or the price"
        assert why(model, routed=False) == ""
    for model in ("", "a b", "/a", "a/", "a@b", "é", "a,b"):
        assert why(model, routed=True) == why(model, routed=False) == "it is not the name of a single model"


IMAGE = {"role": "user", "content": [{"type": "image_url", "image_url": PNG}]}
AUDIO = {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}]}
PDF = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AAAA"}}
SOUND = {"inlineData": {"mimeType": "audio/wav", "data": "AAAA"}}
EXPECTED: dict[str, tuple[str, Body, Expected]] = {
    "no limit": ("chat", {"messages": []}, Expected(100, None)),
    "a limit": ("chat", {"messages": [], "max_tokens": 5}, Expected(100, 5)),
    "the larger of two limits": (
        "chat",
        {"messages": [], "max_tokens": 5, "max_completion_tokens": 9},
        Expected(100, 9),
    ),
    "a limit of none": ("chat", {"messages": [], "max_tokens": 0}, Expected(100, None)),
    "a limit of another endpoint": ("chat", {"messages": [], "max_output_tokens": 5}, Expected(100, None)),
    "several answers": ("chat", {"messages": [], "n": 3}, Expected(100, None, answers=3)),
    "no answer": ("chat", {"messages": [], "n": 0}, Expected(100, None)),
    "images": ("chat", {"messages": [IMAGE, IMAGE]}, Expected(100 + 2 * 16_384, None)),
    "audio": ("chat", {"messages": [AUDIO]}, Expected(None, None, audio=True)),
    "audio to come": ("chat", {"messages": [], "modalities": ["audio"]}, Expected(100, None, media_output="audio")),
    "a voice": ("chat", {"messages": [], "audio": {"voice": "x"}}, Expected(100, None, media_output="audio")),
    "text to come": ("chat", {"messages": [], "modalities": ["text"]}, Expected(100, None)),
    "a response": ("responses", {"input": "x", "max_output_tokens": 5}, Expected(100, 5)),
    "a response without a limit": ("responses", {"input": "x", "max_tokens": 5}, Expected(100, None)),
    "embeddings": ("embeddings", {"input": "x"}, Expected(100, 0)),
    "a message": ("messages", {"messages": [], "max_tokens": 5}, Expected(4196, 5)),
    "a message without a limit": ("messages", {"messages": [], "max_tokens": 0}, Expected(4196, None)),
    "tokens to count": ("count_tokens", {"messages": [], "max_tokens": 5}, Expected(4196, 0)),
    "a document": ("messages", {"messages": [{"role": "user", "content": [PDF]}]}, Expected(None, None)),
    "a picture": ("messages", {"messages": [{"role": "user", "content": [INNER[1]]}]}, Expected(4196 + 16_384, None)),
    "contents": ("generateContent", {"contents": []}, Expected(100, None)),
    "contents with a limit": (
        "generateContent",
        {"contents": [], "generationConfig": {"maxOutputTokens": 5, "candidateCount": 2}},
        Expected(100, 5, answers=2),
    ),
    "contents with a limit of zero": (
        "generateContent",
        {"contents": [], "generationConfig": {"maxOutputTokens": 0, "candidateCount": 0}},
        Expected(100, None),
    ),
    "an image to come": (
        "generateContent",
        {"contents": [], "generationConfig": {"responseModalities": ["TEXT", "image"]}},
        Expected(100, None, media_output="image"),
    ),
    "contents with an image": ("generateContent", {"contents": [{"parts": [BLOB]}]}, Expected(100 + 16_384, None)),
    "contents with sound": ("generateContent", {"contents": [{"parts": [SOUND]}]}, Expected(None, None, audio=True)),
    "contents to count": (
        "countTokens",
        {"contents": [], "generationConfig": {"maxOutputTokens": 5}},
        Expected(100, 0),
    ),
    "a content to embed": ("embedContent", {"content": {"parts": [{"text": "x"}]}}, Expected(100, 0)),
}


@pytest.mark.parametrize("what", EXPECTED)
def test_the_maximum_usage_follows_from_the_request(what: str) -> None:
    name, body, expected = EXPECTED[what]
    assert expect(name, body) == expected


def test_content_outside_the_request_has_unknown_size() -> None:
    assert expect("chat", {"messages": [], "max_tokens": 5}, output_limits=()).output_tokens is None
    assert expect("responses", {"input": "x", "max_output_tokens": 5}, output_limits=()).output_tokens == 5
    both = {"messages": [], "max_tokens": 5, "max_completion_tokens": 900}
    assert expect("chat", both, output_limits={"max_tokens"}).output_tokens == 900
    assert expect("chat", {**both, "max_tokens": 0}, output_limits={"max_tokens"}).output_tokens is None
    previous = {"input": "x", "previous_response_id": "r"}
    assert expect("responses", previous, received={"r"}) == Expected(None, None)
    assert expect("messages", {"messages": []}, long_context=True).long_context
    gemini = APIS["gemini"]
    for model in ("gemini-2.5-flash-image", "x-tts", "x-AUDIO", "x-live", "veo-3", "imagen-4"):
        generated = Endpoint(kind="generate", model=model)
        assert gemini.expected(generated, {}, 1, Admission()).media_output.lower() in model.lower()
        assert gemini.expected(generated, {}, 1, Admission()).media_output
        assert not gemini.expected(Endpoint(kind="embed", model=model), {}, 1, Admission()).media_output


def test_the_response_length_is_limited_by_the_parameter_that_the_server_supports() -> None:
    assert limited("chat", {}) == {"max_tokens": 7}
    assert limited("chat", {}, output_limits=("max_completion_tokens",)) == {"max_completion_tokens": 7}
    assert limited("chat", {"max_completion_tokens": 9}) == {"max_completion_tokens": 7}
    both = {"max_completion_tokens": 9, "max_tokens": 5}
    assert limited("chat", both) == {"max_completion_tokens": 7, "max_tokens": 5}
    assert limited("chat", {"max_tokens": 5}, output_limits=("other",)) == {"max_tokens": 5, "other": 7}
    assert limited("chat", {"max_completion_tokens": 5}, output_limits=("max_tokens",)) == {
        "max_completion_tokens": 5,
        "max_tokens": 7,
    }
    assert limited("responses", {"max_tokens": 5}) == {"max_tokens": 5, "max_output_tokens": 7}
    assert limited("responses", {"max_output_tokens": 5}, output_limits=()) == {"max_output_tokens": 7}
    assert limited("messages", {"max_tokens": 9}) == {"max_tokens": 7}
    messages = Endpoint(kind="generate")
    assert APIS["anthropic"].limit_output(messages, {}, 1, Admission())
    assert not APIS["anthropic"].limit_output(messages, {}, 0, Admission())
    assert limited("messages", {"thinking": {"budget_tokens": 6}}) is not None
    assert limited("messages", {"thinking": {"budget_tokens": 7}}) is None, "thinking uses the whole limit"
    assert limited("messages", {"thinking": {"type": "adaptive"}}) is not None
    assert limited("generateContent", {"generationConfig": {"seed": 1}}) == {
        "generationConfig": {"seed": 1, "maxOutputTokens": 7}
    }
    assert limited("generateContent", {"generationConfig": None}) == {"generationConfig": {"maxOutputTokens": 7}}


def test_usage_is_requested_only_in_chat_streams() -> None:
    api, chat = APIS["openai"], Endpoint(kind="generate", api="chat")
    asked: list[tuple[Body | None, bool]] = [
        (None, True),
        ({"include_usage": False, "a": 1}, True),
        ({"include_usage": True}, False),
    ]
    for given, adds in asked:
        body: Body = {} if given is None else {"stream_options": given}
        assert api.ask_for_usage(chat, body) == adds
        assert body == {"stream_options": {**(given or {}), "include_usage": True}}
    assert not any(
        APIS[name].ask_for_usage(Endpoint(kind="generate", api=kind), {})
        for name, kind in (("openai", "responses"), ("anthropic", "default"), ("gemini", "default"))
    )


def test_ids_in_a_response_can_be_referenced_later() -> None:
    api = APIS["openai"]
    response = {"id": "resp", "output": [{"id": "msg"}, {"id": 3}, {}], "choices": []}
    assert list(api.stored_ids(Endpoint(kind="generate", api="responses"), response)) == ["resp", "msg"]
    choices = [{"message": {"audio": {"id": "audio"}}}, {"message": {"audio": None}}, {"message": "x"}, {}]
    assert list(api.stored_ids(Endpoint(kind="generate", api="chat"), {"id": "c", "choices": choices})) == ["audio"]
    assert not list(APIS["gemini"].stored_ids(Endpoint(kind="generate"), response))


def test_stored_data_passes_if_the_run_received_it() -> None:
    spoken: Body = {"messages": [{"role": "assistant", "audio": {"id": "a"}}]}
    reference: Body = {"input": [{"type": "item_reference", "id": "a"}]}
    without_type = {"input": [{"id": "a"}]}
    reasoning: Body = {"input": [{"type": "reasoning", "id": "a", "summary": []}]}
    previous: Body = {"input": "x", "previous_response_id": "a"}
    ways: list[dict[str, Any]] = [{"received": {"a"}}, {"provider_tools": True}]
    for name, body in (("chat", spoken), ("responses", reference), ("responses", reasoning), ("responses", previous)):
        for options in ways:
            made, admission = admit(name, body, **options)
            assert made == body and admission.stored
        with pytest.raises(Refusal, match="received no answer with id 'a'"):
            admit(name, body, received={"b"})
    with pytest.raises(Refusal, match="received no answer with id 'a'"):
        admit("responses", without_type)
    for name in ("content", "encrypted_content", "arguments", "output", "input", "action", "operation", "result",
        "tools"):  # fmt: skip
        whole = {
            "input": [
                {"type": "reasoning", "id": "a", name: "x" if name != "tools" else None, "encrypted_content": "x"}
            ]
        }
        assert not admit("responses", whole)[1].stored
    empty = admit("responses", {"input": "x", "previous_response_id": ""})
    assert empty[0] == {"input": "x"} and not empty[1].stored
    emptied = {"input": [{"type": "additional_tools", "tools": [SEARCH]}, {"type": "additional_tools", "tools": []}]}
    assert admit("responses", emptied)[0]["input"] == [{"type": "additional_tools", "tools": []}]


KEPT: dict[str, list[str]] = {
    "chat": ["prompt", "conversation", "previous_response_id"],
    "responses": ["prompt", "conversation"],
    "generateContent": ["cachedContent"],
}
REFUSED: dict[str, list[str]] = {
    "chat": ["best_of", "background", "background_options", "models", "fallbacks", "route", "preset", "user_config",
        "provider"],
    "embeddings": ["models", "fallbacks", "route", "preset", "user_config", "provider"],
    "messages": ["fallbacks", "models", "thread"],
}  # fmt: skip
WITHHELD: dict[str, dict[str, str]] = {
    "chat": {
        "web_search_options": "web search",
        "search_parameters": "live search",
        "search_settings": "web search",
        "plugins": "plugins",
        "data_sources": "data sources",
        "enable_search": "web search",
        "search_options": "web search",
        "web_search": "web search",
        "mcp_servers": "MCP",
        **dict.fromkeys(("api_base", "base_url", "api_key"), "another server"),
    },
    "messages": {"mcp_servers": "mcp", "container": "container"},
}


@pytest.mark.parametrize(("name", "field"), [(name, field) for name, own in KEPT.items() for field in own])
def test_data_stored_by_the_provider_needs_its_tools(name: str, field: str) -> None:
    body = {**EMPTY[name], field: "x"}
    with pytest.raises(Refusal, match=f"{field}: .*(stored (by|prompts)|not supported)"):
        admit(name, body)
    made, admission = admit(name, body, provider_tools=True)
    assert made == body and admission.stored


@pytest.mark.parametrize(("name", "field"), [(name, field) for name, own in REFUSED.items() for field in own])
def test_forbidden_requests_are_rejected_with_a_reason(name: str, field: str) -> None:
    ways: list[dict[str, Any]] = [{}, {"provider_tools": True}]
    for options in ways:
        with pytest.raises(Refusal, match=rf"{field}: \w+ .*\w+ \w+"):
            admit(name, {**EMPTY[name], field: "x"}, **options)
    assert admit(name, {**EMPTY[name], field: "x"}, fields={field})[0] == {**EMPTY[name], field: "x"}


@pytest.mark.parametrize(("name", "field"), [(name, field) for name, own in WITHHELD.items() for field in own])
def test_features_that_reach_other_hosts_are_withheld_by_name(name: str, field: str) -> None:
    made, admission = admit(name, {**EMPTY[name], field: {"a": 1}})
    assert made == EMPTY[name] and admission.withheld == [WITHHELD[name][field]]
    made, admission = admit(name, {**EMPTY[name], field: {"a": 1}}, provider_tools=True)
    assert made[field] == {"a": 1} and admission.unbounded


def test_openai_clients_cannot_request_google_extras() -> None:
    places_of_it: list[Body] = [
        {"extra_body": {"google": {"tools": [1], "cached_content": "secret"}}},
        {"google": {"tools": [1]}},
    ]
    for place in places_of_it:
        made, admission = admit("chat", {"messages": [], **place})
        assert "secret" not in str(made) and "1" not in str(made)
        assert "Google tools" in admission.withheld
        assert ("cached content" in admission.withheld) == ("extra_body" in place)


EMPTY: dict[str, Body] = {
    "chat": {"messages": []},
    "responses": {"input": "x"},
    "embeddings": {"input": "x"},
    "messages": {"messages": []},
    "generateContent": {"contents": []},
}
BY_ADDRESS: list[tuple[str, Body]] = [
    ("chat", {"messages": [{"content": [{"type": "file", "file": {"file_id": "f", "file_data": "data:,x"}}]}]}),
    *(("responses", {"input": [{"role": "user", "content": [{"type": "input_file", field: "https://example.org"}]}]})
      for field in ("file_id", "file_url", "file_data")),
    *(("responses", {"input": [{"role": "user", "content": [{"type": kind, field: "https://example.org"}]}]})
      for kind in ("input_image", "computer_screenshot") for field in ("image_url", "file_id")),
    *(("messages", {"messages": [{"content": [{"type": part, "source": {"type": kind, kind: "x"}}]}]})
      for part in ("image", "document") for kind in ("url", "file")),
    ("generateContent", {"contents": {"parts": {"fileData": {"fileUri": "gs://x"}}}}),
    ("generateContent", {"contents": {"parts": {"functionResponse": {"parts": [{"fileData": {"fileUri": "gs://x"}}]}}}}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "body"), BY_ADDRESS)
def test_media_given_by_url_need_the_providers_tools(name: str, body: Body) -> None:
    with pytest.raises(Refusal, match=re.escape(INLINE)) as caught:
        admit(name, body)
    assert "of type" not in str(caught.value), "the type is known"
    made, admission = admit(name, body, provider_tools=True)
    assert made == body and admission.unbounded


def test_anthropics_features_pass_by_name_and_date() -> None:
    api = APIS["anthropic"]
    dated = [f"{name}-2025-01-31" for name in (
        "interleaved-thinking", "dev-full-thinking", "context-1m", "context-management", "prompt-caching",
        "prompt-caching-scope", "extended-cache-ttl", "token-efficient-tools", "fine-grained-tool-streaming",
        "output-128k", "output-300k", "effort", "structured-outputs", "advanced-tool-use", "tool-search-tool",
        "tool-examples", "computer-use", "model-context-window-exceeded", "max-tokens-3-5-sonnet", "pdfs",
        "token-counting", "thinking-token-count", "thinking-display-updates", "redact-thinking", "task-budgets",
        "mid-conversation-system")]  # fmt: skip
    known = [*dated, "claude-code-20250219"]
    tools = [f"{name}-2025-01-31" for name in ("web-search", "web-fetch", "code-execution", "mcp-client", "files-api",
        "skills")]  # fmt: skip
    other = ["fast-mode-2026-02-01", "claude-code-2025021", "effort", "effort-2025-01-31x"]
    given = " , ".join([*known, *tools, *other, ""])
    assert api.betas(given, provider_tools=False) == (",".join(known), [*tools, *other])
    assert api.betas(given, provider_tools=True) == (",".join([*known, *tools]), other)


def test_anthropic_context_edits_pass_except_model_summaries() -> None:
    edits = [{"type": "compact_20260112", "instructions": "x"}, {"type": "clear_thinking_20251015"}]
    made, admission = admit("messages", {"messages": [], "context_management": {"edits": edits}})
    assert made["context_management"] == {"edits": edits[1:]}
    assert admission.dropped == ["context_management.compact_20260112"]


def test_gemini_requests_must_use_the_model_in_the_path_and_a_known_part() -> None:
    for model in ("gemini-x", "models/gemini-x"):
        assert admit("generateContent", {"contents": [], "model": model})[0]["model"] == model
    for model in ("gemini-y", "tunedModels/gemini-x", "models/models/gemini-x"):
        with pytest.raises(Refusal, match="must be the model in the path, 'gemini-x'"):
            admit("generateContent", {"contents": [], "model": model})
    with pytest.raises(Refusal, match="has none of the allowed fields, only 'hologram'"):
        admit("generateContent", {"contents": {"parts": {"hologram": "x"}}})
    assert admit("generateContent", {"contents": {"parts": {}}})[0] == {"contents": {"parts": {}}}
    assert admit("generateContent", {"contents": [], "tools": {"functionDeclarations": []}})[0]["tools"] == [
        {"functionDeclarations": []}
    ]
    assert admit("generateContent", {"contents": [], "tools": [{"function_declarations": []}]})[0]["tools"] == [
        {"functionDeclarations": []}
    ]
    lower = {"contents": [], "generationConfig": {"responseModalities": ["text", "image"]}}
    assert admit("generateContent", lower)[0]["generationConfig"]["responseModalities"] == ["TEXT", "IMAGE"]
    assert admit("embedContent", {"requests": [EMBED]})[0] == {"requests": [EMBED]}
    with pytest.raises(Refusal, match="needs 'content'"):
        admit("embedContent", {"requests": [{}]})


@pytest.mark.parametrize("with_schema", [True, False])
def test_the_harness_asks_questions_in_the_format_of_each_api(with_schema: bool) -> None:
    question = Question(
        model="m", system="s", user="u", schema=SCHEMA, max_tokens=9, output_limit="limit", with_schema=with_schema
    )
    form = {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": SCHEMA}}
    told = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    path, body = APIS["openai"].question(question)
    assert path == "/v1/chat/completions"
    assert body == {"model": "m", "messages": told, "limit": 9, **({"response_format": form} if with_schema else {})}
    path, body = APIS["anthropic"].question(question)
    assert path == "/v1/messages" and body["tool_choice"] == {"type": "tool", "name": "answer"}
    assert body["tools"][0]["name"] == "answer" and body["tools"][0]["input_schema"] == SCHEMA
    assert (body["model"], body["max_tokens"], body["system"], body["messages"]) == ("m", 9, "s", told[1:])
    path, body = APIS["gemini"].question(question)
    assert path == "/v1beta/models/m:generateContent"
    assert body == {
        "systemInstruction": {"parts": [{"text": "s"}]},
        "contents": [{"role": "user", "parts": [{"text": "u"}]}],
        "generationConfig": {"responseMimeType": "application/json", "maxOutputTokens": 9},
    }


EXCHANGES: dict[str, tuple[Body, Body]] = {
    "openai": (
        {"messages": [{"role": "user", "content": "u"}]},
        {"choices": [{"message": {"role": "assistant", "content": "a"}}]},
    ),
    "anthropic": (
        {"messages": [{"role": "user", "content": "u"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "a"}]},
    ),
    "gemini": (
        {"contents": [{"role": "user", "parts": [{"text": "u"}]}]},
        {"candidates": [{"content": {"parts": [{"text": "a"}]}}]},
    ),
}


@pytest.mark.parametrize("api", EXCHANGES)
def test_requests_and_responses_are_read_in_the_format_of_each_api(api: str) -> None:
    request, answer = EXCHANGES[api]
    said = APIS[api].said("/v1/chat/completions", request, answer)
    assert [(message.role, message.text) for message in said.messages] == [("user", "u")]
    assert said.answer is not None and said.answer.text == "a"
    assert isinstance(APIS[api].stream(Endpoint(kind="generate", api="chat")), StreamReader)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("messages", {"type": "image", "source": {"type": "x"}}),
        ("messages", {"type": "document", "source": {"type": "x"}}),
        ("messages", {"type": "tool_result", "content": [{"type": "x"}]}),
        ("messages", {"type": "x"}),
        ("chat", {"type": "x"}),
    ],
)
def test_a_part_of_an_unknown_type_is_rejected_with_its_kind_and_type(name: str, part: Body) -> None:
    with pytest.raises(Refusal, match=r"(the source of )?an? \w+( \w+)* of type 'x' is not passed on"):
        admit(name, {"messages": [{"role": "user", "content": [part]}]})


@pytest.mark.parametrize("name", ["chat", "responses"])
def test_a_tool_is_noted_with_at_most_64_characters_of_its_type(name: str) -> None:
    admission = admit(name, {**EMPTY[name], "tools": [{"type": "x" * 80}]})[1]
    assert admission.withheld == ["x" * 64]


def test_the_responses_api_is_read_in_its_format() -> None:
    request = {"input": [{"role": "user", "content": "u"}, {"type": "item_reference", "id": "x"}, {"id": "y"}]}
    answer = {
        "id": "r",
        "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]}],
    }
    said = APIS["openai"].said("/v1/responses/", request, answer)
    assert (said.messages[0].role, said.messages[0].text) == ("user", "u")
    assert said.answer is not None and (said.answer.text, said.id) == ("a", "r")
