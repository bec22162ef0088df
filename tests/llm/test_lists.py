"""The allow-lists of the three APIs: all that they name passes as it is, of the right type alone."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any

import pytest

from pytest_mlebench.llm.api import Endpoint, Expected
from pytest_mlebench.llm.providers import APIS
from pytest_mlebench.llm.requests import INLINE, Admission, Refusal

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
    """What is expected of a request that has passed."""
    api, path, _ = WHOLE[name]
    endpoint = APIS[api].endpoint("POST", path)
    assert endpoint is not None
    made, admission = admit(name, body, **options)
    return APIS[api].expected(endpoint, made, size, admission)


def limited(name: str, body: Body, limit_name: str = "max_tokens", **options: Any) -> Body | None:
    """A request after the length of its answer was limited to 7; None where it is not."""
    api, path, _ = WHOLE[name]
    endpoint = APIS[api].endpoint("POST", path)
    assert endpoint is not None
    made = copy.deepcopy(body)
    return made if APIS[api].limit_output(endpoint, made, 7, limit_name, Admission(**options)) else None


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where a value has others within it, at any depth."""
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*path, key)
        yield from places(item, (*path, key))


def put(body: Body, path: tuple[Any, ...], value: Any) -> Body:
    made = within = copy.deepcopy(body)
    for key in path[:-1]:
        within = within[key]
    within[path[-1]] = value
    return made


@REQUESTS
def test_all_that_a_list_names_passes_as_it_is(name: str) -> None:
    body = WHOLE[name][2]
    made, admission = admit(name, body)
    assert made == body
    assert not (admission.dropped or admission.withheld or admission.unbounded or admission.stored)


FREE = {"parameters", "output_schema", "schema", "input_schema", "response", "args", "partMetadata", "action", "actions",
    "operation", "annotations", "logprobs", "pending_safety_checks", "acknowledged_safety_checks", "responseSchema",
    "responseJsonSchema", "parametersJsonSchema", "input_examples", "citations"}  # fmt: skip
"""What is within these is the agent's own."""


@REQUESTS
def test_a_value_of_another_type_is_refused_wherever_it_is(name: str) -> None:
    body = WHOLE[name][2]
    for path in places(body):
        if not (path[-1] in ("type", "environment", "local", "a") or FREE & set(map(str, path))):
            with pytest.raises(Refusal):
                print(path, admit(name, put(body, path, [[None]]))[1])


@REQUESTS
def test_a_null_is_no_value(name: str) -> None:
    body = WHOLE[name][2]
    for key in body:
        if key in ("input", "messages", "contents") and name != "countTokens":
            with pytest.raises(Refusal, match=f"needs '{key}'"):
                admit(name, {**body, key: None})
        else:
            assert admit(name, {**body, key: None})[0] == {**body, key: None}
