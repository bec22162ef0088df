"""What an agent reaches under each network policy, and what the proxy lets through."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from scripted import Runner, docker_sandbox, make_runner, script_agent

from pytest_mlebench.agents.definition import Launch
from pytest_mlebench.errors import SandboxError
from pytest_mlebench.sandbox.network import Endpoint, endpoints
from pytest_mlebench.sandbox.proxy import Proxy
from pytest_mlebench.sandbox.tls import HelloError, server_name


class Server(ThreadingHTTPServer):
    """A model's endpoint on this machine that answers in three parts, a fifth of a second apart."""

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
def test_an_agent_reaches_what_its_definition_lists_and_the_record_tells(
    run_in_container: Runner, server: Server
) -> None:
    listed = f"host.docker.internal:{server.port}"
    agent = replace(script_agent(), llm_hosts=(listed,))
    result = run_in_container(
        f"curl -sN -d hello http://{listed}/v1/chat?x=1; "
        "curl -s -o /dev/null -w '%{http_code}' http://other.example.com/; "
        "curl -s https://other.example.com/ || echo ' refused'",
        agent=agent,
    )
    assert result.log == "data: 0\ndata: 1\ndata: 2\n403 refused\n"
    assert server.seen == [(listed, "/v1/chat?x=1", "hello")]
    allowed, *refused = result.execution.sandbox["connections"]
    assert (allowed["host"], allowed["port"], allowed["allowed"]) == ("host.docker.internal", server.port, True)
    assert allowed["received"] > 20
    assert allowed["sent"] > 20
    assert [(entry["host"], entry["port"], entry["allowed"]) for entry in refused] == [
        ("other.example.com", 80, False),
        ("other.example.com", 443, False),
    ]


@pytest.mark.docker
def test_more_hosts_can_be_allowed_for_a_session(docker_engine: None, server: Server, tmp_path: Path) -> None:
    listed = f"host.docker.internal:{server.port}"
    run = make_runner(docker_sandbox(allow_hosts=(listed,)), tmp_path)
    assert "data: 2" in run(f"curl -s -d x http://{listed}/").log


@pytest.mark.docker
def test_the_host_of_a_base_url_is_let_through(run_in_container: Runner, server: Server) -> None:
    result = run_in_container(
        "curl -s -d x $OPENAI_BASE_URL/chat",
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
    assert result.log.count('{"status": "ok"}') == 2
    assert result.execution.sandbox["network"] == network


@pytest.mark.docker
def test_without_a_network_there_is_no_proxy(docker_engine: None, tmp_path: Path) -> None:
    run = make_runner(docker_sandbox(network="none"), tmp_path)
    result = run("env | grep -i proxy; curl -s -x http://localhost:3128 http://example.com/ || echo nothing there")
    assert result.log == "nothing there\n"
    assert "connections" not in result.execution.sandbox


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


# --- which hosts


def test_hosts_and_urls_are_understood() -> None:
    assert Endpoint.parse("API.OpenAI.com") == Endpoint("api.openai.com", 443)
    assert Endpoint.parse("localhost:8000") == Endpoint("localhost", 8000)
    assert Endpoint.parse("http://model.local/v1") == Endpoint("model.local", 80)
    assert Endpoint.parse("https://x.example:8443/v1") == Endpoint("x.example", 8443)
    assert Endpoint.parse("[::1]:80") == Endpoint("::1", 80)


@pytest.mark.parametrize("text", ["", "*", "*.", "a b", "exa mple.com", "host:port", "http://", "a*b.com", "*.*.com"])
def test_what_is_no_host_is_an_error(text: str) -> None:
    with pytest.raises(SandboxError):
        Endpoint.parse(text)


def test_an_endpoint_admits_itself_only() -> None:
    endpoint = Endpoint.parse("api.openai.com")
    assert endpoint.admits("API.openai.com.", 443)
    for host in ("openai.com", "xapi.openai.com", "api.openai.com.evil.net", "evil.net/api.openai.com"):
        assert not endpoint.admits(host, 443)
    assert not endpoint.admits("api.openai.com", 80)


def test_a_wildcard_admits_what_is_below_it() -> None:
    endpoint = Endpoint.parse("*.openai.azure.com")
    assert endpoint.admits("mine.openai.azure.com", 443)
    assert not endpoint.admits("openai.azure.com", 443)
    assert not endpoint.admits("evilopenai.azure.com", 443)


def test_an_agent_that_lists_hosts_has_those_and_no_others() -> None:
    agent = replace(script_agent(), llm_hosts=("a.example",), env_vars={"K": "${{ secrets.OPENAI_API_KEY }}"})
    assert list(map(str, endpoints(agent, Launch()))) == ["a.example:443"]


def test_an_agent_that_lists_none_has_the_providers_of_its_keys() -> None:
    agent = replace(
        script_agent(),
        env_vars={"OPENAI_API_KEY": "${{ secrets.OPENAI_API_KEY }}"},
        kwargs={"key": "${{ secrets.ANTHROPIC_API_KEY }}", "other": "${{ secrets.SOMETHING }}"},
    )
    assert set(map(str, endpoints(agent, Launch()))) == {"api.openai.com:443", "api.anthropic.com:443"}


def test_an_agent_without_keys_has_no_host() -> None:
    assert endpoints(script_agent(), Launch()) == ()


# --- the proxy by itself


class Client:
    """Speaks to a proxy as a container's relay does."""

    def __init__(self, folder: Path, *allowed: str) -> None:
        self.path = folder / "proxy.sock"
        self.proxy = Proxy(map(Endpoint.parse, allowed), unix_socket=self.path)

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


def _hello(name: str | None) -> bytes:
    """What a real TLS client sends first."""
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


def test_tls_for_the_very_host_is_passed_on_unchanged() -> None:
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
def test_anything_else_is_not_passed_on(sent: bytes) -> None:
    with pytest.raises(HelloError):
        asyncio.run(_checked(sent, "api.openai.com"))


def test_a_tunnel_to_a_shared_front_end_cannot_ask_for_another_host(tmp_path: Path) -> None:
    with Client(tmp_path, "localhost") as client:
        answer = client.send(b"CONNECT localhost:443 HTTP/1.1\r\n\r\n", _hello("evil.example"), answer_between=True)
    assert answer.startswith(b"HTTP/1.1 200")
    assert client.proxy.connections[0]["allowed"] is False
    assert "evil.example" in client.proxy.connections[0]["reason"]


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
def test_what_is_not_listed_or_not_clear_is_refused(line: bytes, tmp_path: Path) -> None:
    with Client(tmp_path, "api.openai.com") as client:
        answer = client.send(line + b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 403")
    assert client.proxy.connections[0]["allowed"] is False


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "::1", "fe80::1", "0.0.0.0", "::ffff:127.0.0.1"])
def test_a_listed_name_does_not_lead_to_this_machine(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lookup(host: str, port: int, *_: object, **__: object) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    with Client(tmp_path, "api.openai.com") as client:
        assert client.send(b"CONNECT api.openai.com:443 HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 403")


def test_the_host_header_is_the_listed_host(tmp_path: Path, server: Server) -> None:
    request = f"POST http://localhost:{server.port}/x HTTP/1.1\r\nHost: evil.example\r\nProxy-Authorization: secret\r\n"
    with Client(tmp_path, f"localhost:{server.port}") as client:
        client.send(request.encode() + b"Content-Length: 2\r\n\r\nhi")
    assert server.seen == [(f"localhost:{server.port}", "/x", "hi")]


class Upstream(ThreadingHTTPServer):
    """A company's proxy: it asks for a login, knows the name model.example, and answers for it itself."""

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
            return self.send_error(407)
        self.send_response_only(200)
        self.end_headers()
        return self.connection.sendall(b"from there: " + self.connection.recv(1 << 16))

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


def test_a_proxy_of_this_machine_is_gone_through(tmp_path: Path, upstream: Upstream) -> None:
    hello = _hello("model.example")
    with Client(tmp_path, "model.example", "model.example:80", "other.example") as client:
        secure = client.send(b"CONNECT model.example:443 HTTP/1.1\r\n\r\n", hello, answer_between=True)
        plain = client.send(b"GET http://model.example/ HTTP/1.1\r\n\r\n")
        refused = client.send(b"GET http://other.example:443/ HTTP/1.1\r\n\r\n")
    assert secure.endswith(b"from there: " + hello)
    assert plain.startswith(b"from there: GET / HTTP/1.1\r\nHost: model.example\r\n")
    assert refused.startswith(b"HTTP/1.1 502") and "answered HTTP/1.0 407" in client.proxy.connections[2]["reason"]
    login = "Basic YWRhOnBAc3M="
    assert upstream.asked == [(f"{host}.example:{port}", login) for host, port in
                              (("model", 443), ("model", 80), ("other", 443))]  # fmt: skip


@pytest.mark.parametrize(("url", "reason"), [("http://near:port", "wrong port"), ("socks5://near", "speaks socks5")])
def test_a_proxy_of_this_machine_that_cannot_be_used_is_told(
    url: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", url)
    with Client(tmp_path, "model.example") as client:
        client.send(b"CONNECT model.example:443 HTTP/1.1\r\n\r\n", _hello("model.example"), answer_between=True)
    assert reason in client.proxy.connections[0]["reason"]


def test_what_needs_no_proxy_is_reached_directly(tmp_path: Path, upstream: Upstream, server: Server) -> None:
    here = [f"{host}:{server.port}" for host in ("localhost", "127.0.0.1")]
    with Client(tmp_path, *here, "near.example") as client:
        for place in here:
            request = f"POST http://{place}/x HTTP/1.1\r\nContent-Length: 0\r\n\r\n"
            assert b"data: 2" in client.send(request.encode())
        near = client.send(b"CONNECT near.example:443 HTTP/1.1\r\n\r\n", _hello("near.example"))
        unlisted = client.send(b"CONNECT model.example:443 HTTP/1.1\r\n\r\n")
    assert near.startswith(b"HTTP/1.1 502") and unlisted.startswith(b"HTTP/1.1 403")
    assert upstream.asked == []


def test_a_host_that_is_down_is_a_bad_gateway(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with Client(tmp_path, f"127.0.0.1:{port}") as client:
        assert client.send(f"GET http://127.0.0.1:{port}/ HTTP/1.1\r\n\r\n".encode()).startswith(b"HTTP/1.1 502")
    assert "ConnectionRefused" in client.proxy.connections[0]["reason"]


def test_the_record_of_connections_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_mlebench.sandbox.proxy._RECORDED", 5)
    with Client(tmp_path) as client:
        for _ in range(8):
            client.send(b"CONNECT evil.example:443 HTTP/1.1\r\n\r\n")
    assert (len(client.proxy.connections), client.proxy.unrecorded) == (5, 3)


def test_a_proxy_ends_while_connections_are_open(tmp_path: Path, server: Server) -> None:
    with Client(tmp_path, f"127.0.0.1:{server.port}") as client:
        idle = socket.socket(socket.AF_UNIX)
        idle.connect(str(client.path))
        idle.sendall(f"CONNECT 127.0.0.1:{server.port} HTTP/1.1\r\n\r\n".encode())
        idle.recv(100)
        started = time.monotonic()
    assert time.monotonic() - started < 5
    idle.close()
