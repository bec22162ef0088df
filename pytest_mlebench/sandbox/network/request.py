"""What an agent's connection says first: the requests that the proxy understands, and the server name of TLS.

Requests are parsed by h11: CONNECT, and one request in absolute form (RFC 9112, 3.2). Of a TLS connection the
ClientHello tells which host it asks for (RFC 8446, RFC 6066).
"""

from __future__ import annotations

import asyncio
import ipaddress
import struct
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


_HANDSHAKE, _CLIENT_HELLO, _SERVER_NAME = 22, 1, 0
_ENCRYPTED_CLIENT_HELLO = (0xFE0D, 0xFFCE)
"""RFC 9849, and the extension of its early drafts (ESNI)."""
_MAX_HELLO = 1 << 16


class HelloError(Exception):
    """A connection does not begin with TLS for the host that it was allowed to reach."""


async def server_name(reader: asyncio.StreamReader, host: str) -> bytes:
    """Read a ClientHello that asks for ``host`` and return its bytes, to be passed on; raises HelloError.

    For an address there is no server name to ask for.
    """
    try:
        raw, message = await _client_hello(reader)
        names = _names(message)
    except (asyncio.IncompleteReadError, struct.error, IndexError, UnicodeDecodeError) as error:
        raise HelloError(f"what was sent to {host} is not TLS") from error
    wanted = [] if _is_address(host) else [host.lower().rstrip(".")]
    if names != wanted:
        raise HelloError(f"the connection to {host} asks for {', '.join(names)[:255] or 'no host'} instead")
    return raw


async def _client_hello(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    raw = message = b""
    while len(message) < 4 or len(message) < 4 + int.from_bytes(message[1:4]):
        header = await reader.readexactly(5)
        kind, _, length = struct.unpack("!BHH", header)
        if kind != _HANDSHAKE or len(raw) + length > _MAX_HELLO:
            raise HelloError("what was sent is not a TLS handshake")
        record = await reader.readexactly(length)
        raw += header + record
        message += record
    if message[0] != _CLIENT_HELLO:
        raise HelloError("what was sent is not a TLS handshake")
    return raw, message


def _names(message: bytes) -> list[str]:
    """The server names in a ClientHello."""
    at = 4 + 2 + 32  # header, version, random
    at += 1 + message[at]  # session id
    at += 2 + struct.unpack_from("!H", message, at)[0]  # cipher suites
    at += 1 + message[at]  # compression methods
    end = at + 2 + struct.unpack_from("!H", message, at)[0]
    at += 2
    names = []
    while at + 4 <= end:
        kind, length = struct.unpack_from("!HH", message, at)
        at += 4
        if kind in _ENCRYPTED_CLIENT_HELLO:  # whom it really asks for cannot be seen
            raise HelloError("the connection encrypts the name of the host that it asks for (ECH), which is refused")
        if kind == _SERVER_NAME:
            position, stop = at + 2, at + length
            while position < stop:
                (size,) = struct.unpack_from("!H", message, position + 1)
                names.append(message[position + 3 : position + 3 + size].decode("ascii").lower())
                position += 3 + size
        at += length
    return names


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
