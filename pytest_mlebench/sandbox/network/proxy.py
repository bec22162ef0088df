"""An HTTP proxy on the host, which forwards to listed hosts only. Under the policy ``llm`` it is the only way out.

The container has no network but loopback. Names are resolved here, and only those of listed hosts. SECURITY.md lists
what is refused. Requests are parsed by h11: CONNECT, and one request in absolute form (RFC 9112, 3.2). For a TLS
connection, the ClientHello shows which host it requests (RFC 8446, RFC 6066).
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import logging
import socket
import struct
import threading
import time
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import h11

from pytest_mlebench.records.outcome import Connection
from pytest_mlebench.sandbox.network.policy import HOST_ALIAS, Destination, as_address, is_here, is_host_name
from pytest_mlebench.sandbox.redaction import bounded

_MAX_HEAD = 1 << 16
_BLOCK = 1 << 16
_METHODS = {"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"}
_HOP_FIELDS = {b"host", b"connection", b"proxy-connection", b"proxy-authorization", b"keep-alive", b"te", b"trailer"}
"""Header fields that a proxy removes, or writes itself (RFC 9110, 7.6.1)."""


class Refused(Exception):
    """A connection is refused, or a request is not forwarded; the message says why."""


@dataclass(frozen=True)
class ProxyRequest:
    """One request to the proxy. ``host`` is a valid name or address, in lower case."""

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
        """Yield the request in the form that its server expects, with the body as it arrives."""
        server = h11.Connection(our_role=h11.CLIENT)
        host = f"[{self.host}]" if ":" in self.host else self.host
        fields = [
            (b"Host", (host if self.port == 80 else f"{host}:{self.port}").encode()),
            (b"Connection", b"close"),
            *(field for field in self._fields if field[0] not in _HOP_FIELDS),
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
                raise Refused("the request's body ended early")


async def read_request(reader: asyncio.StreamReader) -> ProxyRequest:
    """Read a request's head. Raises Refused unless it is, unambiguously, a request for a proxy."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError as error:
        raise Refused(f"not a request: its head has more than {_MAX_HEAD} bytes") from error
    except asyncio.IncompleteReadError as error:
        raise Refused("not a request: it is incomplete") from error
    if b"\n" in head.replace(b"\r\n", b"") or b"\r" in head.replace(b"\r\n", b"") or b"\0" in head:
        raise Refused("not a request: lines must end with CR LF")
    if b"\r\n " in head or b"\r\n\t" in head:
        raise Refused("not a request: its lines are folded")
    client = h11.Connection(our_role=h11.SERVER, max_incomplete_event_size=_MAX_HEAD)
    try:
        client.receive_data(head)
        event = client.next_event()
    except h11.RemoteProtocolError as error:
        raise Refused(f"not a request: {error}") from error
    if not isinstance(event, h11.Request):
        raise Refused("not a request")
    names = [name for name, _ in event.headers]
    if b"transfer-encoding" in names and b"content-length" in names:
        raise Refused("a request has Content-Length or Transfer-Encoding, not both")
    if b"upgrade" in names:
        raise Refused("the protocol cannot be changed through this proxy")
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
            raise Refused(f"not a request's body: {error}") from error


def _target(request: h11.Request) -> tuple[str, str, int, bytes]:
    """Return method, host, port, and the target in the form that a server expects."""
    method, text = request.method.decode("ascii"), request.target.decode("ascii", "replace")
    if method not in _METHODS:
        raise Refused("the method is not supported")
    try:
        if set(text) & set("@\\#") or not text.isascii():  # URL parsers do not agree on what these mean
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
        raise Refused(f"not a request for a proxy: {error}") from error
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return method, host, 80 if port is None else port, path.encode()


_HANDSHAKE, _CLIENT_HELLO, _SERVER_NAME = 22, 1, 0
_ENCRYPTED_CLIENT_HELLO = (0xFE0D, 0xFFCE)
"""RFC 9849, and the extension of its early drafts (ESNI)."""
_MAX_HELLO = 1 << 16


async def server_name(reader: asyncio.StreamReader, host: str) -> bytes:
    """Read a ClientHello that requests ``host`` and return its bytes, to be forwarded. Raises Refused.

    If ``host`` is an address, the ClientHello must not contain a server name.
    """
    try:
        raw, message = await _client_hello(reader)
        names = _names(message)
    except (asyncio.IncompleteReadError, struct.error, IndexError, UnicodeDecodeError) as error:
        raise Refused(f"what was sent to {host} is not TLS") from error
    wanted = [] if as_address(host) is not None else [host.lower().rstrip(".")]
    if names != wanted:
        raise Refused(f"the connection to {host} asks for {', '.join(names)[:255] or 'no host'} instead")
    return raw


async def _client_hello(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    raw = message = b""
    while len(message) < 4 or len(message) < 4 + int.from_bytes(message[1:4]):
        header = await reader.readexactly(5)
        kind, _, length = struct.unpack("!BHH", header)
        if kind != _HANDSHAKE or len(raw) + length > _MAX_HELLO:
            raise Refused("what was sent is not a TLS handshake")
        record = await reader.readexactly(length)
        raw += header + record
        message += record
    if message[0] != _CLIENT_HELLO:
        raise Refused("what was sent is not a TLS handshake")
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
        if kind in _ENCRYPTED_CLIENT_HELLO:  # it hides the host that is really requested
            raise Refused("the connection encrypts the name of the host that it asks for (ECH), which is refused")
        if kind == _SERVER_NAME:
            position, stop = at + 2, at + length
            while position < stop:
                (size,) = struct.unpack_from("!H", message, position + 1)
                names.append(message[position + 3 : position + 3 + size].decode("ascii").lower())
                position += 3 + size
        at += length
    return names


def upstream_proxy(scheme: str, host: str) -> SplitResult | None:
    """Return the URL of the proxy for a host, from the standard variables; None for a direct connection.

    ``scheme`` is the host's protocol, ``http`` or ``https``.
    """
    url = getproxies().get(scheme)
    if not url or host.lower() in ("localhost", "::1") or host.startswith("127.") or proxy_bypass(host):
        return None
    return urlsplit(url if "://" in url else f"http://{url}")


async def tunnel(
    proxy: SplitResult, host: str, port: int, *, limit: int
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to a host through a proxy, which resolves the name. Raises OSError with the proxy's answer."""
    name = f"the proxy {proxy.hostname}"
    if proxy.scheme not in ("http", "https"):
        raise OSError(f"{name} speaks {proxy.scheme}, but must be an HTTP proxy")
    secure = proxy.scheme == "https"
    try:
        proxy_port = proxy.port or (443 if secure else 80)
    except ValueError as error:
        raise OSError(f"{name} has an invalid port: {error}") from error
    reader, writer = await asyncio.open_connection(proxy.hostname, proxy_port, ssl=secure, limit=limit)
    try:
        target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        head = f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n"
        if proxy.username:
            login = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
            head += f"Proxy-Authorization: Basic {base64.b64encode(login.encode()).decode()}\r\n"
        writer.write(f"{head}\r\n".encode())
        await writer.drain()
        status = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0].decode("latin-1")
        if status.split()[1:2] != ["200"]:
            raise OSError(f"{name} answered {status[:100]}")
    except BaseException:
        writer.close()
        raise
    return reader, writer


logger = logging.getLogger(__name__)

_HEAD_SECONDS = 30
_CONNECT_SECONDS = 30
_CONNECTIONS = 64
_WAITING = 64
"""Connections beyond these are closed at once: each takes a descriptor of the harness, which other runs need too."""
_MAX_REASON = 500


class Proxy:
    """Listens on a Unix socket, or an address, in its own thread. Use it as a context manager.

    ``connections`` lists the first ``recorded`` connections, allowed or not; ``unrecorded`` counts the rest.
    """

    def __init__(
        self,
        allowed: Iterable[Destination],
        *,
        unix_socket: Path | None = None,
        address: tuple[str, int] = ("", 0),
        recorded: int = 1000,
    ) -> None:
        self.allowed = tuple(allowed)
        self._recorded = recorded
        self.connections: list[Connection] = []
        self.unrecorded = 0
        self.address = address
        self._path = unix_socket
        self._started = time.monotonic()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._free = asyncio.Semaphore(_CONNECTIONS)
        self._open = 0

    def __enter__(self) -> Proxy:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._serve(), self._loop).result(10)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def stop(self) -> None:
        """End all connections, which are then recorded. Can be called again."""
        with contextlib.suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(10)

    async def _serve(self) -> None:
        if self._path is None:
            self._server: asyncio.Server = await asyncio.start_server(self._connected, *self.address, limit=_BLOCK)
            self.address = self._server.sockets[0].getsockname()[:2]
            return
        self._server = await asyncio.start_unix_server(self._connected, self._path, limit=_BLOCK)
        self._path.chmod(0o666)  # root in the container may be `nobody` here; the folder around it is private

    async def _stop(self) -> None:
        # Connections that the loop has accepted, but not yet handed over to `_connected`, would stay open.
        for listening in self._server.sockets:
            self._loop.remove_reader(listening)
        for _ in range(5):
            await asyncio.sleep(0)
        self._server.close()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        record: dict[str, Any] = {"at": round(time.monotonic() - self._started, 3), "allowed": False}
        if self._open >= _CONNECTIONS + _WAITING:
            writer.close()
            self._record(record | {"reason": "too many connections at once"})
            return
        self._open += 1
        try:
            async with self._free:
                await self._handle(reader, writer, record)
        except Refused as reason:
            record.update(allowed=False, reason=bounded(str(reason), _MAX_REASON))
            await _answer(writer, "403 Forbidden", f"{reason}\n")
        except asyncio.CancelledError:  # the run is over
            record.update(reason="still open when the run ended")
        except Exception as error:  # whatever an agent sends, the proxy continues, and records it
            logger.debug("proxy: a connection failed", exc_info=True)
            record.update(reason=bounded(f"{type(error).__name__}: {error}", _MAX_REASON))
            await _answer(writer, "502 Bad Gateway", "The host cannot be reached.\n")
        finally:
            self._open -= 1
            writer.close()
            self._record(record)

    def _record(self, record: dict[str, Any]) -> None:
        if len(self.connections) < self._recorded:
            self.connections.append(Connection(**record))
        else:
            self.unrecorded += 1

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, record: dict[str, Any]) -> None:
        request = await asyncio.wait_for(read_request(reader), _HEAD_SECONDS)
        host, port = request.host, request.port
        record.update(host=host, port=port, method=request.method)
        endpoint = next((endpoint for endpoint in self.allowed if endpoint.admits(host, port)), None)
        if endpoint is None:
            listed = ", ".join(map(str, self.allowed)) or "no host"
            raise Refused(f"{host}:{port} is not among the hosts that this run may reach ({listed})")
        if request.is_connect and endpoint.plain:
            raise Refused(f"{host}:{port} is listed for HTTP without TLS, which needs no tunnel")
        if not request.is_connect and not endpoint.plain:
            raise Refused(f"{host}:{port} is not listed for HTTP without TLS: ask for https://, or list http://{host}")
        upstream = None if host == HOST_ALIAS else upstream_proxy("https" if request.is_connect else "http", host)
        address = await self._address(host, port) if upstream is None else ""
        first = b""
        if request.is_connect:
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await writer.drain()
            first = await asyncio.wait_for(server_name(reader, host), _HEAD_SECONDS)
        record["allowed"] = True
        server_reader, server_writer = await asyncio.wait_for(
            asyncio.open_connection(address, port, limit=_BLOCK)
            if upstream is None
            else tunnel(upstream, host, port, limit=_BLOCK),
            _CONNECT_SECONDS,
        )
        started = time.monotonic()
        counts = {"sent": len(first), "received": 0}
        try:
            server_writer.write(first)
            sending = (
                _pump(reader, server_writer, counts, "sent")
                if request.is_connect
                else _forward(request, server_writer, counts)
            )
            await asyncio.gather(sending, _pump(server_reader, writer, counts, "received"))
        finally:
            server_writer.close()
            record.update(counts, seconds=round(time.monotonic() - started, 3))

    async def _address(self, host: str, port: int) -> str:
        """Return the address to connect to. It is resolved once, so that the checked address is the one used."""
        if host == HOST_ALIAS:
            return "127.0.0.1"
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = [str(entry[4][0]).partition("%")[0] for entry in found]
        for address in addresses:
            parsed = as_address(address)
            # If the user lists this machine by name or address, it is allowed.
            if host in ("localhost", address) or (parsed is not None and not is_here(parsed)):
                return address
        raise Refused(f"{host} resolves to {', '.join(addresses)}, which is this machine or its local network")


async def _forward(request: ProxyRequest, writer: asyncio.StreamWriter, counts: dict[str, int]) -> None:
    """Forward one request. Whatever follows it on the connection is not read."""
    async for block in request.direct_form():
        counts["sent"] += len(block)
        writer.write(block)
        await writer.drain()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, counts: dict[str, int], name: str) -> None:
    with contextlib.suppress(OSError):  # a lost connection need not be closed
        while block := await reader.read(_BLOCK):
            counts[name] += len(block)
            writer.write(block)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()


async def _answer(writer: asyncio.StreamWriter, status: str, text: str) -> None:
    body = text.encode("utf-8", "replace")
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    with contextlib.suppress(OSError, RuntimeError):  # it may be closed already
        writer.write(head.encode() + body)
        await writer.drain()
