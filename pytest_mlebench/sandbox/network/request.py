"""The requests that the proxy understands, parsed by h11: CONNECT, and one request in absolute form (RFC 9112, 3.2)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from urllib.parse import urlsplit

import h11

from pytest_mlebench.sandbox.network.policy import as_address, is_host_name

_MAX_HEAD = 1 << 16
_BLOCK = 1 << 16
_METHODS = {"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"}
_OWN_FIELDS = {b"host", b"connection", b"proxy-connection", b"proxy-authorization", b"keep-alive", b"te", b"trailer"}
"""Fields that end at a proxy, or that it writes itself (RFC 9110, 7.6.1)."""


class BadRequest(Exception):
    """Not a request that this proxy forwards; the text is the reason."""


@dataclass(frozen=True)
class ProxyRequest:
    """One request to the proxy. ``host`` is in lower case and a name or an address; nothing else gets this far."""

    method: str
    host: str
    port: int
    _target: bytes
    _fields: tuple[tuple[bytes, bytes], ...]
    _client: h11.Connection
    _reader: asyncio.StreamReader

    @property
    def is_connect(self) -> bool:
        return self.method == "CONNECT"

    async def direct_form(self) -> AsyncIterator[bytes]:
        """The request as its server is to get it, with the body as it comes."""
        server = h11.Connection(our_role=h11.CLIENT)
        shown = f"[{self.host}]" if ":" in self.host else self.host
        fields = [
            (b"Host", (shown if self.port == 80 else f"{shown}:{self.port}").encode()),
            (b"Connection", b"close"),
            *(field for field in self._fields if field[0] not in _OWN_FIELDS),
        ]
        yield server.send(h11.Request(method=self.method, target=self._target, headers=fields)) or b""
        while True:
            event = await _next_event(self._client, self._reader)
            if isinstance(event, h11.Data):
                yield server.send(h11.Data(data=bytes(event.data))) or b""
            elif isinstance(event, h11.EndOfMessage):
                yield server.send(h11.EndOfMessage()) or b""
                return
            else:
                raise BadRequest("the request's body ended early")


async def read_request(reader: asyncio.StreamReader) -> ProxyRequest:
    """Read a request's head; raises BadRequest for what is not a request for a proxy, in exactly one reading."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError as error:
        raise BadRequest(f"not a request: its head has more than {_MAX_HEAD} bytes") from error
    except asyncio.IncompleteReadError as error:
        raise BadRequest("not a request: it has no end") from error
    if b"\n" in head.replace(b"\r\n", b"") or b"\r" in head.replace(b"\r\n", b"") or b"\0" in head:
        raise BadRequest("not a request: lines must end with CR LF")
    if b"\r\n " in head or b"\r\n\t" in head:
        raise BadRequest("not a request: its lines are folded")
    client = h11.Connection(our_role=h11.SERVER, max_incomplete_event_size=_MAX_HEAD)
    try:
        client.receive_data(head)
        event = client.next_event()
    except h11.RemoteProtocolError as error:
        raise BadRequest(f"not a request: {error}") from error
    if not isinstance(event, h11.Request):
        raise BadRequest("not a request")
    names = [name for name, _ in event.headers]
    if b"transfer-encoding" in names and b"content-length" in names:
        raise BadRequest("a request has Content-Length or Transfer-Encoding, not both")
    if b"upgrade" in names:
        raise BadRequest("the protocol cannot be changed through this proxy")
    method, host, port, target = _target(event)
    return ProxyRequest(method, host, port, target, tuple(event.headers), client, reader)


async def _next_event(client: h11.Connection, reader: asyncio.StreamReader) -> object:
    while True:
        try:
            event = client.next_event()
            if event is not h11.NEED_DATA:
                return event
            client.receive_data(await reader.read(_BLOCK))
        except h11.RemoteProtocolError as error:
            raise BadRequest(f"not a request's body: {error}") from error


def _target(request: h11.Request) -> tuple[str, str, int, bytes]:
    """Method, host, port, and the target in the form that a server expects."""
    method, text = request.method.decode("ascii"), request.target.decode("ascii", "replace")
    if method not in _METHODS:
        raise BadRequest("not a method that is passed on")
    try:
        if set(text) & set("@\\#") or not text.isascii():  # readers of URLs do not agree on what these mean
            raise ValueError("a character that is not allowed")
        parts = urlsplit(f"//{text}" if method == "CONNECT" else text)
        host, port = (parts.hostname or "").rstrip("."), parts.port
        if method == "CONNECT" and (port is None or parts.path or parts.query):
            raise ValueError("CONNECT takes host:port")
        if method != "CONNECT" and parts.scheme != "http":
            raise ValueError("not an absolute http:// URL")
        if not is_host_name(host) and as_address(host) is None:
            raise ValueError("not a host name")
    except ValueError as error:
        raise BadRequest(f"not a request for a proxy: {error}") from error
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return method, host, 80 if port is None else port, path.encode()
