"""The only way out for an agent under the policy ``llm``: an HTTP proxy on the host that lets listed hosts through.

The container has no network at all but loopback. Its first process relays a port of ``localhost`` to this proxy over a
Unix socket, so there is no interface, no route and no name server that an agent could use in another way: names are
looked up here, and only those that are listed.

Beyond the list it checks that

- a TLS connection asks for the very host that it was allowed to reach (a shared front end would pass it on to others),
  and does not encrypt that name;
- HTTP without TLS goes only to endpoints that are listed as ``http://…``, one request for each connection, parsed and
  written anew, so that the other end cannot read it differently;
- a listed name does not lead to this machine, to a link-local or to a metadata address. Where this machine is itself
  behind a proxy, that one looks names up and this check is its business.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import logging
import socket
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from pytest_mlebench.records.outcome import Connection
from pytest_mlebench.sandbox.network.policy import HOST_ALIAS, Endpoint, as_address, is_here
from pytest_mlebench.sandbox.network.request import BadRequest, HelloError, ProxyRequest, read_request, server_name
from pytest_mlebench.sandbox.redaction import bounded


def upstream_proxy(scheme: str, host: str) -> SplitResult | None:
    """The URL of the proxy for a host, from the variables that all programs go by; None where the way is direct.

    ``scheme``: what is spoken with the host, ``http`` or ``https``.
    """
    url = getproxies().get(scheme)
    if not url or host.lower() in ("localhost", "::1") or host.startswith("127.") or proxy_bypass(host):
        return None
    return urlsplit(url if "://" in url else f"http://{url}")


async def tunnel(
    proxy: SplitResult, host: str, port: int, *, limit: int
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to a host through a proxy, which looks the name up; raises OSError with its answer."""
    name = f"the proxy {proxy.hostname}"
    if proxy.scheme not in ("http", "https"):
        raise OSError(f"{name} speaks {proxy.scheme}, must be an HTTP proxy")
    secure = proxy.scheme == "https"
    try:
        proxy_port = proxy.port or (443 if secure else 80)
    except ValueError as error:
        raise OSError(f"{name} has a wrong port: {error}") from error
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

_BLOCK = 1 << 16
_HEAD_SECONDS = 30
_CONNECT_SECONDS = 30
_CONNECTIONS = 64
_WAITING = 64
"""Further connections are closed at once: each takes a descriptor of the harness, which other runs need too."""
_RECORDED = 1000
_MAX_REASON = 500


class Refused(Exception):
    """Why a connection is not made."""


class Proxy:
    """Listens on a Unix socket, or an address, in a thread of its own; use it as a context manager.

    ``connections`` has an entry for each connection, allowed or not, up to a thousand; ``unrecorded`` counts the rest.
    """

    def __init__(
        self, allowed: Iterable[Endpoint], *, unix_socket: Path | None = None, address: tuple[str, int] = ("", 0)
    ) -> None:
        self.allowed = tuple(allowed)
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

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        with contextlib.suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _serve(self) -> None:
        if self._path is None:
            self._server: asyncio.Server = await asyncio.start_server(self._connected, *self.address, limit=_BLOCK)
            self.address = self._server.sockets[0].getsockname()[:2]
            return
        self._server = await asyncio.start_unix_server(self._connected, self._path, limit=_BLOCK)
        self._path.chmod(0o666)  # root in the container may be nobody here; the folder around it is private

    async def _stop(self) -> None:
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
        except (Refused, BadRequest, HelloError) as reason:
            record.update(allowed=False, reason=bounded(str(reason), _MAX_REASON))
            await _answer(writer, "403 Forbidden", f"{reason}\n")
        except (OSError, TimeoutError, EOFError) as error:
            record.setdefault("reason", bounded(f"{type(error).__name__}: {error}", _MAX_REASON))
            await _answer(writer, "502 Bad Gateway", "The host cannot be reached.\n")
        except asyncio.CancelledError:  # the run is over
            record.setdefault("reason", "still open when the run ended")
        except Exception as error:  # whatever an agent sends, the proxy lives on and the record has it
            logger.debug("proxy: unexpected error", exc_info=True)
            record.update(reason=bounded(f"{type(error).__name__}: {error}", _MAX_REASON))
            await _answer(writer, "502 Bad Gateway", "The host cannot be reached.\n")
        finally:
            self._open -= 1
            writer.close()
            self._record(record)

    def _record(self, record: dict[str, Any]) -> None:
        if len(self.connections) < _RECORDED:
            self.connections.append(Connection(**record))
        else:
            self.unrecorded += 1

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, record: dict[str, Any]) -> None:
        request = await asyncio.wait_for(read_request(reader), _HEAD_SECONDS)
        host, port = request.host, request.port
        record.update(host=host, port=port, method=request.method)
        endpoint = next((endpoint for endpoint in self.allowed if endpoint.admits(host, port)), None)
        if endpoint is None:
            listed = ", ".join(map(str, self.allowed)) or "no host at all"
            raise Refused(f"{host}:{port} is not among what this run may reach ({listed})")
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
        there_reader, there_writer = await asyncio.wait_for(
            asyncio.open_connection(address, port, limit=_BLOCK)
            if upstream is None
            else tunnel(upstream, host, port, limit=_BLOCK),
            _CONNECT_SECONDS,
        )
        started = time.monotonic()
        counts = {"sent": len(first), "received": 0}
        try:
            there_writer.write(first)
            there = (
                _pump(reader, there_writer, counts, "sent")
                if request.is_connect
                else _forward(request, there_writer, counts)
            )
            await asyncio.gather(there, _pump(there_reader, writer, counts, "received"))
        finally:
            there_writer.close()
            record.update(counts, seconds=round(time.monotonic() - started, 3))

    async def _address(self, host: str, port: int) -> str:
        """Where to connect to; looked up once, so that the answer which is checked is the answer that is used."""
        if host == HOST_ALIAS:
            return "127.0.0.1"
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        addresses = [str(entry[4][0]).partition("%")[0] for entry in found]
        for address in addresses:
            parsed = as_address(address)
            # What the user lists as this machine is meant.
            if host in ("localhost", address) or (parsed is not None and not is_here(parsed)):
                return address
        raise Refused(f"{host} leads to {', '.join(addresses)}, which is this machine or its neighbourhood")


async def _forward(request: ProxyRequest, writer: asyncio.StreamWriter, counts: dict[str, int]) -> None:
    """Write one request anew. What follows it on the connection is not read."""
    async for block in request.direct_form():
        counts["sent"] += len(block)
        writer.write(block)
        await writer.drain()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, counts: dict[str, int], name: str) -> None:
    with contextlib.suppress(OSError):  # a connection that is gone need not be ended
        while block := await reader.read(_BLOCK):
            counts[name] += len(block)
            writer.write(block)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()


async def _answer(writer: asyncio.StreamWriter, status: str, text: str) -> None:
    body = text.encode("utf-8", "replace")
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    with contextlib.suppress(OSError, RuntimeError):  # it may have been ended already
        writer.write(head.encode() + body)
        await writer.drain()
