"""What a request may contain: an attack is rejected, or reaches the provider without its harmful part."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from pytest_mlebench.errors import UsageError
from pytest_mlebench.llm.budget import BudgetLimits
from pytest_mlebench.llm.gateway import Gateway
from pytest_mlebench.llm.ledger import read_calls
from pytest_mlebench.llm.prices import Prices
from pytest_mlebench.llm.providers import load_providers
from tests.llm.conftest import Start
from tests.llm.talking import CHAT, QUESTION, ask, head, send
from tests.llm.upstreams import Upstream

pytestmark = pytest.mark.full

RESPONSES = "/openai/v1/responses"
EMBEDDINGS = "/openai/v1/embeddings"
MESSAGES = "/anthropic/v1/messages"
GENERATE = "/gemini/v1beta/models/gemini-2.5-pro:generateContent"
EMBED = "/gemini/v1beta/models/gemini-embedding-001:batchEmbedContents"
COUNT = "/gemini/v1beta/models/gemini-2.5-pro:countTokens"
OPENROUTER = "/openrouter/v1/chat/completions"
REQUESTS = Path(__file__).parent / "requests"
CONFIG = "generationConfig"


def _said(content: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": content}]}


def _parts(*parts: Any) -> dict[str, Any]:
    return {"contents": [{"role": "user", "parts": list(parts)}]}


def question(path: str) -> dict[str, Any]:
    if path.startswith("/gemini"):
        return {"contents": [{"role": "user", "parts": [{"text": "Which model first?"}]}]}
    if path == MESSAGES:
        return {"model": "claude-sonnet-4-6", "max_tokens": 50, **_said("Which?")}
    if path == RESPONSES:
        return {"model": "gpt-5", "input": [{"role": "user", "content": "Which?"}]}
    if path == EMBEDDINGS:
        return {"model": "text-embedding-3-small", "input": "Which?"}
    if path == OPENROUTER:
        return {"model": "openai/gpt-4o-mini", **_said("Which?")}
    return json.loads(json.dumps(QUESTION))  # type: ignore[no-any-return]


@pytest.fixture(autouse=True)
def _openrouter(upstream: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENROUTER_BASE_URL", f"{upstream.url}/v1")
    monkeypatch.setenv("OPENROUTER_API_KEY", "sk-or-" + "v" * 30)


ITEM = {"type": "function_call_output", "call_id": "c"}
VIDEO = {"type": "video", "video": ["http://example.org/x.mp4"]}
ADDITION = {"type": "tool_addition", "tool": {"type": "web_search_20250305", "name": "w"}}
URL = {"type": "url", "url": "https://example.org/x"}
ATTACKS: list[tuple[str, dict[str, Any]]] = [
    # Additional models, and the choice among them.
    (OPENROUTER, {"models": ["openai/gpt-4o-mini", "openai/o1-pro"]}),
    (OPENROUTER, {"models": "openai/o1-pro"}),
    (OPENROUTER, {"route": "fallback"}),
    (OPENROUTER, {"provider": {"order": ["azure"], "max_price": {"prompt": 1000}}}),
    (OPENROUTER, {"preset": "dear"}),
    (OPENROUTER, {"model": "openrouter/auto"}),
    (OPENROUTER, {"model": "openai/gpt-4o:nitro"}),
    (OPENROUTER, {"model": "openai/gpt-4o:online"}),
    (OPENROUTER, {"model": "openai/gpt-4o-online"}),
    (OPENROUTER, {"model": "openai/gpt-4o:free:online"}),
    (OPENROUTER, {"model": "openai/gpt-4o@preset/web"}),
    (OPENROUTER, {"model": "@preset/web"}),
    (CHAT, {"model": "gpt-4o-mini,gpt-4o"}),
    (CHAT, {"model": "gpt-4o-mini gpt-4o"}),
    (CHAT, {"model": "../gpt-4o"}),
    (CHAT, {"model": "gpt-4o\n"}),
    (CHAT, {"model": "gpt-4o\u0000-mini"}),
    (CHAT, {"model": "gpt-4\u043e"}),
    (CHAT, {"model": "https://example.org/v1"}),
    (CHAT, {"model": {"id": "gpt-4o"}}),
    (CHAT, {"fallbacks": [{"model": "o1-pro"}]}),
    (CHAT, {"user_config": {"model_list": [{"litellm_params": {"api_base": "http://example.org"}}]}}),
    (MESSAGES, {"model": "claude-sonnet-4-6,claude-opus-4-6"}),
    (MESSAGES, {"model": "claude/../../opus"}),
    (MESSAGES, {"fallbacks": [{"model": "claude-opus-4-6"}]}),
    (GENERATE, {"model": "models/gemini-3-pro"}),
    (EMBED, {"requests": [{"model": "models/gemini-2.5-pro", "content": {"parts": [{"text": "x"}]}}]}),
    (COUNT, {"generateContentRequest": {**question(GENERATE), "model": "models/other"}}),
    # Two spellings of a field.
    (GENERATE, {CONFIG: {"maxOutputTokens": 10}, "generation_config": {"maxOutputTokens": 60000}}),
    (GENERATE, {CONFIG: {"maxOutputTokens": 10, "max_output_tokens": 60000}}),
    (GENERATE, {CONFIG: {"candidateCount": 1, "candidate_count": 8}}),
    (GENERATE, {"cachedContent": "", "cached_content": "cachedContents/1"}),
    (GENERATE, {"cached_content": "cachedContents/1", "cachedContent": None}),
    (
        GENERATE,
        {
            "systemInstruction": {"parts": [{"text": "x"}]},
            "system_instruction": {"parts": [{"fileData": {"fileUri": "https://example.org"}}]},
        },
    ),
    (GENERATE, _parts({"inlineData": {"mimeType": "image/png", "mime_type": "video/mp4", "data": "AAAA"}})),
    (GENERATE, {"GenerationConfig": {"maxOutputTokens": 60000}}),
    (GENERATE, {CONFIG: {"MaxOutputTokens": 60000}}),
    (GENERATE, {CONFIG: {"max-output-tokens": 60000}}),
    (CHAT, {"Max_Tokens": 1}),
    (CHAT, {"maxTokens": 1}),
    (CHAT, {"\uff4e": 20}),
    (CHAT, {"n ": 20}),
    (CHAT, {"m\u043edel": "o1-pro"}),
    (CHAT, {"model\u200b": "o1-pro"}),
    (MESSAGES, {"maxTokens": 10000}),
    (MESSAGES, {"MODEL": "claude-opus-4-6"}),
    (RESPONSES, {"MaxOutputTokens": 10}),
    # Other types.
    (CHAT, {"n": "20"}),
    (CHAT, {"n": 20.0}),
    (CHAT, {"n": True}),
    (CHAT, {"n": [20]}),
    (CHAT, {"n": -1}),
    (CHAT, {"n": 10**200}),
    (CHAT, {"best_of": 20}),
    (CHAT, {"max_tokens": "100000"}),
    (CHAT, {"max_tokens": 1e5}),
    (CHAT, {"max_completion_tokens": {"$gt": 1}}),
    (CHAT, {"stream": "true"}),
    (CHAT, {"stream": 1}),
    (CHAT, {"messages": {"role": "user", "content": "x"}}),
    (CHAT, {"messages": None}),
    (CHAT, {"stream_options": [{"include_usage": False}]}),
    (CHAT, {"tools": {"type": "web_search"}}),
    (CHAT, {"modalities": "audio"}),
    (CHAT, {"modalities": ["video"]}),
    (CHAT, {"service_tier": ["priority"]}),
    (MESSAGES, {"max_tokens": "50"}),
    (MESSAGES, {"max_tokens": 50.5}),
    (MESSAGES, {"tools": "web_search"}),
    (MESSAGES, {"thinking": {"type": "enabled", "budget_tokens": "60000"}}),
    (RESPONSES, {"max_output_tokens": True}),
    (RESPONSES, {"input": {"role": "user", "content": "x"}}),
    (GENERATE, {CONFIG: {"candidateCount": "8"}}),
    (GENERATE, {CONFIG: {"candidateCount": 8.0}}),
    (GENERATE, {CONFIG: {"maxOutputTokens": "60000"}}),
    (GENERATE, {CONFIG: [{"maxOutputTokens": 60000}]}),
    (GENERATE, {CONFIG: {"responseModalities": "AUDIO"}}),
    (GENERATE, {CONFIG: {"responseModalities": [2]}}),
    (GENERATE, {CONFIG: {"responseModalities": ["VIDEO"]}}),
    # Data stored by the provider.
    (GENERATE, {"cachedContent": "cachedContents/1"}),
    (GENERATE, {"cachedContent": ["cachedContents/1"]}),
    (COUNT, {"generateContentRequest": {**question(GENERATE), "cached_content": "cachedContents/1"}}),
    (CHAT, {"conversation": "conv_1"}),
    (MESSAGES, {"thread": {"id": "thread_1"}}),
    (RESPONSES, {"input": [{"type": "item_reference", "id": "msg_1"}]}),
    (RESPONSES, {"input": [{"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}]}),
    (RESPONSES, {"input": [{"type": "compaction_trigger"}]}),
    (RESPONSES, {"input": [{"type": "configuration_update", "reasoning": {"mode": "pro"}}]}),
    # Media given by a URL or file ID.
    (CHAT, _said([VIDEO])),
    (CHAT, _said([{"type": "image_url", "image_url": ["https://example.org/x"]}])),
    (CHAT, _said([{"type": "image_url", "image_url": {"url": "\thttps://example.org/x"}}])),
    (CHAT, _said([{"type": "file", "file": {"file_id": "file-1", "file_data": "data:text/plain;base64,QQ=="}}])),
    (CHAT, _said([{"type": "input_audio", "input_audio": {"data": "https://example.org/x.wav", "format": "wav"}}])),
    (CHAT, _said([{"type": ["text"], "text": "x"}])),
    (CHAT, _said([{"image": "https://example.org/x"}])),
    (CHAT, _said({"type": "video_url", "video_url": "gs://x"})),
    (CHAT, {"messages": [{"role": "assistant", "audio": {"id": "audio_1"}, "content": "x"}]}),
    (RESPONSES, {"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "file-1"}]}]}),
    (RESPONSES, {"input": [{**ITEM, "output": [{"type": "input_file", "file_url": "https://example.org"}]}]}),
    (RESPONSES, {"input": [{**ITEM, "output": [{"type": "input_image", "image_url": "https://example.org"}]}]}),
    (MESSAGES, _said([{"type": "document", "source": URL}])),
    (MESSAGES, _said([{"type": "document", "source": {"type": "base64", "data": "https://example.org/x.pdf"}}])),
    (MESSAGES, _said([{"type": "document", "source": {"type": "content", "content": [VIDEO]}}])),
    (MESSAGES, {"system": [{"type": "image", "source": URL}]}),
    (MESSAGES, _said([ADDITION])),
    (GENERATE, _parts({"video": ["http://example.org/x"]})),
    (GENERATE, _parts({"text": "x", "file_data": {"file_uri": "gs://bucket/x"}})),
    (GENERATE, _parts({"inlineData": {"mimeType": "image/png", "data": "https://example.org/x.png"}})),
    (
        GENERATE,
        _parts(
            {
                "functionResponse": {
                    "name": "f",
                    "response": {},
                    "parts": [{"fileData": {"fileUri": "https://example.org"}}],
                }
            }
        ),
    ),
    (GENERATE, {"contents": [{"parts": {"fileData": {"fileUri": "https://example.org"}}}]}),
    (GENERATE, {"systemInstruction": {"parts": [{"file_data": {"file_uri": "https://example.org"}}]}}),
]


@pytest.mark.parametrize(("path", "body"), ATTACKS)
def test_a_request_that_selects_more_than_allowed_is_rejected(
    path: str, body: dict[str, Any], gateway: Gateway, upstream: Upstream
) -> None:
    answer = ask(gateway, {**question(path), **body}, path=path)
    assert 400 <= answer.status < 500, answer.content
    assert len(answer.message) > 15
    assert upstream.seen == []


@pytest.mark.parametrize(
    "body",
    [
        b'{"model": "gpt-4o", "\\u006dodel": "o1-pro", "messages": []}',
        b'{"model": "gpt-4o", "messages": [], "temperature": 1e999}',
        b'{"model": "gpt-4o", "messages": [], "temperature": Infinity}',
        b'{"model": "gpt-4o", "messages": [], "metadata": {"a": "1", "a": "2"}}',
        b'{"model": "gpt-4o", "messages": [], "n": 1, "n": 20}',
        b'{"model": "gpt-4o", "messages": [], "n": ' + b"9" * 400 + b"}",
        b'{"model": "gpt-4o", "messages": [], /* "n": 1 */ "n": 20}',
        b'{"model": "gpt-4o", "messages": [],}',
        b"{'model': 'gpt-4o', 'messages': []}",
    ],
)
def test_ambiguous_json_is_rejected(body: bytes, gateway: Gateway, upstream: Upstream) -> None:
    assert ask(gateway, body).status == 400
    assert upstream.seen == []


DROPPED: list[tuple[str, dict[str, Any]]] = [
    (CHAT, {"a_field_of_next_year": {"deep": [1]}}),
    (CHAT, {"router_settings": {"fallbacks": ["o1-pro"]}, "litellm_params": {"api_base": "http://example.org"}}),
    (OPENROUTER, {"transforms": ["middle-out"]}),
    (CHAT, {"prediction": {"type": "content", "content": "x" * 1000}}),
    (CHAT, {"extra_headers": {"X-Override": "1"}, "extra_query": {"model": "o1-pro"}}),
    (CHAT, {"deployment_id": "dear", "engine": "dear", "custom_llm_provider": "azure"}),
    (CHAT, {"mock_response": "x", "num_retries": 50, "context_window_fallback_dict": {"gpt-4o": "o1-pro"}}),
    (CHAT, {"vertex_credentials": "{}", "aws_region_name": "x", "guardrails": ["x"]}),
    (RESPONSES, {"image": {"model": "gpt-image-1"}, "context_management": [{"type": "compaction"}]}),
    (RESPONSES, {"best_of_next_year": 5, "access_programs": ["x"]}),
    (MESSAGES, {"compaction": {"type": "auto"}, "fallback_credit_token": "x", "billing_policy": "x"}),
    (MESSAGES, {"workspace_id": "w", "user_profile_id": "u", "betas": ["files-api-2025-04-14"]}),
    (
        GENERATE,
        {"dynamicRetrievalConfig": {}, "modelSelectionConfig": {"x": 1}, "httpOptions": {"baseUrl": "http://x"}},
    ),
    (GENERATE, {"asyncFunction": True, "webhookConfig": {"uris": ["http://example.org"]}}),
]


@pytest.mark.parametrize(("path", "body"), DROPPED)
def test_an_unlisted_field_is_dropped_and_noted(
    path: str, body: dict[str, Any], gateway: Gateway, upstream: Upstream, run_dir: Path
) -> None:
    """Newer clients still work; the feature that the field selects is not requested."""
    assert ask(gateway, {**question(path), **body}, path=path).status == 200
    assert upstream.seen[0].body == question(path)
    (call,) = read_calls(run_dir)
    assert set(call["dropped"]) == set(body)
    assert set(gateway.totals.to_json()["dropped"]) == set(body)


NESTED: list[tuple[str, dict[str, Any], str, Callable[[Any], Any]]] = [
    (CHAT, {"messages": [{"role": "user", "content": "x", "new": 1}]}, "messages.new", lambda b: b["messages"][0]),
    (
        CHAT,
        {"tools": [{"type": "function", "function": {"name": "f", "url": "http://example.org"}}]},
        "tools.function.url",
        lambda b: b["tools"][0]["function"],
    ),
    (CHAT, {"reasoning": {"effort": "low", "model": "o1-pro"}}, "reasoning.model", lambda b: b["reasoning"]),
    (RESPONSES, {"reasoning": {"effort": "low", "mode": "pro"}}, "reasoning.mode", lambda b: b["reasoning"]),
    (
        RESPONSES,
        {"include": ["reasoning.encrypted_content", "web_search_call.results"]},
        "include.web_search_call.results",
        lambda b: b["include"],
    ),
    (
        MESSAGES,
        {"context_management": {"edits": [{"type": "compact_20260112"}]}},
        "context_management.compact_20260112",
        lambda b: b["context_management"]["edits"],
    ),
    (
        MESSAGES,
        {"tools": [{"name": "f", "input_schema": {}, "allowed_callers": ["code_execution_20250825"]}]},
        "tools.allowed_callers",
        lambda b: b["tools"][0],
    ),
    (MESSAGES, {"metadata": {"user_id": "u", "plan": "max"}}, "metadata.plan", lambda b: b["metadata"]),
    (
        GENERATE,
        {CONFIG: {"temperature": 1, "routingConfig": {"autoMode": {}}, "model_config": {}}},
        f"{CONFIG}.routingConfig",
        lambda b: b[CONFIG],
    ),
    (
        GENERATE,
        {"toolConfig": {"retrievalConfig": {"latLng": {}}, "includeServerSideToolInvocations": True}},
        "toolConfig.retrievalConfig",
        lambda b: b["toolConfig"],
    ),
]


@pytest.mark.parametrize(("path", "body", "name", "level"), NESTED)
def test_a_nested_unlisted_field_is_dropped_and_noted(
    path: str,
    body: dict[str, Any],
    name: str,
    level: Callable[[Any], Any],
    gateway: Gateway,
    upstream: Upstream,
    run_dir: Path,
) -> None:
    assert ask(gateway, {**question(path), **body}, path=path).status == 200
    assert name in read_calls(run_dir)[0]["dropped"]
    sent = level(upstream.seen[0].body)
    assert name.rpartition(".")[2] not in sent and name.removeprefix("include.") not in sent


@pytest.mark.parametrize(
    "type",
    [
        "application/json; charset=utf-7",
        "application/json; charset=utf-16",
        "application/json; charset=utf-8; charset=utf-7",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "text/plain",
        "application/jsonp",
        "application/json, text/plain",
        "application/x-ndjson",
        "application/json; profile=x",
    ],
)
def test_a_body_of_another_type_is_rejected(type: str, gateway: Gateway, upstream: Upstream) -> None:
    assert ask(gateway, headers={"Content-Type": type}).status == 415
    assert upstream.seen == []


@pytest.mark.parametrize(
    "type", ["application/json", "application/json; charset=utf-8", "Application/JSON;charset=UTF-8"]
)
def test_json_is_forwarded_as_json(type: str, gateway: Gateway, upstream: Upstream) -> None:
    assert ask(gateway, headers={"Content-Type": type}).status == 200
    assert upstream.seen[0].headers["Content-Type"] == "application/json"


@pytest.mark.parametrize(
    "lines",
    [
        ["Content-Type: text/plain"],
        ["Content-Encoding: gzip"],
        ["Content-Encoding: identity", "Content-Encoding: gzip"],
        ["Content-Encoding: identity, gzip"],
    ],
)
def test_headers_that_redefine_the_body_are_rejected(lines: list[str], gateway: Gateway, upstream: Upstream) -> None:
    body = json.dumps(QUESTION).encode()
    answer = send(gateway, head(gateway, *lines, f"Content-Length: {len(body)}") + body)
    assert answer.split()[1] in (b"400", b"415")
    assert upstream.seen == []


HEADERS = {
    "OpenAI-Organization": "org-other",
    "OpenAI-Project": "proj-other",
    "OpenAI-Beta": "assistants=v2",
    "Helicone-Target-URL": "http://example.org",
    "Helicone-Auth": "x",
    "x-portkey-custom-host": "http://example.org",
    "x-portkey-config": "{}",
    "X-HTTP-Method-Override": "DELETE",
    "X-LiteLLM-Tags": "dear",
    "cf-aig-backup-provider": "x",
    "X-Title": "x",
    "HTTP-Referer": "http://example.org",
    "Idempotency-Key": "the same as another run's",
    "anthropic-workspace-id": "w",
    "X-Goog-FieldMask": "candidates",
    "X-Server-Timeout": "100000",
    "X-Vertex-AI-LLM-Request-Type": "dedicated",
    "x-ms-client-request-id": "x",
    "azureml-model-deployment": "dear",
    "Prefer": "respond-async",
    "Range": "bytes=0-1",
    "Cookie": "a=b",
    "User-Agent": "other",
}


@pytest.mark.parametrize("path", [CHAT, RESPONSES, MESSAGES, GENERATE])
def test_no_unlisted_header_reaches_the_provider(path: str, gateway: Gateway, upstream: Upstream) -> None:
    assert ask(gateway, question(path), path=path, headers=HEADERS).status == 200
    seen = {name.lower(): value for name, value in upstream.seen[0].headers.items()}
    own = {"host", "content-length", "content-type", "accept", "accept-encoding", "user-agent"}
    assert seen.keys() - own <= {"authorization", "x-api-key", "x-goog-api-key"}
    assert seen["user-agent"] == "pytest-mlebench"


def test_unlisted_features_are_removed_from_anthropics_header(
    gateway: Gateway, upstream: Upstream, run_dir: Path
) -> None:
    given = "context-1m-2025-08-07, files-api-2025-04-14,fast-mode-2026-02-01,server-side-fallback-2026-07-01"
    headers = {"anthropic-beta": given, "anthropic-version": "2023-06-01"}
    assert ask(gateway, question(MESSAGES), path=MESSAGES, headers=headers).status == 200
    seen = {name.lower(): value for name, value in upstream.seen[0].headers.items()}
    assert (seen["anthropic-beta"], seen["anthropic-version"]) == ("context-1m-2025-08-07", "2023-06-01")
    assert "anthropic-beta: fast-mode-2026-02-01" in read_calls(run_dir)[0]["dropped"]
    headers["anthropic-version"] = "2023-06-01, 2099-01-01"
    assert ask(gateway, question(MESSAGES), path=MESSAGES, headers=headers).status == 400


@pytest.mark.parametrize(
    ("path", "query"),
    [
        (CHAT, "model=o1-pro"),
        (CHAT, "api-version=x&deployment=dear"),
        (CHAT, "n=20"),
        (MESSAGES, "model=claude-opus-4-6"),
        (GENERATE, "$httpMethod=DELETE"),
        (GENERATE, "%24httpMethod=DELETE"),
        (GENERATE, "fields=usageMetadata"),
        (GENERATE, "access_token=x&oauth_token=y"),
        (GENERATE, "key=other"),
        (GENERATE, "callback=x&prettyPrint=false&upload_protocol=raw&quotaUser=x"),
        (GENERATE, "$.xgafv=1&$alt=proto"),
    ],
)
def test_no_unlisted_parameter_reaches_the_provider(
    path: str, query: str, gateway: Gateway, upstream: Upstream
) -> None:
    assert ask(gateway, question(path), path=f"{path}?{query}").status == 200
    assert upstream.seen[0].query == ""


@pytest.mark.parametrize(
    "path",
    [
        "/gemini/v1beta/models/gemini-2.5-pro:batchGenerateContent",
        "/gemini/v1beta/models/gemini-2.5-pro:predict",
        "/gemini/v1beta/models/gemini-2.5-pro:generateContent:streamGenerateContent",
        "/gemini/v1beta/models/gemini-2.5-pro,o1:generateContent",
        "/gemini/v1beta/models/../tunedModels/x:generateContent",
        "/gemini/v1beta/models/gemini-2.5-pro%3AgenerateContent",
        "/gemini/v1beta/tunedModels/x:generateContent",
        "/gemini/v1beta/interactions",
        "/openai/v1/completions",
        "/openai/v1/responses/compact",
        "/openai/v1/images/generations",
        "/openai/v1/realtime",
        "/anthropic/v1/complete",
        "/anthropic/v1/sessions",
    ],
)
def test_no_unlisted_path_passes(path: str, gateway: Gateway, upstream: Upstream) -> None:
    assert ask(gateway, question(CHAT), path=path).status == 404
    assert upstream.seen == []


def test_no_unlisted_response_header_reaches_the_agent(gateway: Gateway, upstream: Upstream) -> None:
    upstream.headers = {
        "openai-organization": "the-users-own",
        "x-ratelimit-remaining-requests": "7",
        "link": "<http://example.org>; rel=preload",
        "location": "http://example.org",
    }
    answer = ask(gateway)
    assert answer.headers["x-ratelimit-remaining-requests"] == "7"
    assert not answer.headers.keys() & {"openai-organization", "link", "location"}


@pytest.mark.parametrize("file", sorted(REQUESTS.glob("*.json")), ids=lambda file: file.stem)
def test_the_requests_of_real_clients_pass_unchanged(
    file: Path, gateway: Gateway, upstream: Upstream, run_dir: Path
) -> None:
    requests = json.loads(file.read_text(encoding="utf-8"))["requests"]
    for request in requests:
        provider = next((name for path, name in PROVIDERS.items() if request["path"].startswith(path)), "openai")
        answer = ask(gateway, request["body"], path=f"/{provider}{request['path']}", headers=request["headers"])
        assert answer.status == 200, answer.content
        seen = upstream.seen[-1]
        spelled = camel if provider == "gemini" else lambda value: value
        assert spelled(seen.body) == spelled(without(request["body"], request))
        beta = {name.lower(): value for name, value in seen.headers.items()}.get("anthropic-beta")
        assert beta == request["headers"].get("anthropic-beta")
    calls = read_calls(run_dir)
    assert [call["dropped"] for call in calls] == [request.get("dropped", []) for request in requests]
    assert [call["withheld"] for call in calls] == [request.get("withheld", []) for request in requests]


PROVIDERS = {"/v1/messages": "anthropic", "/v1beta": "gemini"}


def without(body: dict[str, Any], request: dict[str, Any]) -> dict[str, Any]:
    """A body without the fields and tools that the gateway removes."""
    dropped = {name.rpartition(".")[2] for name in request.get("dropped", ())}
    made = dict(body)
    if "messages" in made:
        made["messages"] = [
            {name: value for name, value in message.items() if name not in dropped} for message in made["messages"]
        ]
    if "tools" in made:
        made["tools"] = [tool for tool in made["tools"] if tool.get("type") not in request.get("withheld", ())]
    return made


def camel(value: Any) -> Any:
    """Convert all keys to the spelling of Gemini's documentation; its servers also accept snake case."""
    if isinstance(value, dict):
        return {re.sub("_([a-z])", lambda found: found[1].upper(), key): camel(item) for key, item in value.items()}
    return [camel(item) for item in value] if isinstance(value, list) else value


# Additions by users.

MINE = """
mine:
  flavour: openai
  base_url: {url}/v1
  fields: [guided_json, messages.weight, models]
  types: [video_url]
  paths: [POST /chat/completions/rerank, GET /responses/x]
  parameters: [priority]
  request_headers: [X-Team]
"""


def test_a_providers_file_extends_the_lists(start: Start, upstream: Upstream, tmp_path: Path) -> None:
    file = tmp_path / "providers.yaml"
    file.write_text(MINE.format(url=upstream.url))
    gateway = start(providers=load_providers(file))
    video = {"type": "video_url", "video_url": {"url": "data:video/mp4;base64,AAAA"}}
    body = {
        "model": "m",
        "guided_json": {"type": "object"},
        "messages": [{"role": "user", "content": [video], "weight": 1}],
    }
    path = "/mine/v1/chat/completions?priority=2&other=3"
    answer = ask(gateway, {**body, "guided_regex": "x"}, path=path, headers={"X-Team": "a", "X-Other": "b"})
    assert answer.status == 200, answer.content
    (seen,) = upstream.seen
    assert (seen.body, seen.query, seen.headers["X-Team"]) == (body, "priority=2", "a")
    assert "X-Other" not in seen.headers
    # The provider's own 404:
    assert ask(gateway, {"query": "x", "model": "m"}, path="/mine/v1/chat/completions/rerank").status == 404
    assert upstream.seen[1].body == {"query": "x", "model": "m"}
    assert ask(gateway, {}, path="/mine/v1/rerank").status == 404
    assert len(upstream.seen) == 2


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("fields: guided_json", "fields must be a list of fields of requests"),
        ("fields: ['a b']", "fields has 'a b'"),
        ("paths: [DELETE /files]", "paths has 'DELETE /files', must be a list of methods and paths"),
        ("paths: ['POST /../admin?x=1']", "paths has"),
        ("request_headers: [Authorization]", "request_headers may not contain authorization"),
        ("request_headers: ['X: y']", "request_headers has"),
        ("allow: [x]", "unknown keys allow; known: flavour, base_url"),
    ],
)
def test_a_mistake_in_a_providers_file_is_explained(line: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "providers.yaml"
    file.write_text(f"mine:\n  flavour: openai\n  base_url: http://localhost/v1\n  {line}\n")
    with pytest.raises(UsageError, match=said) as wrong:
        load_providers(file)
    assert f"{file}: provider mine" in str(wrong.value)


# Reservations.

MESSAGE = {"role": "user", "content": "Which?"}
IMAGES = "/gemini/v1beta/models/gemini-2.5-flash-image:generateContent"


def priced(tmp_path: Path, **dollars: float) -> Prices:
    """Prices in dollars per output token; input costs nothing."""
    file = tmp_path / "prices.yaml"
    rates = {
        name.replace("__", "/").replace("_", "-"): {"input": 0, "output": n * 10**6} for name, n in dollars.items()
    }
    file.write_text(json.dumps(rates))
    return Prices.load(file)


def with_budget(dollars: float, **settings: Any) -> dict[str, Any]:
    return {"limits": BudgetLimits(max_cost=Decimal(str(dollars))), **settings}


@pytest.mark.parametrize(("answers", "status"), [(1, 200), (5, 200), (6, 402)])
def test_the_cost_of_all_choices_of_a_request_is_reserved(
    answers: int, status: int, start: Start, upstream: Upstream, tmp_path: Path
) -> None:
    gateway = start(**with_budget(550, prices=priced(tmp_path, gpt_4o=1)))
    assert ask(gateway, {**QUESTION, "max_completion_tokens": 100, "n": answers}).status == status


@pytest.mark.parametrize(("answers", "status"), [(1, 200), (5, 200), (6, 403)])
def test_the_cost_of_all_gemini_candidates_is_reserved(
    answers: int, status: int, start: Start, upstream: Upstream, tmp_path: Path
) -> None:
    gateway = start(**with_budget(550, prices=priced(tmp_path, **{"gemini*": 1})))
    for spelling in ({CONFIG: {"maxOutputTokens": 100, "candidateCount": answers}},
                     {"generation_config": {"max_output_tokens": 100, "candidate_count": answers}}):  # fmt: skip
        assert ask(gateway, {**question(GENERATE), **spelling}, path=GENERATE).status == status


def test_the_most_expensive_possible_model_determines_the_reservation(
    start: Start, upstream: Upstream, tmp_path: Path
) -> None:
    file = tmp_path / "providers.yaml"
    file.write_text(MINE.format(url=upstream.url))
    prices = priced(tmp_path, cheap=0.01, dear=10)
    gateway = start(**with_budget(50, prices=prices, providers=load_providers(file), models=("cheap", "dear", "odd")))
    path, body = "/mine/v1/chat/completions", {"model": "cheap", "messages": [MESSAGE], "max_tokens": 10}
    assert ask(gateway, body, path=path).status == 200
    assert ask(gateway, {**body, "models": ["cheap"]}, path=path).status == 200
    assert upstream.seen[1].body["models"] == ["cheap"]
    assert ask(gateway, {**body, "models": ["cheap", "dear"]}, path=path).status == 402
    assert ask(gateway, {**body, "models": ["other"]}, path=path).status == 404
    assert "no known price" in ask(gateway, {**body, "models": ["odd"]}, path=path).message
    assert ask(gateway, {**body, "models": "dear"}, path=path).status == 400
    assert len(upstream.seen) == 2


UNKNOWN: list[tuple[str, dict[str, Any], str]] = [
    (CHAT, {"modalities": ["text", "audio"], "audio": {"voice": "alloy", "format": "wav"}}, "audio output"),
    (CHAT, {"audio": {"voice": "alloy", "format": "wav"}}, "audio output"),
    (GENERATE, {CONFIG: {"responseModalities": ["TEXT", "IMAGE"]}}, "image output"),
    (GENERATE, {"generation_config": {"response_modalities": ["audio"]}}, "audio output"),
    (IMAGES, {}, "image output"),
    (MESSAGES, {"speed": "fast"}, "speed 'fast'"),
    (MESSAGES, {"inference_geo": "us"}, "inference_geo 'us'"),
    (MESSAGES, {"service_tier": "priority"}, "service_tier 'priority'"),
    (CHAT, {"service_tier": "scale"}, "service_tier 'scale'"),
    (RESPONSES, {"service_tier": "new"}, "service_tier 'new'"),
    (GENERATE, {"service_tier": "priority"}, "service_tier 'priority'"),
]


@pytest.mark.parametrize(("path", "body", "said"), UNKNOWN)
def test_requests_without_a_known_price_are_rejected_under_a_dollar_budget(
    path: str, body: dict[str, Any], said: str, start: Start, upstream: Upstream
) -> None:
    asked = {**question(path), **body}
    answer = ask(start(**with_budget(100)), asked, path=path)
    assert answer.status == 400
    assert said in answer.message and "--prices" in answer.message
    assert upstream.seen == []
    assert ask(start("other"), asked, path=path).status == 200


@pytest.mark.parametrize(("tier", "status"), [("default", 200), ("auto", 200), ("flex", 200), ("priority", 402)])
def test_a_more_expensive_tier_raises_the_reservation(tier: str, status: int, start: Start, upstream: Upstream) -> None:
    body = {**question(RESPONSES), "max_output_tokens": 1000, "service_tier": tier}
    assert ask(start(**with_budget(0.0109)), body, path=RESPONSES).status == status


def test_models_in_the_users_prices_file_cost_that_price(start: Start, upstream: Upstream, tmp_path: Path) -> None:
    gateway = start(**with_budget(1000, prices=priced(tmp_path, gpt_4o=1)))
    assert ask(gateway, {**QUESTION, "max_tokens": 10, "service_tier": "new"}).status == 200


def test_a_path_added_by_the_user_has_no_known_price(start: Start, upstream: Upstream, tmp_path: Path) -> None:
    file = tmp_path / "providers.yaml"
    file.write_text(MINE.format(url=upstream.url))
    gateway = start(providers=load_providers(file), limits=BudgetLimits(max_calls=5))
    for method, path in (("POST", "/chat/completions/rerank"), ("GET", "/responses/x")):
        answer = ask(gateway, {"model": "m"}, method=method, path=f"/mine/v1{path}")
        assert answer.status == 400 and "a budget cannot be enforced" in answer.message
    assert upstream.seen == []


def test_a_limit_that_a_server_may_not_support_does_not_lower_the_reservation(
    start: Start, upstream: Upstream, tmp_path: Path
) -> None:
    file = tmp_path / "providers.yaml"
    file.write_text(MINE.format(url=upstream.url))
    gateway = start(**with_budget(50, prices=priced(tmp_path, cheap=1), providers=load_providers(file)))
    path, body = "/mine/v1/chat/completions", {"model": "cheap", "messages": [MESSAGE]}
    assert ask(gateway, {**body, "max_completion_tokens": 10}, path=path).status == 402
    assert ask(gateway, {**body, "max_tokens": 10}, path=path).status == 200
    other = start("other", **with_budget(5000, prices=priced(tmp_path, cheap=1), providers=load_providers(file)))
    assert ask(other, {**body, "max_completion_tokens": 10}, path=path).status == 200
    assert upstream.seen[-1].body["max_tokens"] == 5000


@pytest.mark.parametrize(
    ("path", "limit"),
    [
        (CHAT, {"max_tokens": 0}),
        (CHAT, {"max_completion_tokens": 0}),
        (RESPONSES, {"max_output_tokens": 0}),
        (MESSAGES, {"max_tokens": 0}),
        (GENERATE, {CONFIG: {"maxOutputTokens": 0}}),
    ],
)
def test_a_limit_of_zero_is_not_a_limit(
    path: str, limit: dict[str, Any], start: Start, upstream: Upstream, tmp_path: Path
) -> None:
    gateway = start(**with_budget(50, prices=priced(tmp_path, **{"*": 1})))
    assert ask(gateway, {**question(path), **limit}, path=path).status in (402, 403)


def test_a_longer_context_window_raises_the_reservation(start: Start, upstream: Upstream, tmp_path: Path) -> None:
    """The size of a request bounds its tokens, up to the context window."""
    file = tmp_path / "prices.yaml"
    file.write_text(json.dumps({"claude*": {"input": 10**6, "output": 0, "context_window": 1000}}))
    gateway = start(**with_budget(1100, prices=Prices.load(file)))
    body = {**question(MESSAGES), **_said("x" * 5000)}
    assert ask(gateway, body, path=MESSAGES, headers={"anthropic-beta": "context-1m-2025-08-07"}).status == 402
    assert ask(gateway, body, path=MESSAGES).status == 200


def test_a_tier_without_a_known_price_has_an_unknown_cost(gateway: Gateway, upstream: Upstream, run_dir: Path) -> None:
    for speed in ("fast", "standard"):
        assert ask(gateway, {**question(MESSAGES), "speed": speed}, path=MESSAGES).status == 200
    fast, standard = read_calls(run_dir)
    assert fast["cost"] is None
    assert standard["cost"] > 0


def test_a_model_name_listed_exactly_passes(start: Start, upstream: Upstream) -> None:
    gateway = start(models=("@cf/meta/llama", "gpt-*"))
    assert ask(gateway, {**QUESTION, "model": "@cf/meta/llama"}).status == 200
    assert ask(gateway, {**QUESTION, "model": "gpt-4o,gpt-5"}).status == 400


def test_data_stored_by_a_provider_passes_with_its_tools(start: Start, upstream: Upstream) -> None:
    gateway = start(allow_provider_tools=True)
    asked = {**question(RESPONSES), "previous_response_id": "resp_9", "conversation": "conv_1"}
    assert ask(gateway, asked, path=RESPONSES).status == 200
    assert upstream.seen[0].body == asked
    headers = {"anthropic-beta": "web-fetch-2025-09-10,fast-mode-2026-02-01"}
    body = {**question(MESSAGES), "tools": [{"type": "web_fetch_20250910", "name": "web_fetch"}]}
    assert ask(gateway, body, path=MESSAGES, headers=headers).status == 200
    assert (upstream.seen[1].body, upstream.seen[1].headers["anthropic-beta"]) == (body, "web-fetch-2025-09-10")
    assert ask(gateway, {**QUESTION, "models": ["o1-pro"]}).status == 400
