"""Plain HTTP to a gateway, for requests that no client would send."""

from __future__ import annotations

import contextlib
import http.client
import json
import resource
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from pytest_mlebench.llm.gateway import Gateway

CHAT = "/openai/v1/chat/completions"
QUESTION: dict[str, Any] = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Which model first?"}]}


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    content: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.content)

    @property
    def message(self) -> str:
        return str(self.json["error"]["message"])


def until(condition: Callable[[], Any]) -> None:
    """Wait until a condition is true."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "the condition did not become true"
        time.sleep(0.01)


@contextlib.contextmanager
def full_disk(*, free: int = 0) -> Iterator[None]:
    """Context manager in which files cannot grow beyond ``free`` bytes, as on a full disk."""
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (free, usual[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)


def ask(
    gateway: Gateway,
    body: Any = QUESTION,
    *,
    path: str = CHAT,
    method: str = "POST",
    token: str | None = None,
    headers: dict[str, str] | None = None,
) -> Answer:
    """Send one request; a body other than bytes is sent as JSON."""
    port = urlsplit(gateway.url).port
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    given = {"Authorization": f"Bearer {gateway.token if token is None else token}", "Content-Type": "application/json"}
    try:
        connection.request(method, path, content if method == "POST" else None, {**given, **(headers or {})})
        response = connection.getresponse()
        return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
    finally:
        connection.close()


def send(gateway: Gateway, data: bytes, *, timeout: float = 15) -> bytes:
    """Send raw bytes; return the reply up to the end of the connection or a second without data."""
    with socket.create_connection(("127.0.0.1", urlsplit(gateway.url).port or 0), timeout=timeout) as connection:
        connection.sendall(data)
        connection.settimeout(3)
        answer = b""
        try:
            while chunk := connection.recv(1 << 16):
                answer += chunk
        except (TimeoutError, ConnectionError):
            pass
        return answer


def head(gateway: Gateway, *lines: str, start: str = f"POST {CHAT} HTTP/1.1") -> bytes:
    """The head of a request with this run's token."""
    fields = [
        "Host: localhost",
        "Connection: close",
        f"Authorization: Bearer {gateway.token}",
        "Content-Type: application/json",
        *lines,
    ]
    return "\r\n".join([start, *fields, "", ""]).encode()
