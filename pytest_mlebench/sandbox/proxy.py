"""The only way out for an agent under the policy ``llm``: an HTTP proxy on the host that lets listed hosts through.

The container has no network at all but loopback. Its first process relays a port of ``localhost`` to this proxy over a
Unix socket, so there is no interface, no route and no name server that an agent could use in another way: names are
looked up here, and only those that are listed. An internal Docker network with a proxy on its gateway would be the
other way; it leaves the host's other ports, the engine's name server and its neighbours one mistake away.

It is a proxy of our own, in a hundred lines of asyncio, and not mitmproxy or tinyproxy: there is nothing to install or
to configure, it speaks over a Unix socket, it looks into no TLS, and its log is the run's record. What it checks beyond
the list: that a TLS connection asks for the very host it was let through to (a shared front end would pass it on to
others), and that a listed name does not lead to this machine or to a link-local (metadata) address; where this machine
is itself behind a proxy, that one looks names up, and the second is its business.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from pytest_mlebench.sandbox.network import HOST_ALIAS, Endpoint
from pytest_mlebench.sandbox.tls import HelloError, server_name
from pytest_mlebench.sandbox.upstream import tunnel, upstream_proxy

_MAX_HEAD = 1 << 16
_BLOCK = 1 << 16
_HEAD_SECONDS = 30
_CONNECT_SECONDS = 30
_CONNECTIONS = 64
_RECORDED = 1000


class Refused(Exception):
    """Why a connection is not made."""


class Proxy:
    """Listens on a Unix socket in a thread of its own; use it as a context manager.

    ``connections`` has an entry for each connection, allowed or not, up to a thousand; ``unrecorded`` counts the rest.
    """

    def __init__(self, allowed: Iterable[Endpoint], *, unix_socket: Path) -> None:
        self.allowed = tuple(allowed)
        self.connections: list[dict[str, Any]] = []
        self.unrecorded = 0
        self._path = unix_socket
        self._started = time.monotonic()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._free = asyncio.Semaphore(_CONNECTIONS)

    def __enter__(self) -> Proxy:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._serve(), self._loop).result(10)
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        with contextlib.suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _serve(self) -> None:
        self._server = await asyncio.start_unix_server(self._connected, self._path, limit=_MAX_HEAD)
        self._path.chmod(0o666)  # root in the container may be nobody here; the folder around it is private

    async def _stop(self) -> None:
        self._server.close()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        record: dict[str, Any] = {"at": round(time.monotonic() - self._started, 3), "host": "", "port": 0}
        try:
            async with self._free:
                await self._handle(reader, writer, record)
        except (Refused, HelloError) as reason:
            record.update(allowed=False, reason=str(reason))
            await _answer(writer, "403 Forbidden", f"{reason}\n")
        except (OSError, TimeoutError, EOFError, asyncio.LimitOverrunError) as error:
            record.setdefault("reason", f"{type(error).__name__}: {error}")
            await _answer(writer, "502 Bad Gateway", "The host cannot be reached.\n")
        finally:
            writer.close()
            self._record(record)

    def _record(self, record: dict[str, Any]) -> None:
        if len(self.connections) < _RECORDED:
            self.connections.append(record)
        else:
            self.unrecorded += 1

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, record: dict[str, Any]) -> None:
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _HEAD_SECONDS)
        method, host, port, first = _target(head)
        record.update(host=host[:255], port=port, method=method, allowed=True)
        if not any(endpoint.admits(host, port) for endpoint in self.allowed):
            listed = ", ".join(map(str, self.allowed)) or "no host at all"
            raise Refused(f"{host[:255]}:{port} is not among what this run may reach ({listed})")
        upstream = None if host.lower() == HOST_ALIAS else upstream_proxy("http" if first else "https", host)
        address = await self._address(host, port) if upstream is None else ""
        if not first:
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await writer.drain()
            if port == 443:
                first = await asyncio.wait_for(server_name(reader, host), _HEAD_SECONDS)
        there_reader, there_writer = await asyncio.wait_for(
            asyncio.open_connection(address, port, limit=_MAX_HEAD)
            if upstream is None
            else tunnel(upstream, host, port, limit=_MAX_HEAD),
            _CONNECT_SECONDS,
        )
        started = time.monotonic()
        counts = {"sent": len(first), "received": 0}
        try:
            there_writer.write(first)
            await asyncio.gather(
                _pump(reader, there_writer, counts, "sent"), _pump(there_reader, writer, counts, "received")
            )
        finally:
            there_writer.close()
            record.update(counts, seconds=round(time.monotonic() - started, 3))

    async def _address(self, host: str, port: int) -> str:
        """Where to connect to; looked up once, so that the answer which is checked is the answer that is used."""
        if host.lower() == HOST_ALIAS:
            return "127.0.0.1"
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = [str(entry[4][0]).partition("%")[0] for entry in found]
        for address in addresses:
            if host in ("localhost", address) or _is_elsewhere(address):
                return address
        raise Refused(f"{host} leads to {', '.join(addresses)}, which is this machine or link-local")


def _is_elsewhere(address: str) -> bool:
    """Private addresses are fine, a company's own model has one; this machine and its neighbourhood are not."""
    ip = ipaddress.ip_address(address)
    ip = getattr(ip, "ipv4_mapped", None) or ip
    return not (ip.is_loopback or ip.is_link_local or ip.is_unspecified or ip.is_multicast)


def _target(head: bytes) -> tuple[str, str, int, bytes]:
    """Method, host, port, and what to send there first: nothing for CONNECT, else the request in its direct form."""
    line, *fields = head[:-4].split(b"\r\n")
    try:
        method, target, version = line.decode("ascii").split(" ")
        if set(target) & set("@\\#"):  # readers of URLs do not agree on what these mean
            raise ValueError("a character that is not welcome")
        if method == "CONNECT":
            parts = urlsplit(f"//{target}")
            if not parts.hostname or not parts.port:
                raise ValueError("no port")
            return method, parts.hostname, parts.port, b""
        parts = urlsplit(target)
        if parts.scheme != "http" or not parts.hostname:
            raise ValueError("not a proxy request")
        port = parts.port or 80
    except ValueError as error:
        raise Refused(f"not a request that a proxy understands: {error}") from error
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    drop = (b"host", b"connection", b"proxy-connection", b"proxy-authorization", b"keep-alive")
    kept = [field for field in fields if field.split(b":")[0].strip().lower() not in drop]
    own = f"{method} {path} {version}\r\nHost: {parts.netloc}\r\nConnection: close\r\n".encode()
    return method, parts.hostname, port, own + b"".join(field + b"\r\n" for field in kept) + b"\r\n"


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, counts: dict[str, int], name: str) -> None:
    with contextlib.suppress(ConnectionError):
        while block := await reader.read(_BLOCK):
            counts[name] += len(block)
            writer.write(block)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()


async def _answer(writer: asyncio.StreamWriter, status: str, text: str) -> None:
    body = text.encode("utf-8", "replace")
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    with contextlib.suppress(OSError):
        writer.write(head.encode() + body)
        await writer.drain()
