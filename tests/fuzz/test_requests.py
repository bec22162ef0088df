"""Servers answer or reject any bytes that an agent sends, and keep running."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_mlebench.llm.accounting import GatewaySettings
from pytest_mlebench.llm.budget import BudgetLimits
from pytest_mlebench.llm.gateway import Gateway
from pytest_mlebench.llm.providers import APIS
from pytest_mlebench.llm.requests import Admission, Refusal, Target, parse_body
from pytest_mlebench.sandbox.channels import ControlChannel, ControlChannelClosed, parse_message
from pytest_mlebench.sandbox.checker import SubmissionChecker
from pytest_mlebench.sandbox.network.policy import Destination, as_address
from pytest_mlebench.sandbox.network.proxy import Proxy, Refused, read_request, server_name
from tests.fuzz.bounded import fuzzing, limited_time, run_limited

pytestmark = pytest.mark.full

WORDS = [
    *(
        b"GET ",
        b"POST ",
        b"CONNECT ",
        b"PRI ",
        b"PUT ",
        b" HTTP/1.1\r\n",
        b" HTTP/1.0\r\n",
        b" HTTP/9.9\r\n",
        b"\r\n",
        b"\r\n\r\n",
    ),
    *(b"\n", b"\n\n", b" ", b"\t", b"\0", b"\xff", b":", b"/", b"*", b"@", b"\\", b"%00", b"[::1]", b"#", b"?"),
    *(
        b"http://127.0.0.1:9/",
        b"http://127.0.0.1:9/a?b=c",
        b"127.0.0.1:9",
        b"api.test:0",
        b"api.test:99999",
        b"[::ffff:127.0.0.1]:443",
    ),
    *(
        b"Host: plain.test\r\n",
        b"Host: 127.0.0.1:9\r\nHost: other\r\n",
        b"Content-Length: 5\r\n",
        b"Content-Length: -1\r\n",
    ),
    *(
        b"Content-Length: 99999999999999999999\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"transfer-encoding: chunked, gzip\r\n",
    ),
    *(b"5\r\nhello\r\n0\r\n\r\n", b"ffffffffffffffffff\r\n", b"Upgrade: websocket\r\nConnection: Upgrade\r\n"),
    *(
        b"Expect: 100-continue\r\n",
        b"Content-Type: multipart/form-data; boundary=x\r\n",
        b"--x\r\n",
        b"--x--\r\n",
        b"/validate",
        b"/health",
    ),
    *(
        b'Content-Disposition: form-data; name="file"\r\n\r\nid,x\n1,2\n',
        b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00",
        b"SM\r\n\r\n",
    ),
    *(
        b"/openai/v1/chat/completions",
        b"/anthropic/v1/messages",
        b"/gemini/v1beta/models/x:generateContent",
        b"Authorization: Bearer x\r\n",
    ),
    *(b'{"model": "m"}', b"[" * 3000, b'{"a":' * 2000, b"Cookie: " + b"x" * 9000 + b"\r\n", b" folded\r\n", b"chunked"),
]
PIECES = st.one_of(
    st.sampled_from(WORDS),
    st.binary(max_size=20),
    st.tuples(st.sampled_from(WORDS[:30]), st.integers(1, 3000)).map(lambda pair: pair[0] * pair[1]),
)
REQUESTS = st.one_of(
    st.lists(PIECES, max_size=25).map(b"".join),
    st.tuples(
        st.sampled_from(
            [b"GET http://127.0.0.1:9/", b"CONNECT 127.0.0.1:9", b"POST /validate", b"POST /openai/v1/chat/completions"]
        ),
        st.lists(PIECES, max_size=8).map(b"".join),
        st.lists(PIECES, max_size=5).map(b"".join),
    ).map(lambda parts: parts[0] + b" HTTP/1.1\r\n" + parts[1] + b"\r\n\r\n" + parts[2]),
)


def read(data: bytes, parse: Callable[[asyncio.StreamReader], object]) -> None:
    async def run() -> None:
        reader = asyncio.StreamReader(limit=1 << 16)
        reader.feed_data(data)
        reader.feed_eof()
        await parse(reader)  # type: ignore[misc]

    asyncio.run(run())


def talk(path: Path, data: bytes, *, end: bool = True) -> bytes:
    """Send bytes to a server on a Unix socket, and return its response. ``end`` closes the sending side."""
    answer = b""
    with closing(socket.socket(socket.AF_UNIX)) as connection:
        connection.settimeout(20)
        connection.connect(str(path))
        with suppress(OSError):  # the server may close first
            connection.sendall(data)
            if end:
                connection.shutdown(socket.SHUT_WR)
        with suppress(ConnectionError):
            while block := connection.recv(1 << 16):
                answer += block
    return answer


class Complaints(logging.Handler):
    """Collects logged unexpected exceptions."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and "connection broke" not in record.getMessage():
            self.found.append(self.format(record))


def test_any_request_to_the_proxy_is_parsed_or_rejected() -> None:
    @fuzzing
    @given(REQUESTS)
    def fuzz(data: bytes) -> None:
        async def parse(reader: asyncio.StreamReader) -> None:
            request = await read_request(reader)
            assert request.host == request.host.lower() and 0 <= request.port < 1 << 16
            if not request.is_connect:
                sent = b"".join([block async for block in request.direct_form()])
                head = sent.partition(b"\r\n\r\n")[0].lower().split(b"\r\n")
                assert [line for line in head if line.startswith(b"host:")] == [head[1]]
                assert not (b"content-length" in b"".join(head[1:]) and b"transfer-encoding:" in b"".join(head[1:]))

        with limited_time(), suppress(Refused):
            read(data, parse)

    run_limited(fuzz)


def test_any_client_hello_is_for_the_host_or_rejected() -> None:
    records = st.tuples(st.sampled_from([22, 22, 22, 23, 0]), st.binary(max_size=4), st.binary(max_size=300)).map(
        lambda parts: bytes([parts[0], 3, 1]) + len(parts[2]).to_bytes(2) + parts[2] + parts[1]
    )
    hello = st.tuples(st.binary(max_size=40), st.integers(0, 400), st.integers(0, 400)).map(
        lambda parts: (
            b"\x01"
            + (38 + len(parts[0])).to_bytes(3)
            + bytes(34)
            + parts[0]
            + parts[1].to_bytes(2)
            + parts[2].to_bytes(2)
        )
    )
    framed = hello.map(lambda body: b"\x16\x03\x01" + len(body).to_bytes(2) + body)

    @fuzzing
    @given(st.one_of(st.lists(st.one_of(records, framed), max_size=4).map(b"".join), REQUESTS))
    def fuzz(data: bytes) -> None:
        with limited_time(), suppress(Refused):
            read(data, lambda reader: server_name(reader, "api.test"))

    run_limited(fuzz)


def test_the_proxy_answers_any_bytes_or_closes(tmp_path: Path) -> None:
    path = tmp_path / "proxy.sock"

    @fuzzing
    @given(st.lists(REQUESTS, min_size=1, max_size=3))
    def fuzz(requests: list[bytes]) -> None:
        for data in requests:
            with limited_time():
                answer = talk(path, data)
            assert not answer or answer.startswith(b"HTTP/1.1 "), answer[:100]

    def with_proxy() -> None:
        complaints = Complaints()
        logging.getLogger("pytest_mlebench").addHandler(complaints)
        logging.getLogger("pytest_mlebench").setLevel(logging.DEBUG)
        with Proxy(
            [Destination.parse("127.0.0.1:9"), Destination.parse("http://127.0.0.1:9")], unix_socket=path
        ) as proxy:
            fuzz()
            assert talk(path, b"GET http://other.test/ HTTP/1.1\r\nHost: other.test\r\n\r\n").startswith(
                b"HTTP/1.1 403"
            )
        assert not complaints.found, complaints.found[0]
        assert len(json.dumps([connection.reason for connection in proxy.connections])) < 600 * 1000

    run_limited(with_proxy)


def test_the_checker_answers_any_bytes_or_closes(tmp_path: Path) -> None:
    path = tmp_path / "checker.sock"

    @fuzzing
    @example(b"POST /validate HTTP/1.1\r\nContent-Type: multipart/form-data; boundary=x\r\nContent-Length: 3\r\n\r\nab")
    @given(REQUESTS)
    def fuzz(data: bytes) -> None:
        with limited_time():
            answer = talk(path, data)
        assert b"The checker failed" not in answer

    def with_checker() -> None:
        complaints = Complaints()
        logging.getLogger("pytest_mlebench").addHandler(complaints)
        options = {"step": 0.001, "requests_per_minute": 1 << 30, "max_bytes": 5000}
        with SubmissionChecker(lambda file: file.read_text("latin-1")[:10], unix_socket=path, **options):  # type: ignore[arg-type]
            fuzz()
            assert b"running" in talk(path, b"GET /health HTTP/1.1\r\nConnection: close\r\n\r\n")
        assert not complaints.found, complaints.found[0]

    run_limited(with_checker)


def test_the_gateway_answers_any_bytes_or_closes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "llm.sock"
    monkeypatch.setenv("OPENAI_API_KEY", "sk-" + "k" * 30)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")  # nothing listens there

    def with_gateway() -> None:
        complaints = Complaints()
        logging.getLogger("pytest_mlebench").addHandler(complaints)
        settings = GatewaySettings(limits=BudgetLimits(max_calls=0))
        with ExitStack() as stack:
            gateway = stack.enter_context(
                Gateway(settings, settings.providers.values(), run_dir=tmp_path, unix_socket=path)
            )
            known = f"Authorization: Bearer {gateway.token}\r\n".encode()

            @fuzzing
            @given(REQUESTS)
            def fuzz(data: bytes) -> None:
                data = data.replace(b"Authorization: Bearer x\r\n", known).replace(
                    b" HTTP/1.1\r\n", b" HTTP/1.1\r\n" + known, 1
                )
                with limited_time():
                    answer = talk(path, data)
                assert b"the gateway failed" not in answer and b" 500 " not in answer[:20]

            fuzz()
            right = b"GET /openai/v1/nothing HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + known + b"\r\n"
            assert b" 404 " in talk(path, right, end=False)[:20]
        assert not complaints.found, complaints.found[0]

    run_limited(with_gateway)


JSON = st.recursive(
    st.one_of(
        *(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=10)),
        st.sampled_from(
            [10**4000, -1, "user", "image_url", "data:image/png;base64,AAAA", "web_search", "text", "http://x/"]
        ),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.one_of(
                st.text(max_size=5),
                st.sampled_from(["type", "content", "role", "parts", "text", "name", "image_url", "url"]),
            ),
            inner,
            max_size=3,
        ),
    ),
    max_leaves=10,
)
KEYS = [
    *(
        "model",
        "messages",
        "tools",
        "input",
        "system",
        "contents",
        "stream",
        "max_tokens",
        "max_completion_tokens",
        "n",
        "stop",
    ),
    *(
        "max_output_tokens",
        "generationConfig",
        "tool_choice",
        "stream_options",
        "mcp_servers",
        "service_tier",
        "response_format",
    ),
    *(
        "systemInstruction",
        "toolConfig",
        "thinking",
        "modalities",
        "web_search_options",
        "include",
        "background",
        "previous_response_id",
    ),
]
PATHS = [
    *(("openai", path) for path in ("/chat/completions", "/responses", "/embeddings", "/models", "/completions")),
    *(("anthropic", path) for path in ("/v1/messages", "/v1/messages/count_tokens", "/v1/models")),
    *(
        ("gemini", f"/v1beta/models/gemini-x:{verb}")
        for verb in ("generateContent", "streamGenerateContent", "countTokens")
    ),
]


def test_any_body_for_a_model_is_parsed_or_rejected() -> None:
    @fuzzing
    @given(st.sampled_from(PATHS), st.dictionaries(st.sampled_from(KEYS), JSON, max_size=5))
    def fuzz(place: tuple[str, str], body: dict[str, object]) -> None:
        flavour = APIS[place[0]]
        with limited_time(), suppress(Refusal):
            if (endpoint := flavour.endpoint("POST", place[1])) is None:
                return
            parsed = parse_body(json.dumps(body).encode())
            admission = Admission(model="gemini-x")
            made = flavour.admit(endpoint, parsed, admission)
            flavour.expected(endpoint, made, 100, admission)
            flavour.ask_for_usage(endpoint, made)
            json.dumps(made, allow_nan=False)

    run_limited(fuzz)


def test_any_target_and_body_is_parsed_or_rejected() -> None:
    @fuzzing
    @given(st.text(max_size=60), st.one_of(st.binary(max_size=100), REQUESTS))
    def fuzz(text: str, data: bytes) -> None:
        with limited_time(), suppress(Refusal):
            target = Target.of("/" + text)
            assert not target.provider or not set(target.path) & set("%\\;#")
            parse_body(data)

    run_limited(fuzz)


def test_any_endpoint_and_address_is_parsed_or_rejected() -> None:
    from pytest_mlebench.errors import MLEBenchError

    parts = st.sampled_from(
        ["http://", "https://", "*.", "*", "a.test", ":", "443", "[", "]", "::1", "/", "@", "\0", "127.1", "0x7f", "%"]
    )

    @fuzzing
    @given(st.one_of(st.text(max_size=30), st.lists(parts, max_size=6).map("".join)))
    def fuzz(text: str) -> None:
        with limited_time():
            as_address(text)
            with suppress(MLEBenchError):
                assert not Destination.parse(text).admits("other.example.org", 443) or "*" in text or "other" in text

    run_limited(fuzz)


MESSAGES = st.one_of(
    st.binary(max_size=60),
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.sampled_from(["SIGKILL", "SIGX", 10**4000])),
        lambda inner: st.dictionaries(
            st.sampled_from(["exit_code", "signal", "started", "oom_kills"]), inner, max_size=4
        ),
        max_leaves=6,
    ).map(lambda values: json.dumps(values).encode() if values != 10**4000 else b"9" * 4000),
    st.tuples(st.sampled_from([b"[", b'{"exit_code":', b"9", b" "]), st.integers(1, 9000)).map(lambda p: p[0] * p[1]),
)


def send(container: socket.socket, data: bytes, size: int) -> None:
    with suppress(OSError):
        for start in range(0, len(data), size):
            container.sendall(data[start : start + size])
        container.shutdown(socket.SHUT_WR)


def test_any_invalid_message_closes_the_control_channel(tmp_path: Path) -> None:
    @fuzzing
    @given(st.lists(MESSAGES, max_size=4), st.integers(1, 4000))
    def fuzz(messages: list[bytes], size: int) -> None:
        for message in messages:
            with limited_time(), suppress(ControlChannelClosed):
                parse_message(message)
        path = tmp_path / "control.sock"
        path.unlink(missing_ok=True)
        with limited_time(), ControlChannel(path) as channel, closing(socket.socket(socket.AF_UNIX)) as container:
            container.connect(str(path))
            channel.accept(timeout=5, alive=lambda: True)
            sending = threading.Thread(target=send, args=(container, b"\n".join(messages) + b"\n", size))
            sending.start()
            with suppress(ControlChannelClosed):
                while channel.receive(5) is not None:
                    pass
            container.shutdown(socket.SHUT_RDWR)
            sending.join()

    run_limited(fuzz)
