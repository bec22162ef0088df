"""Hosts that an agent reaches under each network policy, and traffic that the proxy allows."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_mlebench.agents.registry import Launch
from pytest_mlebench.errors import SandboxError
from pytest_mlebench.sandbox.network.policy import Destination, endpoints
from pytest_mlebench.sandbox.network.proxy import Proxy, Refused, server_name
from pytest_mlebench.sandbox.redaction import Redactor
from pytest_mlebench.sandbox.wiring import Wiring
from tests.sandbox.scripted import Runner, docker_sandbox, make_runner, script_agent


class Server(ThreadingHTTPServer):
    """A local model endpoint that answers in three parts at intervals of 0.2 s."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Parts)
        self.seen: list[tuple[str, str, str]] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self.server_address[1])


class _Parts(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.server.seen.append((self.headers["Host"], self.path, body))
        self.send_response(200)
        self.end_headers()
        for part in range(3):
            self.wfile.write(f"data: {part}\n".encode())
            self.wfile.flush()
            time.sleep(0.2)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        yield server
        server.shutdown()


# --- in containers


@pytest.mark.docker
def test_a_bundled_agent_reaches_its_listed_hosts_and_the_record_shows_them(
    run_in_container: Runner, server: Server
) -> None:
    listed = f"host.docker.internal:{server.port}"
    agent = replace(script_agent(), llm_hosts=(f"http://{listed}",), bundled=True)
    result = run_in_container(
        f"curl -sN -d hello http://{listed}/v1/chat?x=1; "
        "curl -s -o /dev/null -w '%{http_code}' http://other.example.com/; "
        "curl -s https://other.example.com/ || echo ' refused'",
        agent=agent,
    )
    assert result.log == "data: 0\ndata: 1\ndata: 2\n403 refused\n"
    assert server.seen == [(listed, "/v1/chat?x=1", "hello")]
    allowed, *refused = result.execution.sandbox.connections
    assert (allowed.host, allowed.port, allowed.allowed) == ("host.docker.internal", server.port, True)
    assert allowed.received > 20
    assert allowed.sent > 20
    assert [(entry.host, entry.port, entry.allowed) for entry in refused] == [
        ("other.example.com", 80, False),
        ("other.example.com", 443, False),
    ]


@pytest.mark.docker
def test_more_hosts_can_be_allowed_for_a_session(docker_engine: None, server: Server, tmp_path: Path) -> None:
    listed = f"host.docker.internal:{server.port}"
    run = make_runner(docker_sandbox(allow_hosts=(f"http://{listed}",)), tmp_path)
    assert "data: 2" in run(f"curl -s -d x http://{listed}/").log


@pytest.mark.docker
def test_the_host_of_a_bundled_agents_base_url_is_allowed(run_in_container: Runner, server: Server) -> None:
    result = run_in_container(
        "curl -s -d x $OPENAI_BASE_URL/chat",
        agent=replace(script_agent(), bundled=True),
        environment={"OPENAI_BASE_URL": f"http://host.docker.internal:{server.port}/v1"},
    )
    assert "data: 2" in result.log


@pytest.mark.docker
@pytest.mark.parametrize(("network", "interfaces"), [("none", ["lo"]), ("llm", ["lo"]), ("full", ["eth0", "lo"])])
def test_the_checker_answers_under_every_policy(
    network: str, interfaces: list[str], docker_engine: None, tmp_path: Path
) -> None:
    run = make_runner(docker_sandbox(network=network), tmp_path)
    result = run("ls /sys/class/net; curl -s $VALIDATION_URL/health; curl -s http://localhost:5000/health")
    assert result.log.split()[: len(interfaces)] == interfaces
    assert result.log.count('{"status": "running"}') == 2
    assert result.execution.sandbox.network == network


@pytest.mark.docker
def test_without_a_network_there_is_no_proxy(docker_engine: None, tmp_path: Path) -> None:
    run = make_runner(docker_sandbox(network="none"), tmp_path)
    result = run("env | grep -i proxy; curl -s -x http://localhost:3128 http://example.com/ || echo nothing there")
    assert result.log == "nothing there\n"
    assert not result.execution.sandbox.connections


@pytest.mark.docker
def test_with_the_full_network_runs_do_not_reach_each_other(docker_engine: None, tmp_path: Path) -> None:
    run = make_runner(docker_sandbox(network="full"), tmp_path)
    server = run.task("hostname -I > $SUBMISSION_DIR/address; hostname -I; timeout 8 python3 -m http.server 8000")
    thread = threading.Thread(target=run.sandbox.run, args=(server,))
    thread.start()
    log = server.run_dir / "run.log"
    try:
        while not (log.exists() and log.read_text().strip()):
            time.sleep(0.05)
        address = log.read_text().split()[0]
        time.sleep(1)
        result = run(f"curl -s -m 3 -o /dev/null http://{address}:8000/ && echo reached || echo apart")
    finally:
        thread.join()
    assert result.log == "apart\n"


@pytest.mark.docker
def test_an_unknown_policy_is_an_error(docker_engine: None) -> None:
    with pytest.raises(SandboxError, match="none"):
        docker_sandbox(network="internet")


# --- allowed hosts


def test_hosts_and_urls_are_parsed() -> None:
    assert Destination.parse("API.OpenAI.com") == Destination("api.openai.com", 443)
    assert Destination.parse("localhost:8000") == Destination("localhost", 8000)
    assert Destination.parse("http://model.local/v1") == Destination("model.local", 80, plain=True)
    assert Destination.parse("https://x.example:8443/v1") == Destination("x.example", 8443)
    assert Destination.parse("[::1]:80") == Destination("::1", 80)


@pytest.mark.parametrize("text", ["", "*", "*.", "a b", "exa mple.com", "host:port", "http://", "a*b.com", "*.*.com"])
def test_an_invalid_host_is_an_error(text: str) -> None:
    with pytest.raises(SandboxError):
        Destination.parse(text)


def test_an_endpoint_admits_only_itself() -> None:
    endpoint = Destination.parse("api.openai.com")
    assert endpoint.admits("API.openai.com.", 443)
    for host in ("openai.com", "xapi.openai.com", "api.openai.com.evil.net", "evil.net/api.openai.com"):
        assert not endpoint.admits(host, 443)
    assert not endpoint.admits("api.openai.com", 80)


def test_a_wildcard_admits_its_subdomains() -> None:
    endpoint = Destination.parse("*.openai.azure.com")
    assert endpoint.admits("mine.openai.azure.com", 443)
    assert not endpoint.admits("openai.azure.com", 443)
    assert not endpoint.admits("evilopenai.azure.com", 443)


def test_a_bundled_agent_that_lists_hosts_has_only_those() -> None:
    agent = replace(script_agent(), llm_hosts=("a.example",), env_vars={"K": "${{ secrets.OPENAI_API_KEY }}"})
    assert list(map(str, endpoints(replace(agent, bundled=True), Launch()))) == ["a.example:443"]
    with pytest.raises(SandboxError, match=r"allow it with --allow-host=a\.example:443"):
        endpoints(agent, Launch())
    assert list(map(str, endpoints(agent, Launch(), ["*.example"]))) == ["*.example:443"]


def test_an_agent_that_lists_no_hosts_has_the_providers_of_its_keys() -> None:
    agent = replace(
        script_agent(),
        env_vars={
            "OPENAI_API_KEY": "${{ secrets.OPENAI_API_KEY }}",
            "KEY": "${{ secrets.ANTHROPIC_API_KEY }}",
            "OTHER": "${{ secrets.SOMETHING }}",
        },
    )
    assert set(map(str, endpoints(agent, Launch()))) == {"api.openai.com:443", "api.anthropic.com:443"}


def test_an_agent_without_keys_has_no_host() -> None:
    assert endpoints(script_agent(), Launch()) == ()


@pytest.mark.parametrize(
    "host",
    [
        *("localhost", "LOCALHOST.", "a.localhost", "127.0.0.1", "127.9.9.9", "[::1]", "0.0.0.0", "0.1.2.3", "[::]"),
        *("2130706433", "127.1", "[::ffff:127.0.0.1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]"),
        *("169.254.169.254", "http://169.254.169.254/latest", "metadata.google.internal", "[fd00:ec2::254]"),
        *("100.100.100.200", "168.63.129.16", "[fe80::1]", "224.0.0.1", "[ff02::1]"),
        *("*.com", "*.uk", "*.co.uk", "*.com.au", "*.localhost", "*.internal"),
    ],
)
def test_an_agent_may_not_list_local_or_metadata_addresses_or_top_level_domains(host: str) -> None:
    with pytest.raises(SandboxError, match="llm_hosts may not name"):
        endpoints(replace(script_agent(), llm_hosts=(host,)), Launch())


def test_addresses_of_this_machine_may_not_be_listed() -> None:
    own = [str(entry[4][0]) for entry in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)]
    for address in own:
        with pytest.raises(SandboxError, match="llm_hosts may not name"):
            endpoints(replace(script_agent(), llm_hosts=(address,)), Launch())


@pytest.mark.parametrize(
    "host", ["api.openai.com", "*.openai.azure.com", "*.example.co.uk", "10.9.8.7:8000", "[fd00::5]"]
)
def test_a_bundled_agent_may_list_a_provider_or_a_private_model_server(host: str) -> None:
    assert len(endpoints(replace(script_agent(), llm_hosts=(host,), bundled=True), Launch())) == 1


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "EVIL.example.", "evil.example:8443", "http://evil.example", "https://user@evil.example/v1"),
        *("api.openai.com.evil.example", "xapi.openai.com", "*.openai.com", "*.evil.example"),
        *("host.docker.internal", "http://host.docker.internal:8080", "HOST.docker.internal.:11434"),
        *("10.0.0.5", "192.168.1.1:8000", "172.31.255.254", "[fd00::5]", "[::ffff:10.0.0.5]", "8.8.8.8"),
    ],
)
def test_a_listed_host_needs_the_permission_that_the_error_names(host: str) -> None:
    agent = replace(script_agent(), llm_hosts=(host,))
    with pytest.raises(SandboxError, match="wants to reach") as caught:
        endpoints(agent, Launch())
    option = re.search(r"--allow-host=(\S+)", str(caught.value))
    assert option is not None
    assert len(endpoints(agent, Launch(), [option[1]])) == 1


def test_a_variable_needs_the_same_permission() -> None:
    environment = {"MY_MODEL_BASE_URL": "https://evil.example/v1"}
    with pytest.raises(SandboxError, match=r"--allow-host=evil\.example:443"):
        endpoints(script_agent(), Launch(environment=environment))


@pytest.mark.parametrize(
    "permitted", ["evil.example:8443", "http://evil.example:80", "*.evil.example", "evil.example.org"]
)
def test_a_permission_is_for_one_host_port_and_protocol(permitted: str) -> None:
    with pytest.raises(SandboxError, match="wants to reach"):
        endpoints(replace(script_agent(), llm_hosts=("evil.example",)), Launch(), [permitted])


@pytest.mark.parametrize("host", ["api.openai.com", "api.openai.com:22", "http://api.groq.com", "openrouter.ai"])
def test_a_providers_host_is_not_reached_directly_without_its_key(host: str) -> None:
    assert endpoints(replace(script_agent(), llm_hosts=(host,)), Launch()) == ()


def test_a_base_url_may_not_be_the_metadata_address_and_localhost_needs_no_proxy() -> None:
    with pytest.raises(SandboxError, match=r"^OPENAI_BASE_URL may not name .* credentials"):
        endpoints(script_agent(), Launch(environment={"OPENAI_BASE_URL": "http://169.254.169.254/v1"}))
    assert endpoints(script_agent(), Launch(environment={"OPENAI_BASE_URL": "http://localhost:8000/v1"})) == ()


# --- the proxy alone


class Client:
    """Connects to a proxy like a container's relay."""

    def __init__(self, folder: Path, *allowed: str, **options: Any) -> None:
        self.path = folder / "proxy.sock"
        self.proxy = Proxy(map(Destination.parse, allowed), unix_socket=self.path, **options)

    def __enter__(self) -> Client:
        self.proxy.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.proxy.__exit__()

    def send(self, *parts: bytes, answer_between: bool = False) -> bytes:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(10)
            connection.connect(str(self.path))
            answer = b""
            for part in parts:
                connection.sendall(part)
                if answer_between:
                    answer += connection.recv(1 << 16)
            while block := connection.recv(1 << 16):
                answer += block
            return answer


@pytest.mark.parametrize("iterations", range(6))
def test_a_connection_that_is_accepted_last_is_closed(iterations: int, tmp_path: Path) -> None:
    async def stop(client: Client) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(10)
        connection.connect(str(client.path))
        for _ in range(iterations):
            await asyncio.sleep(0)
        await client.proxy._stop()
        return connection

    with Client(tmp_path) as client:
        stopping = asyncio.run_coroutine_threadsafe(stop(client), client.proxy._loop)
        with contextlib.closing(stopping.result(10)) as connection, contextlib.suppress(ConnectionResetError):
            assert connection.recv(1) == b""


def _hello(name: str | None) -> bytes:
    """The first message of a real TLS client."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    context.check_hostname = False
    connection = context.wrap_bio(incoming, outgoing, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        connection.do_handshake()
    return outgoing.read()


async def _checked(sent: bytes, host: str) -> bytes:
    reader = asyncio.StreamReader()
    reader.feed_data(sent)
    reader.feed_eof()
    return await server_name(reader, host)


def test_tls_for_the_listed_host_is_forwarded_unchanged() -> None:
    hello = _hello("api.openai.com")
    assert asyncio.run(_checked(hello, "api.openai.com")) == hello
    split = b"".join(b"\x16\x03\x01" + len(part).to_bytes(2) + part for part in (hello[5:60], hello[60:]))
    assert asyncio.run(_checked(split, "API.openai.com")) == split  # a ClientHello in two records


@pytest.mark.parametrize(
    "sent",
    [
        _hello("evil.example"),
        _hello(None),
        b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00",
        b"\x16\x03\x01\xff\xff" + b"\x01\xff\xff\xff" + bytes(100_000),
        b"",
        _hello("api.openai.com")[:100],
    ],
    ids=["other host", "no host", "http", "ssh", "short", "huge", "nothing", "cut"],
)
def test_other_data_is_not_forwarded(sent: bytes) -> None:
    with pytest.raises(Refused):
        asyncio.run(_checked(sent, "api.openai.com"))


def test_a_tunnel_to_a_shared_front_end_cannot_request_another_host(tmp_path: Path) -> None:
    with Client(tmp_path, "localhost") as client:
        answer = client.send(
            b"CONNECT localhost:443 HTTP/1.1\r\nHost: x\r\n\r\n", _hello("evil.example"), answer_between=True
        )
    assert answer.startswith(b"HTTP/1.1 200")
    assert client.proxy.connections[0].allowed is False
    assert "evil.example" in client.proxy.connections[0].reason


@pytest.mark.parametrize(
    "line",
    [
        b"CONNECT evil.example:443 HTTP/1.1",
        b"CONNECT api.openai.com:22 HTTP/1.1",
        b"CONNECT api.openai.com@evil.example:443 HTTP/1.1",
        b"CONNECT api.openai.com HTTP/1.1",
        b"CONNECT [::1]:443 HTTP/1.1",
        b"GET http://api.openai.com@evil.example/ HTTP/1.1",
        b"GET http://api.openai.com/ HTTP/1.1",
        b"GET http://evil.example#@api.openai.com:443/ HTTP/1.1",
        b"GET http://evil.example\\@api.openai.com:443/ HTTP/1.1",
        b"GET ftp://api.openai.com:443/ HTTP/1.1",
        b"GET file:///etc/passwd HTTP/1.1",
        b"GET / HTTP/1.1\r\nHost: api.openai.com",
        b"nonsense",
        b"CONNECT api.openai.com:443 HTTP/1.1 x",
        b"\xff\xfe http://api.openai.com:443/ HTTP/1.1",
    ],
)
def test_unlisted_or_ambiguous_requests_are_rejected(line: bytes, tmp_path: Path) -> None:
    with Client(tmp_path, "api.openai.com") as client:
        answer = client.send(line + b"\r\nHost: x\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 403")
    assert client.proxy.connections[0].allowed is False


def _own_address() -> str:
    return str(socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)[0][4][0])


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "169.254.169.254", "::1", "fe80::1", "0.0.0.0", "0.1.2.3", "::ffff:127.0.0.1", "::127.0.0.1"),
        *("64:ff9b::a9fe:a9fe", "64:ff9b:1::7f00:1", "2002:7f00:1::1", "fd00:ec2::254", "100.100.100.200"),
        _own_address(),
    ],
)
def test_a_listed_name_cannot_resolve_to_this_machine(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lookup(host: str, port: int, *_: object, **__: object) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    with Client(tmp_path, "api.openai.com") as client:
        assert client.send(b"CONNECT api.openai.com:443 HTTP/1.1\r\nHost: x\r\n\r\n").startswith(b"HTTP/1.1 403")


SMUGGLED = b"GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n"


class Recorder:
    """A server that records every received byte and answers once."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.received: list[bytes] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self.socket.accept()
                peer.settimeout(0.5)
                data = b""
                with peer, contextlib.suppress(TimeoutError, OSError):
                    self.received.append(data)
                    while block := peer.recv(1 << 16):
                        data += block
                        self.received[-1] = data
                        if b"\r\n\r\n" in data and len(self.received) == 1:
                            peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    recorder = Recorder()
    yield recorder
    recorder.socket.close()


@pytest.mark.parametrize(
    ("head", "body"),
    [
        ("{target}Host: x", SMUGGLED),
        ("{target}Host: x\r\nContent-Length: 2", b"hi" + SMUGGLED),
        ("{target}Host: x\r\nTransfer-Encoding: chunked", b"2\r\nhi\r\n0\r\n\r\n" + SMUGGLED),
        ("{target}Host: evil.example", b""),
        ("{target}Host: x\r\nConnection: keep-alive\r\nKeep-Alive: 9", SMUGGLED),
    ],
    ids=["pipelined", "after a body", "after chunks", "another Host", "kept alive"],
)
def test_a_listed_server_gets_one_request_with_its_own_host_name(
    head: str, body: bytes, tmp_path: Path, recorder: Recorder
) -> None:
    target = f"POST http://localhost:{recorder.port}/x HTTP/1.1\r\n"
    with Client(tmp_path, f"http://localhost:{recorder.port}") as client:
        client.send(head.format(target=target).encode() + b"\r\n\r\n" + body)
    (received,) = recorder.received
    assert b"evil" not in received and b"keep-alive" not in received
    assert received.count(b"HTTP/1.1") == 1
    assert received.startswith(f"POST /x HTTP/1.1\r\nHost: localhost:{recorder.port}\r\n".encode())


@pytest.mark.parametrize(
    "fields",
    [
        b"Host: x\r\nHost: evil.example",
        b"Host: x\r\nContent-Length: 2\r\nTransfer-Encoding: chunked",
        b"Host: x\r\nContent-Length: 2\r\nContent-Length: 3",
        b"Host: x\r\nContent-Length: +2",
        b"Host: x\r\nTransfer-Encoding: xchunked",
        b"Host: x\nX: y",
        b"Host: x\rX: y",
        b"Host: x\r\n folded: y",
        b"Host : x",
        b"Host: x\r\nX-\0: y",
        b"Host: x\r\nUpgrade: h2c\r\nConnection: Upgrade",
        b"X: y",
    ],
)
def test_an_ambiguous_request_is_rejected(fields: bytes, tmp_path: Path, recorder: Recorder) -> None:
    with Client(tmp_path, f"http://localhost:{recorder.port}") as client:
        line = f"POST http://localhost:{recorder.port}/x HTTP/1.1\r\n".encode()
        assert client.send(line + fields + b"\r\n\r\nhi").startswith(b"HTTP/1.1 403")
    assert recorder.received == [] and client.proxy.connections[0].allowed is False


def test_a_tls_hello_disguised_as_a_method_does_not_pass(tmp_path: Path, recorder: Recorder) -> None:
    hello = _hello("evil.example").replace(b" ", b"_")
    with Client(tmp_path, f"localhost:{recorder.port}", f"http://127.0.0.1:{recorder.port}") as client:
        for host in ("localhost", "127.0.0.1"):
            line = b"%b http://%b:%d/ HTTP/1.1\r\nHost: x\r\n\r\n" % (hello, host.encode(), recorder.port)
            assert client.send(line).startswith(b"HTTP/1.1 403")
    assert recorder.received == []


def test_http_without_tls_needs_an_http_endpoint(tmp_path: Path, recorder: Recorder) -> None:
    with Client(tmp_path, f"localhost:{recorder.port}", "api.openai.com") as client:
        for target in (f"localhost:{recorder.port}", "api.openai.com:443"):
            answer = client.send(f"GET http://{target}/ HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            assert answer.startswith(b"HTTP/1.1 403") and b"not listed for HTTP without TLS" in answer
    assert recorder.received == []
    with pytest.raises(SandboxError, match="port of HTTPS"):
        Destination.parse("http://api.openai.com:443/")


def test_a_tunnel_carries_tls_on_every_port(tmp_path: Path, recorder: Recorder) -> None:
    with Client(tmp_path, f"localhost:{recorder.port}") as client:
        connect = f"CONNECT localhost:{recorder.port} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
        client.send(connect, b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", answer_between=True)
    assert recorder.received == [] and "not a TLS handshake" in client.proxy.connections[0].reason


@pytest.mark.parametrize(
    "host", ["a" * 64 + ".example.com", "a\0b.example.com", "a..example.com", "a" * 60_000, "*.example.com"]
)
def test_an_invalid_name_is_rejected_and_not_recorded_as_allowed(host: str, tmp_path: Path) -> None:
    with Client(tmp_path, "*.example.com") as client:
        assert client.send(f"CONNECT {host}:443 HTTP/1.1\r\nHost: x\r\n\r\n".encode()).startswith(b"HTTP/1.1 403")
    (connection,) = client.proxy.connections
    assert connection.allowed is False and len(connection.reason) < 600 and len(connection.host) < 256


def test_a_connection_that_encrypts_its_host_name_is_rejected() -> None:
    hello = _hello("api.openai.com")
    extension = b"\xfe\x0d\x00\x04\x00\x01\x00\x01"
    body = bytearray(hello[5:])
    at = 4 + 2 + 32
    at += 1 + body[at]
    at += 2 + int.from_bytes(body[at : at + 2])
    at += 1 + body[at]
    body[at : at + 2] = (int.from_bytes(body[at : at + 2]) + len(extension)).to_bytes(2)
    body[at + 2 : at + 2] = extension
    body[1:4] = (len(body) - 4).to_bytes(3)
    with pytest.raises(Refused, match="ECH"):
        asyncio.run(_checked(b"\x16\x03\x01" + len(body).to_bytes(2) + bytes(body), "api.openai.com"))


def test_methods_are_bounded_in_the_record(tmp_path: Path) -> None:
    with Client(tmp_path, "api.openai.com") as client:
        for _ in range(20):
            client.send(b"X" * 60_000 + b" http://api.openai.com/ HTTP/1.1\r\nHost: x\r\n\r\n")
    assert len(repr(client.proxy.connections)) < 20_000


def test_the_host_header_is_the_listed_host(tmp_path: Path, server: Server) -> None:
    request = f"POST http://localhost:{server.port}/x HTTP/1.1\r\nHost: evil.example\r\nProxy-Authorization: secret\r\n"
    with Client(tmp_path, f"http://localhost:{server.port}") as client:
        client.send(request.encode() + b"Content-Length: 2\r\n\r\nhi")
    assert server.seen == [(f"localhost:{server.port}", "/x", "hi")]


class Upstream(ThreadingHTTPServer):
    """A company's proxy: it requires a login, resolves model.example, and answers in its place."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Tunnel)
        self.asked: list[tuple[str, str | None]] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()


class _Tunnel(BaseHTTPRequestHandler):
    server: Upstream

    def do_CONNECT(self) -> None:
        self.server.asked.append((self.path, self.headers["Proxy-Authorization"]))
        if not self.path.startswith("model.example:"):
            self.send_error(407)
            return
        self.send_response_only(200)
        self.end_headers()
        self.connection.sendall(b"from there: " + self.connection.recv(1 << 16))

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def upstream(monkeypatch: pytest.MonkeyPatch) -> Iterator[Upstream]:
    with Upstream() as server:
        for name in ("http_proxy", "https_proxy"):
            monkeypatch.setenv(name, f"http://ada:p%40ss@127.0.0.1:{server.server_address[1]}")
        monkeypatch.setenv("no_proxy", "near.example")
        yield server
        server.shutdown()


def test_a_proxy_of_this_machine_is_used(tmp_path: Path, upstream: Upstream) -> None:
    hello = _hello("model.example")
    with Client(tmp_path, "model.example", "http://model.example", "other.example") as client:
        secure = client.send(b"CONNECT model.example:443 HTTP/1.1\r\nHost: x\r\n\r\n", hello, answer_between=True)
        plain = client.send(b"GET http://model.example/ HTTP/1.1\r\nHost: x\r\n\r\n")
        refused = client.send(
            b"CONNECT other.example:443 HTTP/1.1\r\nHost: x\r\n\r\n", _hello("other.example"), answer_between=True
        )
    assert secure.endswith(b"from there: " + hello)
    assert plain.startswith(b"from there: GET / HTTP/1.1\r\nHost: model.example\r\n")
    assert b"HTTP/1.1 502" in refused and "answered HTTP/1.0 407" in client.proxy.connections[2].reason
    login = "Basic YWRhOnBAc3M="
    assert upstream.asked == [(f"{host}.example:{port}", login) for host, port in
                              (("model", 443), ("model", 80), ("other", 443))]  # fmt: skip


@pytest.mark.parametrize(("url", "reason"), [("http://near:port", "invalid port"), ("socks5://near", "speaks socks5")])
def test_an_unusable_proxy_of_this_machine_is_reported(
    url: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", url)
    with Client(tmp_path, "model.example") as client:
        client.send(
            b"CONNECT model.example:443 HTTP/1.1\r\nHost: x\r\n\r\n", _hello("model.example"), answer_between=True
        )
    assert reason in client.proxy.connections[0].reason


def test_hosts_that_need_no_proxy_are_reached_directly(tmp_path: Path, upstream: Upstream, server: Server) -> None:
    here = [f"http://{host}:{server.port}" for host in ("localhost", "127.0.0.1")]
    with Client(tmp_path, *here, "near.example") as client:
        for place in here:
            request = f"POST {place}/x HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
            assert b"data: 2" in client.send(request.encode())
        near = client.send(b"CONNECT near.example:443 HTTP/1.1\r\nHost: x\r\n\r\n")
        unlisted = client.send(b"CONNECT model.example:443 HTTP/1.1\r\nHost: x\r\n\r\n")
    assert near.startswith(b"HTTP/1.1 502") and unlisted.startswith(b"HTTP/1.1 403")
    assert upstream.asked == []


def test_a_host_that_is_down_gives_bad_gateway(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with Client(tmp_path, f"http://127.0.0.1:{port}") as client:
        assert client.send(f"GET http://127.0.0.1:{port}/ HTTP/1.1\r\nHost: x\r\n\r\n".encode()).startswith(
            b"HTTP/1.1 502"
        )
    assert "ConnectionRefused" in client.proxy.connections[0].reason


def test_the_record_of_connections_is_bounded(tmp_path: Path) -> None:
    with Client(tmp_path, recorded=5) as client:
        for _ in range(8):
            client.send(b"CONNECT evil.example:443 HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (len(client.proxy.connections), client.proxy.unrecorded) == (5, 3)


def test_a_proxy_ends_while_connections_are_open_and_the_account_lists_them(tmp_path: Path, server: Server) -> None:
    with Client(tmp_path, f"127.0.0.1:{server.port}") as client:
        idle = socket.socket(socket.AF_UNIX)
        idle.connect(str(client.path))
        idle.sendall(f"CONNECT 127.0.0.1:{server.port} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        idle.recv(100)
        started = time.monotonic()
        checker, usage = SimpleNamespace(history=[]), SimpleNamespace(summary=None)
        wiring: Any = SimpleNamespace(proxy=client.proxy, checker=checker, usage=usage, redactor=Redactor())
        (connection,) = Wiring.account(wiring)["connections"]
        assert connection.reason == "still open when the run ended" and connection.port == server.port
    assert time.monotonic() - started < 5
    idle.close()
