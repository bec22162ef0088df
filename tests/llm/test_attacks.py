"""Attacks by a hostile agent or a hostile provider on the gateway."""

from __future__ import annotations

import base64
import gzip
import http.client
import json
import socket
import subprocess
import sys
import threading
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest
from backports import zstd

from pytest_mlebench.llm.gateway import Gateway
from pytest_mlebench.llm.ledger import read_bodies, read_calls
from tests.llm.conftest import Start
from tests.llm.talking import CHAT, QUESTION, ask, head, send, until
from tests.llm.upstreams import KEY, Failure, Upstream

pytestmark = pytest.mark.full

BODY = json.dumps(QUESTION).encode()
MESSAGES = "/anthropic/v1/messages"
GENERATE = "/gemini/v1beta/models/gemini-2.5-pro:generateContent"


# Attempts to reach other hosts.


@pytest.mark.parametrize(
    "target",
    [
        "http://example.org/openai/v1/chat/completions",
        "https://api.openai.com/v1/files",
        "//example.org/openai/v1/chat/completions",
        "/openai/v1/../../admin",
        "/openai/v1/%2e%2e/files",
        "/openai/v1/./chat/completions",
        "/openai//v1/chat/completions",
        "/openai\\v1\\chat\\completions",
        "/openai/v1/chat/completions;x=1",
        "/openai/v1/chat/completions#/files",
        "/openai/v1/chat%2Fcompletions",
        "/openai/v1/models/../files",
        "/openai/v1/files",
        "/openai/v1/containers",
        "/openai/v1/responses/resp_1",
        "/openai/chat/completions",
        "/v1/chat/completions",
        "/",
        "*",
        "/gemini/v1beta/models/x:generateContent/../../files",
        "/gemini/v1beta/cachedContents",
        "/gemini/upload/v1beta/files",
        "/anthropic/v1/files",
        "/anthropic/v1/messages/batches",
    ],
)
def test_only_listed_provider_paths_are_reachable(target: str, gateway: Gateway, upstream: Upstream) -> None:
    for method in ("POST", "GET"):
        start = f"{method} {target} HTTP/1.1"
        answer = send(gateway, head(gateway, f"Content-Length: {len(BODY)}", start=start) + BODY)
        assert answer.split()[1] in (b"400", b"404"), answer[:200]
    assert upstream.seen == []


def test_the_gateway_is_not_a_proxy(gateway: Gateway, upstream: Upstream) -> None:
    answer = send(gateway, head(gateway, start=f"CONNECT localhost:{upstream.port} HTTP/1.1"))
    assert answer.split()[1] in (b"400", b"404")
    assert upstream.seen == []


@pytest.mark.parametrize("host", ["example.org", "localhost:1", "169.254.169.254"])
def test_the_host_header_does_not_redirect_requests(host: str, gateway: Gateway, upstream: Upstream) -> None:
    answer = ask(gateway, headers={"Host": host, "X-Forwarded-Host": host, "X-Original-URL": "/v1/files"})
    assert answer.status == 200
    (seen,) = upstream.seen
    assert seen.headers["Host"] == f"localhost:{upstream.port}"
    assert "X-Forwarded-Host" not in seen.headers
    assert "X-Original-URL" not in seen.headers


def test_a_redirect_is_not_followed(gateway: Gateway, upstream: Upstream) -> None:
    upstream.failures.append(Failure(307, {}, {"Location": f"{upstream.url}/v1/files"}))
    answer = ask(gateway)
    assert answer.status == 502
    assert "location" not in answer.headers
    assert len(upstream.seen) == 1


@pytest.mark.parametrize("stream", [False, True])
def test_a_web_page_is_not_accepted_as_a_response(gateway: Gateway, upstream: Upstream, *, stream: bool) -> None:
    upstream.failures.append(Failure(200, {}, {"Content-Type": "text/html; charset=utf-8"}))
    answer = ask(gateway, {"model": "gpt-4o", "messages": [], "stream": stream})
    assert answer.status == 502
    assert answer.message == "openai answered with a web page, not JSON: check its base URL"
    assert gateway.totals.cost == 0 and gateway.totals.refusals.total() == 1


def test_another_method_cannot_be_smuggled_in(gateway: Gateway, upstream: Upstream) -> None:
    ask(gateway, headers={"X-HTTP-Method-Override": "DELETE", "X-Method-Override": "DELETE"})
    assert not {name for name in upstream.seen[0].headers if "override" in name.lower()}
    assert send(gateway, head(gateway, start=f"DELETE {CHAT} HTTP/1.1")).split()[1] == b"404"


@pytest.mark.parametrize(
    "query", ["fields=candidates", "access_token=x", "$httpMethod=DELETE", "key=other", "alt=proto"]
)
def test_googles_common_parameters_do_not_pass(query: str, gateway: Gateway, upstream: Upstream) -> None:
    answer = ask(gateway, {"contents": [{"parts": [{"text": "x"}]}]}, path=f"{GENERATE}?{query}")
    assert answer.status == (400 if "proto" in query else 200)
    assert all(seen.query == "" for seen in upstream.seen)


# Ambiguous requests.


@pytest.mark.parametrize(
    "lines",
    [
        ["Content-Length: 5", f"Content-Length: {len(BODY)}"],
        [f"Content-Length: {len(BODY)}", "Transfer-Encoding: chunked"],
        ["Transfer-Encoding: chunked", "Transfer-Encoding: identity"],
        ["Transfer-Encoding: xchunked"],
        ["Transfer-Encoding : chunked"],
        [f"Content-Length: +{len(BODY)}"],
        ["Content-Length: 0x10"],
        [f"Content-Length: {len(BODY)}", "X-A: b\nX-B: c"],
        [f"Content-Length: {len(BODY)}", " folded: yes"],
    ],
)
def test_an_ambiguous_request_is_rejected(lines: list[str], gateway: Gateway, upstream: Upstream) -> None:
    smuggled = head(gateway, "Content-Length: 0", start="POST /openai/v1/chat/completions HTTP/1.1")
    answer = send(gateway, head(gateway, *lines) + b"0\r\n\r\n" + smuggled)
    assert answer.split()[1] != b"200", answer[:300]
    assert upstream.seen == []


def test_a_chunked_request_is_one_request(gateway: Gateway, upstream: Upstream) -> None:
    chunks = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
    assert send(gateway, head(gateway, "Transfer-Encoding: chunked") + chunks).split()[1] == b"200"
    assert upstream.seen[0].raw == BODY


@pytest.mark.parametrize(
    "body",
    [
        b'{"model": "gpt-4o", "messages": [], "tools": [{"type": "web_search"}], "tools": []}',
        b'{"model": "gpt-4o-mini", "model": "gpt-4o", "messages": []}',
        b'{"model": "gpt-4o", "messages": [], "Tools": [{"type": "web_search"}]}',
        b'{"model": "gpt-4o", "messages": [], "web-search-options": {}}',
        b'{"model": "gpt-4o", "messages": [], "n": NaN}',
        b'{"model": "gpt-4o", "messages": []} {"tools": [{"type": "web_search"}]}',
        json.dumps(QUESTION).encode("utf-16"),
        b"\xef\xbb\xbf" + BODY,
        b'{"model": "gpt-4o", "messages": ' + b"[" * 5000 + b"]" * 5000 + b"}",
        b'{"model": ["gpt-4o"], "messages": []}',
        b"[]",
        b"",
    ],
)
def test_an_ambiguous_body_is_rejected(body: bytes, gateway: Gateway, upstream: Upstream) -> None:
    answer = ask(gateway, body)
    assert answer.status == 400
    assert answer.message
    assert upstream.seen == []


# Large and slow requests.


def test_oversized_headers_are_rejected(gateway: Gateway, upstream: Upstream) -> None:
    assert send(gateway, head(gateway, f"X-Large: {'x' * 100_000}")).split()[1] in (b"400", b"431")
    assert send(gateway, head(gateway, *(f"X-{n}: y" for n in range(10_000)))).split()[1] in (b"400", b"431")
    assert upstream.seen == []


@pytest.mark.full
def test_oversized_bodies_are_rejected(gateway: Gateway, upstream: Upstream) -> None:
    assert send(gateway, head(gateway, f"Content-Length: {1 << 40}")).split()[1] == b"413"
    assert ask(gateway, b'{"model": "gpt-4o", "messages": [' + b"[]," * 2_000_000 + b"[]]}").status == 413
    assert upstream.seen == []


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd"])
def test_a_decompression_bomb_is_not_decompressed(encoding: str, gateway: Gateway, upstream: Upstream) -> None:
    bomb = (gzip.compress if encoding == "gzip" else zlib.compress)(b" " * (1 << 26))
    assert ask(gateway, bomb, headers={"Content-Encoding": encoding}).status == 415
    assert upstream.seen == []


def test_a_slow_client_is_disconnected_and_delays_no_one(start: Start, upstream: Upstream) -> None:
    gateway = start(head_seconds=1.0)
    port = urlsplit(gateway.url).port or 0
    slow = [socket.create_connection(("127.0.0.1", port), timeout=20) for _ in range(100)]
    try:
        for connection in slow:
            connection.sendall(b"POST /openai/v1/chat/completions HTTP/1.1\r\nX-Slow: ")
        assert ask(gateway).status == 200
        assert slow[0].recv(1000) == b""  # closed by the gateway
    finally:
        for connection in slow:
            connection.close()


def test_silent_connections_are_closed_after_others_with_requests(start: Start, upstream: Upstream) -> None:
    gateway = start(head_seconds=0.5)
    port = urlsplit(gateway.url).port or 0
    clients = [http.client.HTTPConnection("127.0.0.1", port) for _ in range(20)]
    for pause in (1.0, 0.0):
        for client in clients:
            client.request("GET", "/")
            assert client.getresponse().read()
        time.sleep(pause)
    for client in clients:
        client.close()
    with ExitStack() as stack:
        silent = [stack.enter_context(socket.create_connection(("127.0.0.1", port), 5)) for _ in range(40)]
        for connection in silent:
            connection.sendall(b"GET / HTTP/1.1\r\nX-Slow: ")
        assert [connection.recv(1000) for connection in silent] == [b""] * 40


def test_the_number_of_connections_is_limited(start: Start, upstream: Upstream) -> None:
    gateway = start(max_connections=10)
    address = "127.0.0.1", urlsplit(gateway.url).port or 0
    with ExitStack() as stack:
        kept = [stack.enter_context(socket.create_connection(address, 20)) for _ in range(10)]
        for _ in range(5):
            connection = stack.enter_context(socket.create_connection(address, 20))
            assert connection.recv(1000) == b""
        for connection in kept:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert connection.recv(1000).startswith(b"HTTP/1.1 401")
    assert ask(gateway).status == 200
    assert gateway.totals.connections_refused == 5 and not gateway.totals.refusals


@pytest.mark.full
def test_a_request_with_a_slow_body_is_rejected(start: Start, upstream: Upstream) -> None:
    gateway = start(body_seconds=0.5)
    answer = send(gateway, head(gateway, "Content-Length: 100") + b'{"model"')
    assert answer.split()[1] == b"400"
    assert upstream.seen == []


# Tokens.


def test_only_this_runs_token_is_accepted(start: Start, upstream: Upstream) -> None:
    own, other = start("own"), start("other")
    for token in ("", "x", other.token, KEY, own.token[:-1], f"{own.token}x", own.token.upper(), "Bearer"):
        answer = ask(own, token=token)
        assert answer.status == 401
        assert answer.json["error"]["code"] == "invalid_api_key"
    assert upstream.seen == []
    for headers in (
        {"Authorization": "", "x-api-key": own.token},
        {"Authorization": "", "x-goog-api-key": own.token},
        {"Authorization": "", "api-key": own.token},
    ):
        assert ask(own, headers=headers).status == 200
    assert all(own.token not in json.dumps(seen.headers) for seen in upstream.seen)


def test_a_token_is_invalid_after_its_run(start: Start, upstream: Upstream) -> None:
    first = start("first")
    token, port = first.token, urlsplit(first.url).port or 0
    first.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)
    second = start("second")
    assert ask(second, token=token).status == 401


# Provider tools in unusual forms.

FUNCTION = {"type": "function", "function": {"name": "shell", "parameters": {}}}
ADDED = {"type": "additional_tools", "tools": [{"type": "web_search"}]}


@pytest.mark.parametrize(
    ("path", "body", "left"),
    [
        (CHAT, {"tools": [FUNCTION, {"type": "web_search"}]}, {"tools": [FUNCTION]}),
        (CHAT, {"tools": [{"type": "openrouter:web_search"}], "tool_choice": "auto"}, {}),
        (CHAT, {"web_search_options": {"search_context_size": "low"}}, {}),
        (CHAT, {"plugins": [{"id": "web"}]}, {}),
        (CHAT, {"search_parameters": {"mode": "on"}}, {}),
        (CHAT, {"api_base": "https://example.org/v1"}, {}),
        (
            CHAT,
            {"extra_body": {"google": {"cached_content": "x", "tools": [], "thinking_config": {}}}},
            {"extra_body": {"google": {"thinking_config": {}}}},
        ),
        (CHAT, {"google": {"cached_content": "x"}}, {"google": {}}),
        ("/openai/v1/responses", {"tools": [{"type": "mcp", "server_url": "https://x"}]}, {}),
        ("/openai/v1/responses", {"tools": [{"type": "function", "server_url": "https://x"}]}, {}),
        ("/openai/v1/responses", {"tools": [{"type": "web_search_preview_2025_03_11"}]}, {}),
        ("/openai/v1/responses", {"tools": [{"type": "code_interpreter", "container": {"type": "auto"}}]}, {}),
        ("/openai/v1/responses", {"tools": [{"type": "file_search", "vector_store_ids": ["v"]}]}, {}),
        ("/openai/v1/responses", {"tools": [{"type": "shell"}]}, {}),
        ("/openai/v1/responses", {"tools": [{"type": "shell", "environment": {"type": "container_auto"}}]}, {}),
        (
            "/openai/v1/responses",
            {"tools": [{"type": "namespace", "name": "n", "tools": [{"type": "web_search"}]}]},
            {},
        ),
        (
            "/openai/v1/responses",
            {"input": [ADDED, {"type": "additional_tools", "tools": [{"type": "web_search"}, FUNCTION]}]},
            {"input": [{"type": "additional_tools", "tools": [FUNCTION]}]},
        ),
        (MESSAGES, {"tools": [{"type": "web_search_20250305", "name": "shell"}]}, {}),
        (MESSAGES, {"tools": [{"type": "web_fetch_20260209", "name": "w"}, {"name": "b"}]}, {"tools": [{"name": "b"}]}),
        (MESSAGES, {"tools": [{"type": "code_execution_20250825", "name": "c"}]}, {}),
        (MESSAGES, {"mcp_servers": [{"type": "url", "url": "https://x", "name": "x"}]}, {}),
        (GENERATE, {"tools": [{"googleSearch": {}}]}, {}),
        (GENERATE, {"tools": [{"url_context": {}, "functionDeclarations": [{"name": "f"}]}]}, None),
        (GENERATE, {"tools": {"codeExecution": {}}}, {}),
        (GENERATE, {"tools": [{"GoogleSearch": {}}, {"google_search_retrieval": {}}]}, {}),
    ],
)
def test_the_providers_own_tools_are_withheld(
    path: str, body: dict[str, Any], left: dict[str, Any] | None, gateway: Gateway, upstream: Upstream, run_dir: Path
) -> None:
    answer = ask(gateway, {**_question(path), **body}, path=path)

    assert answer.status == 200, answer.content
    expected = {"tools": [{"functionDeclarations": [{"name": "f"}]}]} if left is None else left
    assert upstream.seen[0].body == {**_question(path), **expected}
    (call,) = read_calls(run_dir)
    assert call["withheld"]
    assert gateway.totals.to_json()["withheld"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, {"model": "gpt-4o-search-preview"}),
        (CHAT, {"model": "openai/gpt-4o:online"}),
        (CHAT, {"model": "gpt-4o", "models": ["perplexity/sonar"]}),
        (CHAT, {"tools": [{"type": "web_search"}], "tool_choice": "required"}),
        ("/openai/v1/responses", {"input": [{"type": "additional_tools", "Tools": [{"type": "web_search"}]}]}),
        (CHAT, {"preset": "searching"}),
        ("/openai/v1/responses", {"model": "o3-deep-research"}),
        ("/openai/v1/responses", {"tools": [{"type": "web_search"}], "tool_choice": {"type": "web_search"}}),
        ("/openai/v1/responses", {"background": True}),
        ("/openai/v1/responses", {"prompt": {"id": "pmpt_1"}}),
        ("/openai/v1/responses", {"previous_response_id": "resp_1"}),
        ("/openai/v1/responses", {"previous_response_id": ["resp_1"]}),
        ("/openai/v1/responses", {"previousResponseId": "resp_1"}),
        ("/openai/v1/responses", {"conversation": "conv_1"}),
        ("/openai/v1/responses", {"conversation": {"id": "conv_1"}}),
        ("/openai/v1/responses", {"input": [{"type": "item_reference", "id": "msg_1"}]}),
        ("/openai/v1/responses", {"input": [{"type": None, "id": "msg_1"}]}),
        ("/openai/v1/responses", {"input": [{"type": "item_reference", "id": "msg_1", "content": "x"}]}),
        ("/openai/v1/responses", {"input": [{"type": "reasoning", "id": "rs_1", "summary": [], "content": []}]}),
        ("/openai/v1/responses", {"input": [{"type": "image_generation_call", "id": "ig_1", "result": None}]}),
        (CHAT, {"previous_response_id": "resp_1"}),
        (CHAT, {"messages": [{"role": "assistant", "audio": {"id": "audio_1"}}]}),
        (
            MESSAGES,
            {"tools": [{"type": "web_search_20250305", "name": "s"}], "tool_choice": {"type": "tool", "name": "s"}},
        ),
        (GENERATE, {"cachedContent": "cachedContents/1"}),
        (GENERATE, {"cached_content": "cachedContents/1"}),
        (
            GENERATE,
            {"tools": [{"googleSearch": {}}], "toolConfig": {"functionCallingConfig": {"mode": "ANY"}}},
        ),
    ],
)
def test_requests_that_depend_on_provider_tools_are_rejected(
    path: str, body: dict[str, Any], gateway: Gateway, upstream: Upstream
) -> None:
    answer = ask(gateway, {**_question(path), **body}, path=path)
    assert answer.status == 400
    assert len(answer.message) > 30
    assert upstream.seen == []


@pytest.mark.parametrize(
    ("path", "content"),
    [
        (CHAT, [{"type": "image_url", "image_url": {"url": "https://example.org/x.png"}}]),
        (CHAT, [{"type": "image_url", "image_url": "HTTP://example.org/x.png"}]),
        (CHAT, [{"type": "file", "file": {"file_id": "file-1"}}]),
        (
            CHAT,
            [{"type": "file", "file": {"filename": "x.pdf", "file_data": "https://example.org/x.pdf"}}],
        ),  # OpenRouter
        (CHAT, [{"type": "document_url", "document_url": "https://example.org/x.pdf"}]),  # Mistral
        (CHAT, [{"type": "video_url", "video_url": {"url": "gs://bucket/x"}}]),
        ("/openai/v1/responses", [{"type": "input_image", "image_url": "https://example.org/x.png"}]),
        ("/openai/v1/responses", [{"type": "input_file", "file_url": "https://example.org/x.pdf"}]),
        ("/openai/v1/responses", [{"type": "input_file", "file_id": "file-1"}]),
        (MESSAGES, [{"type": "image", "source": {"type": "url", "url": "https://example.org/x.png"}}]),
        (MESSAGES, [{"type": "document", "source": {"type": "file", "file_id": "f"}}]),
        (MESSAGES, [{"type": "container_upload", "file_id": "f"}]),
        (
            MESSAGES,
            [
                {
                    "type": "tool_result",
                    "tool_use_id": "t",
                    "content": [{"type": "image", "source": {"type": "url", "url": "https://example.org"}}],
                }
            ],
        ),
        (GENERATE, [{"fileData": {"fileUri": "https://example.org/x.pdf"}}]),
        (GENERATE, [{"file_data": {"file_uri": "https://www.youtube.com/watch?v=x"}}]),
    ],
)
def test_content_given_by_url_or_file_id_is_rejected(
    path: str, content: Any, gateway: Gateway, upstream: Upstream
) -> None:
    body = _question(path)
    holder = body.get("messages") or body.get("input") or body["contents"]
    holder[0]["parts" if path == GENERATE else "content"] = content
    answer = ask(gateway, body, path=path)
    assert answer.status == 400
    assert "inline" in answer.message
    assert upstream.seen == []


def test_urls_in_the_agents_tool_calls_are_not_media(gateway: Gateway, upstream: Upstream) -> None:
    arguments = {"url": "https://example.org", "file_id": "x"}
    body = _question(MESSAGES)
    body["messages"] += [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "n", "input": arguments}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "https://example.org"}]},
    ]
    assert ask(gateway, body, path=MESSAGES).status == 200
    body = _question(GENERATE)
    body["contents"] += [{"role": "model", "parts": [{"functionCall": {"name": "n", "args": arguments}}]}]
    body["contents"] += [{"role": "user", "parts": [{"functionResponse": {"name": "n", "response": arguments}}]}]
    assert ask(gateway, body, path=GENERATE).status == 200
    assert len(upstream.seen) == 2


def test_self_contained_items_are_not_references(gateway: Gateway, upstream: Upstream) -> None:
    items = [
        {"id": "msg_9", "type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "yes"}]},
        {"id": "fc_9", "type": "function_call", "call_id": "c", "name": "ls", "arguments": ""},
        {"type": "function_call_output", "call_id": "c", "output": ""},
        {"id": "rs_9", "type": "reasoning", "summary": [], "encrypted_content": "gAAAA"},
        {"id": "rs_8", "type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
        {"role": "user", "content": "And?"},
    ]
    path = "/openai/v1/responses"
    assert ask(gateway, {"model": "gpt-5", "input": items}, path=path).status == 200
    assert upstream.seen[0].body["input"] == items


def test_provider_tools_pass_if_allowed(start: Start, upstream: Upstream) -> None:
    gateway = start(allow_provider_tools=True)
    body = {**QUESTION, "tools": [{"type": "web_search"}], "web_search_options": {}}
    assert ask(gateway, body).status == 200
    assert upstream.seen[0].body == body


def _question(path: str) -> dict[str, Any]:
    if path == GENERATE:
        return {"contents": [{"role": "user", "parts": [{"text": "Which model first?"}]}]}
    if path == MESSAGES:
        return {"model": "claude-sonnet-4-6", "max_tokens": 50, "messages": [{"role": "user", "content": "Which?"}]}
    if path.endswith("responses"):
        return {"model": "gpt-5", "input": [{"role": "user", "content": "Which?"}]}
    return json.loads(json.dumps(QUESTION))  # type: ignore[no-any-return]


# A malicious provider, or one that echoes secrets.


@pytest.mark.parametrize(
    "usage",
    [
        False,
        {"prompt_tokens": -5, "completion_tokens": 10**30},
        {"prompt_tokens": "many", "completion_tokens": None},
        {"prompt_tokens": float("nan"), "completion_tokens": True},
        {"prompt_tokens": {"$gt": 0}},
        "none",
        [],
        10**30,
    ],
)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_an_impossible_usage_is_unknown(
    usage: Any, stream: bool, gateway: Gateway, upstream: Upstream, run_dir: Path
) -> None:
    upstream.usage = usage
    assert ask(gateway, {**QUESTION, "stream": stream}).status == 200
    (call,) = read_calls(run_dir)
    assert call["tokens"] is None
    assert call["cost"] is None
    totals = gateway.totals.to_json()
    assert totals["cost"] is None
    assert totals["calls_of_unknown_usage"] == 1


def test_an_endless_stream_is_ended(start: Start, upstream: Upstream, run_dir: Path) -> None:
    gateway = start(call_seconds=1.0)
    upstream.endless = True
    data = json.dumps({**QUESTION, "stream": True}).encode()
    answer = send(gateway, head(gateway, f"Content-Length: {len(data)}") + data, timeout=30)
    assert b"still here" in answer
    assert not answer.endswith(b"0\r\n\r\n")  # a client can see that the response is incomplete
    until(lambda: read_calls(run_dir))
    (call,) = read_calls(run_dir)
    assert "the stream was interrupted" in call["error"]
    assert call["tokens"] is None


def test_a_broken_stream_is_incomplete_for_the_client(gateway: Gateway, upstream: Upstream, run_dir: Path) -> None:
    upstream.breaks_off = True
    data = json.dumps({**QUESTION, "stream": True}).encode()
    answer = send(gateway, head(gateway, f"Content-Length: {len(data)}") + data)
    assert b"Standard " in answer
    assert not answer.endswith(b"0\r\n\r\n")
    until(lambda: read_calls(run_dir))
    assert read_calls(run_dir)[0]["tokens"] is None


def test_an_endless_response_is_rejected(start: Start, upstream: Upstream) -> None:
    upstream.reply = "x" * 200_000
    assert ask(start(max_answer=100_000)).status == 502


def _sse(*events: Any) -> bytes:
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


SPOKEN = {"index": 0, "delta": {"content": "hi"}}
MESSAGE = {"role": "assistant", "content": "hi"}
USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
WHOLE = {"model": "gpt-4o" * 500, "choices": [{"index": 0, "message": MESSAGE}], "usage": USAGE}
STREAM = GENERATE.replace("generateContent", "streamGenerateContent?alt=sse")
ODD_CALLS: list[Any] = [[5], [{"index": 0}], [{"index": []}]]
PARTS = {"index": 0, "content": {"parts": [{"text": "hi"}]}}


@pytest.mark.parametrize(
    ("path", "events"),
    [
        (CHAT, [{"choices": [{"index": 0, "message": [], "delta": {}}]}, {"choices": [SPOKEN]}]),
        (CHAT, [{"choices": [{"index": 0, "message": 1}]}, {"choices": [SPOKEN]}]),
        (CHAT, [{"choices": [{"logprobs": {"content": some}, **SPOKEN}]} for some in ("x", [1], 5)]),
        (CHAT, [{"choices": [{"index": 0, "delta": {"tool_calls": 5, "content": "hi"}}]}]),
        (CHAT, [{"choices": [{"delta": {"tool_calls": some}}]} for some in ODD_CALLS]),
        (STREAM, [{"candidates": [{"index": 0, "content": None}]}, {"candidates": [PARTS]}]),
        (STREAM, [{"candidates": [{"content": {"parts": some}}]} for some in (5, "text", [5, None], {"text": "x"})]),
        (STREAM, [{"candidates": [PARTS], "usageMetadata": some} for some in (5, {"promptTokenCount": 1})]),
        (
            MESSAGES,
            [
                {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "citations": 5}},
                {"type": "content_block_delta", "index": 0, "delta": {"citation": {}}},
            ],
        ),
    ],
)  # fmt: skip
def test_odd_events_of_a_stream_reach_the_client_and_are_recorded(
    path: str, events: list[Any], gateway: Gateway, upstream: Upstream, run_dir: Path
) -> None:
    content = _sse(*events)
    upstream.fixed = "text/event-stream", content
    asked = _question(GENERATE) if path == STREAM else {**_question(path), "stream": True}
    answer = ask(gateway, asked, path=path)
    gateway.close()
    assert (answer.status, answer.content) == (200, content)
    (call,), (body,) = read_calls(run_dir), read_bodies(run_dir)
    assert (call["status"], call["error"], call["replayed"]) == (200, None, False)
    assert body["stream"].encode() == content and body["response"]


def test_an_event_that_no_reader_expects_makes_the_usage_unknown(
    gateway: Gateway, upstream: Upstream, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise TypeError("odd")

    monkeypatch.setattr("pytest_mlebench.llm.openai.merge_delta", fail)
    answer = ask(gateway, {**QUESTION, "stream": True})
    monkeypatch.setattr("pytest_mlebench.llm.openai._Chat.answer", fail)
    upstream.fixed = "text/event-stream", _sse({"usage": USAGE})
    assert ask(gateway, {**QUESTION, "stream": True}).status == 200
    gateway.close()
    assert answer.content.endswith(b"data: [DONE]\n\n")
    assert [call["tokens"] for call in read_calls(run_dir)] == [None, None]
    assert gateway.totals.calls_of_unknown_usage == 2
    assert ["response" in body for body in read_bodies(run_dir)] == [False, False]


@pytest.mark.parametrize("options", [{}, {"stream_options": {"include_usage": True}}], ids=["", "with usage"])
@pytest.mark.parametrize(
    ("kind", "content", "tokens"),
    [
        ("application/json", json.dumps(WHOLE).encode(), 15),
        ("application/json", b"[" * 500 + b"]" * 500, None),
        ("text/plain", _sse({"choices": [SPOKEN]}), None),
    ],
    ids=["JSON", "deep JSON", "text"],
)
def test_a_stream_without_the_type_of_a_stream_reaches_the_client(
    kind: str,
    content: bytes,
    tokens: int | None,
    options: dict[str, Any],
    gateway: Gateway,
    upstream: Upstream,
    run_dir: Path,
) -> None:
    upstream.fixed = kind, content
    answer = ask(gateway, {**QUESTION, "stream": True, **options})
    assert (answer.status, answer.content) == (200, content)
    (call,) = read_calls(run_dir)
    assert (call["tokens"] and call["tokens"]["input"] + call["tokens"]["output"]) == tokens
    assert len(call["answered_model"] or "") <= 256


def _read_rest(connection: socket.socket) -> int:
    size = 0
    with suppress(ConnectionError):
        while chunk := connection.recv(1 << 20):
            size += len(chunk)
    return size


@pytest.mark.parametrize("replays", [False, True], ids=["provider", "replay"])
def test_unread_answers_take_limited_memory_and_time(
    replays: bool, start: Start, upstream: Upstream, tmp_path: Path
) -> None:
    upstream.reply = "x" * (8 << 20)
    first = start("first")
    assert len(ask(first).content) > 8 << 20
    first.close()
    replay = tmp_path / "group/first" if replays else None
    gateway = start(replay=replay, max_answers=24 << 20, read_seconds=5.0)
    with ExitStack() as stack:
        connections = []
        for status in (b"200", b"200", b"503", b"503"):
            address = ("127.0.0.1", urlsplit(gateway.url).port or 0)
            connections.append(stack.enter_context(socket.create_connection(address, timeout=60)))
            connections[-1].sendall(head(gateway, f"Content-Length: {len(BODY)}") + BODY)
            assert connections[-1].recv(1000).split()[1] == status
        until(lambda: ask(gateway).status == 200)
        assert _read_rest(connections[0]) < 8 << 20


_OF_ITS_OWN = """
import sys
from pathlib import Path
from pytest_mlebench.llm.gateway import Gateway
from pytest_mlebench.llm.accounting import GatewaySettings

def memory(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) >> 10 for line in lines if line.startswith(name))

settings = GatewaySettings(max_answer=GatewaySettings.max_answer >> 3, max_answers=GatewaySettings.max_answers >> 3)
with Gateway(settings, [settings.providers["openai"].located()], run_dir=Path(sys.argv[1])) as gateway:
    print(gateway.url, gateway.token, flush=True)
    sys.stdin.readline()
    before = memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    print("ready", flush=True)
    sys.stdin.read()
    print(memory("VmHWM") - before, flush=True)
"""
_PIECES = {False: b" " * (1 << 20), True: b'data: {"choices":[{"delta":{"content":"' + b"0" * (1 << 20) + b'"}}]}\n\n'}


def _bomb(encoding: str, piece: bytes) -> bytes:
    """256 MB, compressed to little more than 1 MB."""
    gzipped = encoding == "gzip"
    packer: Any = zlib.compressobj(1, zlib.DEFLATED, 31) if gzipped else zstd.ZstdCompressor(level=1)
    return b"".join([*(packer.compress(piece) for _ in range(256)), packer.flush()])


@pytest.mark.full
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_a_providers_decompression_bombs_do_not_exhaust_memory(
    encoding: str, stream: bool, upstream: Upstream, tmp_path: Path
) -> None:
    """Six concurrent bombs would decompress to 1.5 GB. Limits are an eighth, since large bombs are slow."""
    upstream.bomb, upstream.bomb_encoding = _bomb(encoding, _PIECES[stream]), encoding
    assert len(upstream.bomb) < 4 << 20
    command = [sys.executable, "-c", _OF_ITS_OWN, str(tmp_path / "run")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        url, token = process.stdout.readline().split()
        victim: Any = SimpleNamespace(url=url, token=token)
        upstream.bomb, bomb = b"", upstream.bomb
        assert ask(victim).status == 200  # all modules are imported now
        upstream.bomb = bomb
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "ready\n"
        with ThreadPoolExecutor(6) as pool:
            ends = list(pool.map(lambda _: _ending_of(victim, stream=stream), range(6)))
        process.stdin.close()
        megabytes = int(process.stdout.readline())
    assert set(ends) <= ({"cut off"} if stream else {"502", "503"})
    assert megabytes < 500


def _ending_of(gateway: Gateway, *, stream: bool) -> str:
    try:
        return str(ask(gateway, {**QUESTION, "stream": stream}).status)
    except (http.client.HTTPException, OSError):
        return "cut off"


def test_concurrent_large_responses_are_rejected_as_overload(start: Start, upstream: Upstream) -> None:
    gateway = start(max_answers=100_000)
    upstream.reply = "x" * 200_000
    answer = ask(gateway)
    assert answer.status == 503
    assert "too many large answers" in answer.message
    upstream.reply = "x" * 60_000
    assert [ask(gateway).status for _ in range(3)] == [200] * 3  # ended responses no longer count


def test_a_compressed_response_is_read(gateway: Gateway, upstream: Upstream, run_dir: Path) -> None:
    upstream.compressed = True
    answer = ask(gateway, headers={"Accept-Encoding": "gzip"})
    assert "content-encoding" not in answer.headers
    assert answer.json["choices"]
    assert read_calls(run_dir)[0]["tokens"]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_key_echoed_by_the_provider_does_not_reach_the_agent(
    stream: bool, gateway: Gateway, upstream: Upstream, tmp_path: Path
) -> None:
    upstream.echo = f" {KEY} x{KEY}"
    upstream.headers = {"x-you-are": KEY, "set-cookie": "a=b"}
    answer = ask(gateway, {**QUESTION, "stream": stream})
    upstream.failures.append(Failure(401, {"error": {"message": f"Incorrect API key provided: {KEY}"}}))
    refused = ask(gateway)
    gateway.close()

    for part in (answer, refused):
        assert KEY not in json.dumps(part.headers)
        assert KEY.encode() not in part.content
        assert "set-cookie" not in part.headers
    assert b"[key]" in answer.content
    forms = (KEY.encode(), KEY[::-1].encode(), base64.b64encode(KEY.encode()).rstrip(b"="))
    for file in filter(Path.is_file, tmp_path.rglob("*")):
        content = file.read_bytes()
        if file.suffix == ".zst":
            content += json.dumps(list(read_bodies(file.parents[1]))).encode()
        assert not any(form in content for form in forms), file
        assert gateway.token.encode() not in content, file


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("key", ["EMPTY", "1", '"', "x", "1234567"])
def test_a_key_that_is_too_short_to_be_secret_changes_nothing(
    key: str, stream: bool, start: Start, upstream: Upstream, run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Servers without keys need one, too; EMPTY is usual."""
    monkeypatch.setenv("OPENAI_API_KEY", key)
    upstream.reply = f"EMPTY 1 x {key}"
    gateway = start()
    answer = ask(gateway, {**QUESTION, "stream": stream})
    gateway.close()
    assert b"[key]" not in answer.content and (
        stream or answer.json["choices"][0]["message"]["content"] == upstream.reply
    )
    (call,), (body,) = read_calls(run_dir), read_bodies(run_dir)
    assert call["tokens"] and body["response"]["choices"][0]["message"]["content"] == upstream.reply
    assert upstream.seen[0].headers["Authorization"] == f"Bearer {key}"


def test_secrets_in_an_agents_messages_are_not_recorded(start: Start, upstream: Upstream, tmp_path: Path) -> None:
    gateway = start()
    ask(gateway, {"model": "gpt-4o", "messages": [{"role": "user", "content": f"my token is {gateway.token}"}]})
    gateway.close()
    (body,) = read_bodies(tmp_path / "group/run")
    assert body["request"]["messages"][0]["content"] == "my token is [secret]"


def _deltas(path: str, text: str) -> list[dict[str, Any]]:
    """The events of a stream that contain two answers, or one, in parts of five characters."""
    parts = [text[at : at + 5] for at in range(0, len(text), 5)]
    if path == CHAT:
        chunks = [{"choices": [{"index": k, "delta": {"content": part}}]} for part in parts for k in (0, 1)]
        return [*chunks, {"choices": [], "usage": USAGE}]
    if path.endswith("responses"):
        return [{"type": "response.output_text.delta", "delta": part} for part in parts]
    if path == MESSAGES:
        delta = {"type": "content_block_delta", "index": 0}
        return [{**delta, "delta": {"type": "text_delta", "text": part}} for part in parts]
    return [{"candidates": [{"content": {"parts": [{"text": part}]}}]} for part in parts]


@pytest.mark.parametrize("path", [CHAT, "/openai/v1/responses", MESSAGES, STREAM, STREAM.removesuffix("?alt=sse")])
def test_secrets_in_several_events_of_a_stream_are_not_recorded(
    path: str, gateway: Gateway, upstream: Upstream, run_dir: Path
) -> None:
    is_gemini = path.startswith(STREAM.removesuffix("?alt=sse"))
    asked = _question(GENERATE) if is_gemini else {**_question(path), "stream": True}
    asked |= {"stream_options": {"include_usage": True}} if path == CHAT else {}
    for text in (gateway.token, "public " * 7):
        events = _deltas(path, text)
        array = is_gemini and path != STREAM
        kind, content = ("json", json.dumps(events).encode()) if array else ("event-stream", _sse(*events))
        upstream.fixed = f"text/{kind}", content
        assert ask(gateway, asked, path=path).content == content
    gateway.close()
    secret, public = read_bodies(run_dir)
    assert gateway.token[5:10] not in json.dumps(secret) and public["stream"].encode() == content
    assert "[secret]" in json.dumps(secret["response"]) or path.endswith("responses")


def test_an_unreachable_provider_gives_an_error_in_its_format(
    start: Start, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "https://localhost:9/v1")
    answer = ask(start("other"))
    assert answer.status == 502
    assert "cannot be reached" in answer.message
    assert KEY not in answer.content.decode()


def test_an_untrusted_certificate_is_rejected(
    start: Start, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    assert ask(start("other")).status == 502
    assert upstream.seen == []


def test_many_concurrent_calls_do_not_interfere(gateway: Gateway, upstream: Upstream, run_dir: Path) -> None:
    statuses: list[int] = []

    def one(number: int) -> None:
        body = b"{" if number % 3 == 0 else json.dumps({**QUESTION, "stream": number % 3 == 1}).encode()
        statuses.append(ask(gateway, body).status)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [200] * 40 + [400] * 20
    assert len(read_calls(run_dir)) == 60
    assert sorted(call["number"] for call in read_calls(run_dir)) == list(range(1, 61))
