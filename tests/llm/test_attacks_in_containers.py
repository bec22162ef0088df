"""Attacks by a hostile agent on the gateway from inside its container, where the gateway is the only way out.

Each test runs a Python program in a real container. `test_attacks.py` has more attacks without a container.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from pytest_mlebench.llm.accounting import GatewaySettings
from pytest_mlebench.llm.budget import BudgetLimits
from pytest_mlebench.llm.gateway import RunGateway
from pytest_mlebench.llm.ledger import read_calls
from tests.llm.conftest import Start
from tests.llm.upstreams import KEY, REPLY, Upstream
from tests.sandbox.conftest import require_docker
from tests.sandbox.hostile.listener import listening
from tests.sandbox.scripted import docker_sandbox, make_runner, script_agent

pytestmark = [pytest.mark.docker, pytest.mark.serial]

KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY")
TOOLS = """
import http.client, json, os, socket, threading, time

TOKEN = os.environ["OPENAI_API_KEY"]
PORT = int(os.environ["OPENAI_BASE_URL"].split(":")[2].split("/")[0])
CHAT, MESSAGES = "/openai/v1/chat/completions", "/anthropic/v1/messages"
GENERATE = "/gemini/v1beta/models/gemini-2.5-pro:generateContent"
QUESTION = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Which model first?"}]}
BODY = json.dumps(QUESTION).encode()
LENGTH = f"Content-Length: {len(BODY)}"

def connect():
    return socket.create_connection(("127.0.0.1", PORT), 30)

def head(*lines, start="POST /openai/v1/chat/completions HTTP/1.1", token=TOKEN):
    return "\\r\\n".join([start, "Host: localhost", "Authorization: Bearer " + token, *lines, "", ""]).encode()

def raw(*parts, seconds=3):
    # The statuses of all responses, until the connection ends or is silent for some seconds.
    answer = b""
    with connect() as connection:
        try:
            for part in parts:
                connection.sendall(part)
            connection.settimeout(seconds)
            while chunk := connection.recv(1 << 16):
                answer += chunk
        except OSError:
            pass
    return [int(piece[:3]) for piece in answer.split(b"HTTP/1.1 ")[1:]]

def ask(body=QUESTION, path=CHAT, token=TOKEN, method="POST", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=60)
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    connection.request(method, path, body, {"Authorization": "Bearer " + token, **headers})
    answer = connection.getresponse()
    return answer.status, answer.read().decode("utf-8", "replace")

def report(value):
    print("REPORT", json.dumps(value), flush=True)
"""


@dataclass(frozen=True)
class Attacked:
    """``said`` is the program's report."""

    said: Any
    run_dir: Path
    gateway: RunGateway

    @property
    def totals(self) -> dict[str, Any]:
        return self.gateway.account()


Attack = Callable[..., Attacked]


@pytest.fixture
def attack(upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Attack:
    """Runs a program as an agent in a container, by default without a network."""
    require_docker()
    monkeypatch.setenv("OPENROUTER_API_KEY", KEY)
    monkeypatch.setenv("OPENROUTER_BASE_URL", f"{upstream.url}/api/v1")
    monkeypatch.setenv("GEMINI_OPENAI_BASE_URL", f"{upstream.url}/v1beta/openai")
    runners = {}

    def run(program: str, *, network: str = "none", **settings: Any) -> Attacked:
        if network not in runners:
            runners[network] = make_runner(docker_sandbox(network=network), tmp_path / network)
        variables = {key: f"${{{{ secrets.{key} }}}}" for key in KEYS}
        agent = script_agent(
            kwargs={"script": 'python3 -c "$PROGRAM"'},
            env_vars={**variables, "PROGRAM": TOOLS + program},
            llm_hosts=("api.openai.com",),
        )
        task = runners[network].task("", agent=agent, processes=2000)
        gateway = RunGateway(GatewaySettings(**settings), agent, run_dir=task.run_dir)
        runners[network].sandbox.run(replace(task, gateway=gateway))
        log = (task.run_dir / "run.log").read_text()
        said = [line.removeprefix("REPORT ") for line in log.splitlines() if line.startswith("REPORT ")]
        assert said, log
        return Attacked(json.loads(said[-1]), task.run_dir, gateway)

    return run


# Attempts to reach other hosts.


@pytest.mark.parametrize("network", ["none", "llm"])
def test_no_other_host_is_reachable(network: str, attack: Attack, upstream: Upstream) -> None:
    with listening() as listener:
        attacked = attack(
            f"""
hosts = {[f"{host}:{listener.port}" for host in listener.addresses] + ["api.openai.com", "169.254.169.254"]!r}
found = []
for host in hosts:
    for start in (f"POST http://{{host}}/v1/chat/completions HTTP/1.1", f"GET http://{{host}}/ HTTP/1.1",
                  f"CONNECT {{host}} HTTP/1.1", f"POST //{{host}}/openai/v1/chat/completions HTTP/1.1",
                  f"GET @{{host}}/ HTTP/1.1"):
        found += raw(head("Connection: close", LENGTH, start=start), BODY, seconds=1) or [0]
    found += raw(head(f"Host: {{host}}", "Connection: close", LENGTH), BODY, seconds=1)
report(found)
""",
            network=network,
        )
    assert set(attacked.said) <= {0, 400, 401, 404, 405}
    assert not listener.callers
    assert upstream.seen == []


def test_no_path_bypasses_the_list(attack: Attack, upstream: Upstream) -> None:
    attacked = attack("""
paths = ["/openai/v1/../files", "/openai/v1/%2e%2e/files", "/openai/v1/chat/completions/../../files",
    "/openai/v1/chat%2fcompletions", "/openai//v1/chat/completions", "/openai/v1/chat/completions;a=b",
    "/openai/v1/./chat/completions", "/openai\\\\v1\\\\chat\\\\completions", "/openai/v1/files",
    "/openai/v1/containers", "/openai/v1/chat/completions/x",
    "/openai/v1/responses/resp_1", "/openai/v1/conversations", "/openai/v1/vector_stores", "/openai/v1/batches",
    "/anthropic/v1/files", "/anthropic/v1/messages/batches", "/anthropic/v1/skills", "/gemini/v1beta/files",
    "/gemini/upload/v1beta/files", "/gemini/v1beta/cachedContents", "/gemini/v1beta/interactions",
    "/gemini/v1beta/models/x:generateContent/../../files", "/openrouter/v1/keys", "/openrouter/v1/credits",
    "/", "/metrics", "/admin", "/openai", "/../../etc/passwd", "*"]
report({path: [raw(head("Connection: close", LENGTH, start=f"{method} {path} HTTP/1.1"), BODY)
    for method in ("GET", "POST", "DELETE")] for path in paths})
""")
    assert {status for answers in attacked.said.values() for answer in answers for status in answer} <= {400, 404}
    assert upstream.seen == []


def test_a_connection_cannot_switch_protocols(attack: Attack, upstream: Upstream) -> None:
    attacked = attack("""
websocket = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhl")
report([
    raw(head(*websocket, start="GET /openai/v1/responses HTTP/1.1")),
    raw(head("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk", LENGTH), BODY),
    raw(b"PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n"),
    raw(b"\\x16\\x03\\x01\\x02\\x00\\x01\\x00\\x01\\xfc\\x03\\x03" + b"A" * 300),
])
""")
    assert all(status not in (101, 502) for answer in attacked.said for status in answer)
    assert attacked.said[0] == [404]
    assert {"Upgrade", "HTTP2-Settings"}.isdisjoint(name for seen in upstream.seen for name in seen.headers)


# Ambiguous requests.


def test_no_request_can_be_smuggled(attack: Attack, upstream: Upstream) -> None:
    attacked = attack("""
inner = head(LENGTH, token="sk-of-somebody-else") + BODY
chunked = f"{len(BODY):x}\\r\\n".encode() + BODY + b"\\r\\n0\\r\\n\\r\\n"
report({
    "two lengths": raw(head(LENGTH, "Content-Length: 5"), BODY, inner),
    "a length and chunks": raw(head(LENGTH, "Transfer-Encoding: chunked"), chunked, inner),
    "chunks and a length": raw(head("Transfer-Encoding: chunked", "Content-Length: 3"), chunked, inner),
    "two encodings": raw(head("Transfer-Encoding: chunked", "Transfer-Encoding: identity"), chunked, inner),
    "a hidden encoding": raw(head("Transfer-Encoding: \\x0bchunked", LENGTH), BODY, inner),
    "a name with a blank": raw(head("Content-Length : 3", LENGTH), BODY, inner),
    "a folded line": raw(head(LENGTH, "X-Long: a", " Transfer-Encoding: chunked"), BODY, inner),
    "a signed length": raw(head("Content-Length: +%d" % len(BODY)), BODY, inner),
    "a wrong chunk": raw(head("Transfer-Encoding: chunked"), b"0x5\\r\\nhello\\r\\n0\\r\\n\\r\\n", inner),
    "bare line feeds": raw(head(LENGTH).replace(b"\\r\\n", b"\\n"), BODY, inner),
    "a null byte": raw(head(LENGTH, "X-Null: a\\x00b"), BODY, inner),
})
""")
    # The second request has a wrong token: if it is read, it is rejected separately.
    assert {name: answer for name, answer in attacked.said.items() if not set(answer) <= {200, 400, 401}} == {}
    assert all(answer.count(200) <= 1 for answer in attacked.said.values())
    assert all(seen.raw == upstream.seen[0].raw for seen in upstream.seen)
    assert len(upstream.seen) == sum(answer.count(200) for answer in attacked.said.values())
    for ambiguous in ("two lengths", "a length and chunks", "chunks and a length", "a name with a blank"):
        assert 200 not in attacked.said[ambiguous], ambiguous


def test_each_pipelined_request_needs_the_token(attack: Attack, upstream: Upstream) -> None:
    attacked = attack("""
good, bad = head(LENGTH) + BODY, head(LENGTH, token="sk-wrong") + BODY
report(raw(good + bad + good + bad, seconds=5))
""")
    assert attacked.said == [200, 401, 200, 401]
    assert len(upstream.seen) == 2
    assert all(KEY in seen.headers["Authorization"] for seen in upstream.seen)


def test_an_ambiguous_body_is_rejected(attack: Attack, upstream: Upstream) -> None:
    attacked = attack("""
search = b'"tools": [{"type": "web_search"}]'
report([ask(body)[0] for body in (
    b'{"model": "gpt-4o", "messages": [], "tools": [], ' + search + b"}",
    b'{"model": "gpt-4o", "messages": [], "tools": [], "\\\\u0074ools": [{"type": "web_search"}]}',
    b'{"model": "gpt-4o", "messages": [], "Tools": [{"type": "web_search"}]}',
    b'{"model": "gpt-4o", "messages": [], "web-search-options": {}}',
    b'\\xef\\xbb\\xbf{"model": "gpt-4o", "messages": [], ' + search + b"}",
    ('{"model": "gpt-4o", "messages": [], ' + search.decode() + "}").encode("utf-16"),
    b'{"model": "gpt-4o", "messages": [], ' + search + b"} {}",
    b'{"model": "gpt-4o", "messages": [], "x": NaN}',
    b'[{"model": "gpt-4o"}]',
)])
""")
    assert attacked.said == [400] * 9
    assert upstream.seen == []


# Tokens.


def test_only_the_runs_token_is_accepted(attack: Attack, start: Start, upstream: Upstream) -> None:
    other = start("other")  # of a concurrent run
    attacked = attack(f"""
tokens = ["", "x", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "Bearer " + TOKEN[:-2], {other.token!r}, {KEY!r}]
found = [ask(token=token)[0] for token in tokens]
found += [ask(token="wrong", x_api_key=token)[0] for token in tokens]
found += [ask({{"contents": []}}, GENERATE + "?key=" + {other.token!r}, token="wrong")[0]]
found += [raw(f"POST {{CHAT}} HTTP/1.1\\r\\nHost: x\\r\\n{{LENGTH}}\\r\\n\\r\\n".encode(), BODY)]
report(found)
""")
    assert attacked.said == [401] * 17 + [[401]]
    assert upstream.seen == []
    assert read_calls(attacked.run_dir) == []  # unauthenticated requests are not in the ledger


def test_a_token_is_invalid_after_its_run(attack: Attack, upstream: Upstream) -> None:
    first = attack("report([2 * ord(letter) for letter in TOKEN])")  # a run's log does not show its token
    token = "".join(chr(number // 2) for number in first.said)
    second = attack(f"report([TOKEN != {token!r}, ask(token={token!r})[0], ask()[0]])")
    assert second.said == [True, 401, 200]
    assert len(upstream.seen) == 1


def test_the_providers_key_cannot_be_extracted(attack: Attack, upstream: Upstream) -> None:
    upstream.echo = f" {KEY}"
    upstream.headers = {"x-echo": KEY}
    attacked = attack("""
found = [ask(Connection="authorization, x-api-key"), ask(X_Api_Key="mine", Cookie="a=b", X_Forwarded_Host="x")]
found += [ask({**QUESTION, "stream": True}), ask(path="/openai/v1/models", method="GET")]
found += [ask({"contents": [{"parts": [{"text": "x"}]}]}, GENERATE, X_Goog_FieldMask="*", X_HTTP_Method_Override="GET")]
report([[status, [2 * ord(letter) for letter in text]] for status, text in found])
""")
    for status, numbers in attacked.said:
        text = "".join(chr(number // 2) for number in numbers)
        assert status == 200
        assert KEY not in text
    names = {name.lower() for seen in upstream.seen for name in seen.headers}
    assert not names & {"cookie", "x-forwarded-host", "x-goog-fieldmask", "x-http-method-override", "connection"} - {
        "connection"
    }
    assert all(KEY in json.dumps(seen.headers) for seen in upstream.seen)


# Large and slow requests.


def test_oversized_requests_are_rejected(attack: Attack, upstream: Upstream) -> None:
    attacked = attack("""
report({
    "a header": raw(head("X-Large: " + "a" * 200_000, LENGTH), BODY),
    "many headers": raw(head(*(f"X-{number}: {'a' * 100}" for number in range(5000)), LENGTH), BODY),
    "a path": raw(head(LENGTH, start="POST /openai/v1/" + "a" * 200_000 + " HTTP/1.1"), BODY),
    "a length": raw(head("Content-Length: 99999999999999"), BODY),
    "chunks": raw(head("Transfer-Encoding: chunked"), *[b"100000\\r\\n" + b" " * (1 << 20) + b"\\r\\n"] * 40),
    "depth": [ask(b"[" * 500_000)[0], ask(b'{"a":' * 100_000 + b"1" + b"}" * 100_000)[0]],
    "elements": [ask(b'{"a": [' + b"1," * 2_000_000 + b"1]}")[0]],
    "afterwards": [ask()[0]],
})
""")
    afterwards = attacked.said.pop("afterwards")
    assert {name: answer for name, answer in attacked.said.items() if not set(answer) <= {400, 413, 431}} == {}
    assert afterwards == [200]
    assert len(upstream.seen) == 1


def test_compressed_requests_are_not_decompressed(attack: Attack, upstream: Upstream) -> None:
    attacked = attack("""
import gzip, zlib
bomb = gzip.compress(b"0" * (1 << 27))
names = ("gzip", "GZip", "deflate", "br", "zstd", "gzip, gzip", "x-gzip")
found = [ask(bomb, Content_Encoding=name)[0] for name in names]
found += [raw(head("Transfer-Encoding: gzip, chunked"), b"%x\\r\\n" % len(bomb), bomb, b"\\r\\n0\\r\\n\\r\\n")]
report(found)
""")
    assert attacked.said[:-1] == [415] * 7
    assert set(attacked.said[-1]) <= {400, 415, 501}
    assert upstream.seen == []


def test_slow_clients_are_disconnected_and_delay_no_one(attack: Attack, upstream: Upstream) -> None:
    program = """
slow = [connect() for _ in range(300)]
for number, connection in enumerate(slow):
    connection.sendall([b"", b"POST /openai/v1/chat", head(LENGTH)[:-2], head(LENGTH) + BODY[:5]][number % 4])
meanwhile = ask()[0]

def is_ended(connection):
    connection.settimeout(40)
    try:
        while connection.recv(1 << 16):
            pass
    except TimeoutError:
        return False
    except OSError:
        pass
    return True

report([meanwhile, sum(map(is_ended, slow))])
"""
    attacked = attack(program, head_seconds=3.0, body_seconds=3.0)
    assert attacked.said == [200, 300]
    assert len(upstream.seen) == 1


def test_two_hundred_concurrent_streams_pass(attack: Attack, upstream: Upstream) -> None:
    upstream.gather = 200
    attacked = attack("""
found = []
def stream():
    found.append(ask({**QUESTION, "stream": True}))
threads = [threading.Thread(target=stream) for _ in range(200)]
for thread in threads: thread.start()
for thread in threads: thread.join()
report([[status, text.count("data: "), text[-14:]] for status, text in found])
""")
    assert upstream.most_open == 200
    assert attacked.said == [attacked.said[0]] * 200
    assert attacked.said[0][0] == 200
    assert attacked.said[0][2] == "data: [DONE]\n\n"
    assert attacked.totals["calls"] == 200


def test_connections_above_the_limit_wait_and_do_not_fail(attack: Attack, upstream: Upstream) -> None:
    attacked = attack("""
idle = [connect() for _ in range(500)]
answers = []
threads = [threading.Thread(target=lambda: answers.append(ask()[0])) for _ in range(60)]
for thread in threads: thread.start()
time.sleep(1)  # most of them wait by now
for connection in idle: connection.close()
for thread in threads: thread.join()
report(answers)
""")
    assert attacked.said == [200] * 60


def test_a_call_that_the_agent_cancels_is_cancelled_at_the_provider(attack: Attack, upstream: Upstream) -> None:
    upstream.endless = True
    attacked = attack("""
body = json.dumps({**QUESTION, "stream": True}).encode()
with connect() as connection:
    connection.sendall(head(f"Content-Length: {len(body)}") + body)
    connection.recv(1 << 16)
time.sleep(3)
report("gone")
""")
    assert attacked.said == "gone"
    assert (upstream.open, upstream.cancelled) == (0, 1)
    (call,) = read_calls(attacked.run_dir)
    assert call["error"] == "cancelled by the client"


# A malicious provider.


def test_a_providers_decompression_bomb_is_an_error(attack: Attack, upstream: Upstream) -> None:
    upstream.bomb = gzip.compress(b"0" * (1 << 28), 1)
    attacked = attack("""
found = [ask()[0]]
try:
    found += [ask({**QUESTION, "stream": True})[0]]
except (http.client.IncompleteRead, ConnectionError) as error:
    found += ["broken off"]
report(found)
""")
    assert attacked.said == [502, "broken off"]
    assert all(
        "is larger than" in call["error"] or "too large" in call["error"] for call in read_calls(attacked.run_dir)
    )


def test_a_provider_that_reports_false_usage_does_not_extend_the_budget(attack: Attack, upstream: Upstream) -> None:
    upstream.usage = {"prompt_tokens": -(10**9), "completion_tokens": -(10**9), "total_tokens": 0}
    attacked = attack("report([ask()[0] for _ in range(4)])", limits=BudgetLimits(max_tokens=40_000))
    # Unknown usage counts as reserved, so at most two calls of this model fit.
    assert attacked.said[0] == 200
    assert attacked.said[-1] == 402
    assert attacked.totals["budget_ended"] == "--max-tokens=40,000"
    assert attacked.totals["calls_of_unknown_usage"] == attacked.said.count(200)
    assert attacked.totals["tokens"]["input"] == 0


def test_an_endless_stream_is_ended(attack: Attack, upstream: Upstream) -> None:
    upstream.endless = True
    program = """
try:
    report(ask({**QUESTION, "stream": True}))
except (http.client.IncompleteRead, ConnectionError) as error:
    report(type(error).__name__)
"""
    attacked = attack(program, call_seconds=2.0)
    assert attacked.said in ("IncompleteRead", "ConnectionResetError")
    (call,) = read_calls(attacked.run_dir)
    assert call["error"].startswith("the stream was interrupted")
    assert call["cost"] is None


# Provider features that use the internet.


def test_the_providers_tools_are_withheld_in_every_form(attack: Attack, upstream: Upstream) -> None:
    attacked = attack("""
def chat(**more): return CHAT, {**QUESTION, **more}
def responses(**more): return "/openai/v1/responses", {"model": "gpt-5", "input": "x", **more}
def router(**more): return "/openrouter/v1/chat/completions", {**QUESTION, **more}
def messages(**more):
    return MESSAGES, {"model": "claude-sonnet-4-6", "max_tokens": 9, **said({"type": "text", "text": "x"}), **more}
def gemini(**more): return GENERATE, {"contents": [{"parts": [{"text": "x"}]}], **more}
def compatible(**more): return "/gemini-openai/v1/chat/completions", {**QUESTION, "model": "gemini-2.5-pro", **more}
def said(*parts): return {"messages": [{"role": "user", "content": list(parts)}]}

withheld = [
    chat(tools=[{"type": "web_search"}]), chat(tools=[{"type": "WEB_SEARCH"}]), chat(tools=[{"type": "function "}]),
    chat(tools=[{"type": "web\\u005fsearch"}]), chat(tools=[{"type": None}]), chat(tools=[{"type": ["function"]}]),
    chat(tools=[{"type": "browser_search"}]), chat(web_search_options={}), chat(search_parameters={"mode": "on"}),
    responses(tools=[{"type": "web_search_preview"}]), responses(tools=[{"type": "code_interpreter"}]),
    responses(tools=[{"type": "mcp", "server_url": "https://example.org"}]),
    responses(tools=[{"type": "custom", "connector_id": "connector_gmail"}]),
    responses(tools=[{"type": "namespace", "tools": [{"type": "namespace", "tools": [{"type": "web_search"}]}]}]),
    responses(tools=[{"type": "image_generation"}]), responses(tools=[{"type": "shell"}]),
    router(plugins=[{"id": "web"}]), router(tools=[{"type": "openrouter:web_search"}]),
    messages(tools=[{"type": "web_search_20250305", "name": "bash"}]), messages(mcp_servers=[{"type": "url"}]),
    messages(container={"skills": []} | {"id": "x"}), messages(tools=[{"type": "mcp_toolset", "mcp_server_name": "x"}]),
    messages(tools=[{"type": "code_execution_20250825", "name": "x"}]),
    gemini(tools=[{"googleSearch": {}}]), gemini(tools=[{"google_search": {}}]), gemini(tools={"urlContext": {}}),
    gemini(tools=[{"functionDeclarations": [], "codeExecution": {}}]), gemini(tools=[{"mcpServers": []}]),
    gemini(tools=[{"fileSearch": {}}]), gemini(tools=[{"googleMaps": {}}]),
    compatible(extra_body={"google": {"tools": [{"googleSearch": {}}]}}), compatible(tools=[{"type": "google_search"}]),
]
refused = [
    chat(model="gpt-4o-search-preview"), chat(Web_Search_Options={}), chat(TOOLS=[{"type": "web_search"}]),
    router(model="openai/gpt-4o:online"), router(model="gpt-4o", models=["openai/gpt-4o:ONLINE"]),
    router(model="@preset/browse"), router(preset="browse"), router(model="perplexity/sonar-pro"),
    router(**said({"type": "file", "file": {"file_data": "https://example.org/x.pdf"}})),
    chat(**said({"type": "image_url", "image_url": {"url": "https://example.org/x.png"}})),
    chat(**said({"type": "image_url", "image_url": {"URL": "https://example.org/x.png"}})),
    chat(**said({"type": "file", "file": {"file_id": "file-1"}})),
    chat(**said([[{"type": "video_url", "video_url": {"url": "https://example.org"}}]])),
    responses(background=True), responses(prompt={"id": "pmpt_1"}), responses(model="o3-deep-research"),
    responses(previous_response_id="resp_of_others"), responses(conversation="conv_1"),
    responses(input=[{"id": "msg_of_others"}]),
    responses(input=[{"role": "user", "content": [{"type": "input_image", "file_id": "file-1"}]}]),
    responses(tools=[{"type": "web_search"}], tool_choice="required"),
    messages(**said({"type": "image", "source": {"type": "url", "url": "https://example.org/x.png"}})),
    messages(**said({"type": "document", "source": {"type": "file", "file_id": "file_1"}})),
    messages(**said({"type": "container_upload", "file_id": "file_1"})), messages(mcpServers=[{}]),
    messages(system=[{"type": "document", "source": {"type": "url", "url": "https://example.org"}}]),
    gemini(contents=[{"parts": [{"fileData": {"fileUri": "https://example.org/x.pdf"}}]}]),
    gemini(contents=[{"parts": [{"file_data": {"file_uri": "gs://bucket/x"}}]}]),
    gemini(cachedContent="cachedContents/1"), gemini(cached_content="cachedContents/1"),
    gemini(systemInstruction={"parts": [{"fileData": {"fileUri": "https://example.org"}}]}),
    gemini(Tools=[{"googleSearch": {}}]),
]
report([[ask(body, path) for path, body in withheld], [ask(body, path) for path, body in refused]])
""")
    passed, refused = attacked.said
    assert [text for status, text in passed if status != 200] == []
    assert [text for status, text in refused if status != 400] == []
    assert all("error" in json.loads(text) for _, text in refused)
    calls = read_calls(attacked.run_dir)
    assert all(call["withheld"] for call in calls[: len(passed)])
    assert len(upstream.seen) == len(passed)
    for seen in upstream.seen:
        sent = json.dumps(seen.body).lower().replace("_", "")
        for word in (
            "search",
            "mcp",
            "codeinterpreter",
            "codeexecution",
            "urlcontext",
            "plugins",
            "shell",
            "container",
        ):
            assert word not in sent, seen.body


def test_an_unlisted_model_is_not_reachable(attack: Attack, upstream: Upstream) -> None:
    attacked = attack(
        """
found = [ask({**QUESTION, **more})[0] for more in ({}, {"model": "gpt-5"}, {"model": "GPT-5"}, {"model": ["gpt-4o"]},
    {"model": "gpt-4o", "models": ["gpt-5"]}, {"Model": "gpt-5"}, {"model": "gpt-4o\\n"}, {"model": ""})]
found += [ask({"contents": [], "model": "models/gpt-4o"}, GENERATE)[0]]
report(found)
""",
        models=("gpt-4o",),
    )
    assert attacked.said[0] == 200
    assert set(attacked.said[1:]) <= {400, 404}
    assert {seen.body["model"] for seen in upstream.seen} == {"gpt-4o"}


def test_the_gateways_socket_and_files_are_inaccessible(attack: Attack, upstream: Upstream) -> None:
    attacked = attack("""
import glob, subprocess
def reach(path):
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(path)
            return "open"
        except OSError as error:
            return type(error).__name__
folder = "/opt/mlebench/private"
found = [reach(f"{folder}/harness/llm.sock"), reach("/proc/1/root" + folder + "/harness/llm.sock")]
found += glob.glob(folder + "/*") + glob.glob("/proc/1/fd/*")
found += [path for path in ("/home/llm", "/home/logs/llm") if os.path.exists(path)]
report(found)
""")
    assert attacked.said == ["PermissionError", "PermissionError"]
    assert REPLY not in (attacked.run_dir / "run.log").read_text()
