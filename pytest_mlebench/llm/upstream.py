"""Requests to providers and their answers: one pooled client, which uses the machine's proxy if there is one."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import re
import secrets
import ssl
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
from aiohttp import web
from yarl import URL

from pytest_mlebench.agents.registry import MIN_SECRET
from pytest_mlebench.llm import api
from pytest_mlebench.llm.accounting import CHARGED_KINDS, Accounting, Exchange, GatewaySettings, Stage
from pytest_mlebench.llm.api import Event, Provider, ServerSentEvents, StreamTooLarge
from pytest_mlebench.llm.requests import Problem, Refusal

HIDDEN = "[key]"
CANCELLED = "cancelled by the client"
CONNECT_SECONDS = 30.0
IDLE_SECONDS = 900.0
"""Read timeout. Reasoning models can be silent for this long."""


def session() -> aiohttp.ClientSession:
    """Return a pooled client. It trusts the machine's certificates, and ``$SSL_CERT_FILE`` and ``$SSL_CERT_DIR``."""
    connector = aiohttp.TCPConnector(limit=0, ssl=ssl.create_default_context(), keepalive_timeout=60)
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=IDLE_SECONDS)
    return aiohttp.ClientSession(
        connector=connector,
        timeout=timeout,
        cookie_jar=aiohttp.DummyCookieJar(),
        skip_auto_headers=("User-Agent", "Content-Type", "Accept"),
        max_line_size=1 << 16,
        max_field_size=1 << 16,
    )


def provider_url(provider: Provider, path: str, query: Mapping[str, str]) -> URL:
    """Return the URL of a path of a provider."""
    base = URL(provider.base_url)
    if base.host == api.HOST_ALIAS:
        base = base.with_host("127.0.0.1")
    return URL(f"{base}".rstrip("/") + path, encoded=True).with_query({**query, **provider.query} or None)


def proxy_of(url: URL) -> tuple[URL | None, dict[str, str]]:
    """Return the machine's proxy for a URL (from ``$HTTPS_PROXY`` and ``$NO_PROXY``), and the proxy's login headers."""
    if not (found := api.proxy_for(str(url))):
        return None, {}
    proxy = URL(found)
    if not proxy.user:
        return proxy, {}
    login = base64.b64encode(f"{proxy.user}:{proxy.password or ''}".encode()).decode()
    return proxy.with_user(None), {"Proxy-Authorization": f"Basic {login}"}


def forwarded_headers(headers: Mapping[str, str], provider: Provider, key: str) -> dict[str, str]:
    """Return the headers for the provider: the allowed headers (see ``server.headers_of``), and the provider's key."""
    name = (provider.key_header or provider.api.key_header).lower()
    kept = {header: value for header, value in headers.items() if header.lower() != name}
    if key:
        kept[name] = f"Bearer {key}" if name == "authorization" else key
    return {**kept, **provider.headers, "Accept-Encoding": "identity"}


MAX_RECORDED_STREAM = 32 << 20
_PIECE = 1 << 20
_RETURNED_HEADERS = re.compile(
    "content-type|date|server-timing|retry-after(-ms)?|x-should-retry|(x-)?request-id|x-goog-request-id|cf-ray"
    "|openai-(model|processing-ms|version)|(x|anthropic)-ratelimit-[a-z0-9-]+|x-(reasoning-included|models-etag)",
    re.IGNORECASE,
)
"""Headers of an answer that are passed back to the client."""
_BACKOFF_SECONDS = 1.0
_MAX_BACKOFF_SECONDS = 60.0
_RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})


def returned_headers(headers: Mapping[str, str], key: str) -> dict[str, str]:
    """Return the provider's headers that the client receives, without the key."""
    only_for_gateway = {name.strip().lower() for name in headers.get("Connection", "").split(",")}
    return {
        name: value.replace(key, HIDDEN) if key else value
        for name, value in headers.items()
        if _RETURNED_HEADERS.fullmatch(name) and name.lower() not in only_for_gateway
    }


@dataclass(eq=False, repr=False)
class UpstreamClient:
    """Sends requests to providers and passes their answers back. ``keys`` are the API keys by provider."""

    settings: GatewaySettings
    session: aiohttp.ClientSession
    keys: Mapping[str, str]
    accounting: Accounting

    def __post_init__(self) -> None:
        self._bytes = 0
        self._proxies: dict[str, tuple[URL | None, dict[str, str]]] = {}

    async def forward(self, exchange: Exchange, headers: Mapping[str, str], content: bytes = b"") -> web.StreamResponse:
        """Send a request and pass the answer back. Raises Refusal.

        If the provider refuses the request temporarily, or cannot be reached, it is sent again. If an answer is lost,
        it is not: the provider may charge for it.
        """
        call, request, provider = exchange.call, exchange.request, exchange.provider
        url = provider_url(provider, exchange.path, exchange.query)
        key = self.keys[provider.name]
        headers = forwarded_headers(headers, provider, key)
        key = key if len(key) >= MIN_SECRET else ""  # shorter ones would match by chance
        if provider.name not in self._proxies:  # cached: the environment is slow to search
            self._proxies[provider.name] = proxy_of(url)
        proxy, login = self._proxies[provider.name]
        for attempt in range(self.settings.retries + 1):
            last = attempt == self.settings.retries
            retry_after = None
            call.retries = attempt
            if self.settings.rpm is not None and call.kind in CHARGED_KINDS:
                await self.accounting.pace(provider, self.settings.rpm)
            try:
                exchange.stage = Stage.SENT
                async with (
                    asyncio.timeout(self.settings.call_seconds),
                    self.session.request(
                        request.method,
                        url,
                        data=content or None,
                        headers=headers,
                        proxy=proxy,
                        proxy_headers=login,
                        allow_redirects=False,
                    ) as upstream,
                ):
                    if upstream.status in _RETRIED and not last:
                        exchange.stage = Stage.RECEIVED
                        retry_after = upstream.headers.get("retry-after")
                    else:
                        return await self._relay(exchange, upstream, key)
            except (
                aiohttp.ClientConnectorError,
                aiohttp.ClientHttpProxyError,
                aiohttp.ConnectionTimeoutError,
            ) as error:
                exchange.stage = Stage.RECEIVED  # the request was not sent
                if last:
                    raise Refusal("upstream", f"{provider.name} cannot be reached: {reason(error, key)}") from error
            except (aiohttp.ClientError, TimeoutError) as error:
                if exchange.stage in (Stage.STREAMING, Stage.COMPLETE):
                    disconnected = request.transport is None or request.transport.is_closing()
                    raise _interrupted(exchange, "" if disconnected else reason(error, key)) from error
                problem: Problem = "timeout" if isinstance(error, TimeoutError) else "upstream"
                raise Refusal(problem, f"{provider.name} did not answer: {reason(error, key)}") from error
            finally:
                self.release(exchange)
            await asyncio.sleep(_retry_delay(attempt, retry_after))
        raise AssertionError("unreachable")

    def keep(self, exchange: Exchange, more: int) -> None:
        """Count memory that a call uses until ``release``. Raises Refusal if all calls together would use too much."""
        if self._bytes + more > self.settings.max_answers:
            raise Refusal("overloaded", "too many large answers at once")
        self._bytes += more
        exchange.kept += more

    def release(self, exchange: Exchange) -> None:
        self._bytes -= exchange.kept
        exchange.kept = 0

    async def send(self, exchange: Exchange, response: web.StreamResponse, content: bytes) -> web.StreamResponse:
        """Send a whole answer to the client, in pieces that it must read in time."""
        exchange.stage = Stage.COMPLETE
        exchange.content, exchange.answer = b"", None  # recorded; they would take memory until the client has read it
        response.content_length = len(content)
        await response.prepare(exchange.request)
        for start in range(0, len(content), _PIECE):
            await self.in_time(exchange, response.write(content[start : start + _PIECE]))
        await self.in_time(exchange, response.write_eof())
        return response

    async def in_time(self, exchange: Exchange, writing: Awaitable[None]) -> None:
        """Wait until the client reads. If it does not, the connection is aborted. Raises ConnectionResetError."""
        seconds = self.settings.read_seconds
        try:
            async with asyncio.timeout(seconds):
                await writing
        except TimeoutError:
            raise _interrupted(exchange, f"the client read nothing for {seconds:g} s") from None

    async def _relay(self, exchange: Exchange, upstream: aiohttp.ClientResponse, key: str) -> web.StreamResponse:
        call = exchange.call
        if upstream.status >= 300:
            exchange.stage = Stage.REFUSED
        if 300 <= upstream.status < 400:
            raise Refusal("upstream", f"{call.provider} answered {upstream.status}; redirects are not followed")
        if upstream.status < 300 and upstream.content_type == "text/html":
            exchange.stage = Stage.REFUSED
            raise Refusal("upstream", f"{call.provider} answered with a web page, not JSON: check its base URL")
        call.status = upstream.status
        headers = returned_headers(upstream.headers, key)
        if call.stream and upstream.status < 300:
            return await PassedStream(self, exchange, upstream).run(headers, key)
        received = bytearray()
        async for chunk in upstream.content.iter_any():
            received += chunk
            if len(received) > (most := self.settings.max_answer):
                raise Refusal("upstream", f"{call.provider}'s answer is larger than {most >> 20} MiB")
            self.keep(exchange, len(chunk))
        content = bytes(received)
        received.clear()
        if key:
            content = content.replace(key.encode(), HIDDEN.encode())
        call.first_token = exchange.elapsed()
        call.response_bytes = len(content)
        exchange.content, exchange.answer = content, api.json_object(content)
        if upstream.status >= 400:
            call.error = error_text(exchange.answer, content)
        await self.accounting.finish(exchange)
        response = web.StreamResponse(status=upstream.status, reason=upstream.reason, headers=headers)
        return await self.send(exchange, response, content)


class PassedStream:
    """A streamed answer: passes its chunks to the client, and reads the usage and content of the call from them."""

    def __init__(self, client: UpstreamClient, exchange: Exchange, upstream: aiohttp.ClientResponse) -> None:
        self._client = client
        self._exchange = exchange
        self._upstream = upstream
        self._events = ServerSentEvents() if upstream.content_type == "text/event-stream" else None
        self._recorded: list[bytes] = []
        exchange.reader, exchange.chunks = exchange.api.stream(exchange.endpoint), self._recorded

    async def run(self, headers: Mapping[str, str], key: str) -> web.StreamResponse:
        exchange, upstream = self._exchange, self._upstream
        self._response = web.StreamResponse(status=upstream.status, reason=upstream.reason, headers=headers)
        await self._response.prepare(exchange.request)
        exchange.stage = Stage.STREAMING
        redactor = KeyRedactor(key.encode())
        try:
            async for chunk in upstream.content.iter_any():
                if shown := redactor.feed(chunk):
                    await self._process(shown)
            if rest := redactor.rest:
                await self._process(rest)
        except StreamTooLarge:
            raise aiohttp.ClientPayloadError("an event is too large") from None
        if self._events is None:
            for value in api.parse_array(b"".join(self._recorded)):
                exchange.feed(value)
        elif exchange.drop_usage and (rest := self._events.rest):
            self._store(rest)
            await self._write(rest)
        await self._complete()
        await self._client.in_time(exchange, self._response.write_eof())
        return self._response

    async def _process(self, chunk: bytes) -> None:
        call, events = self._exchange.call, self._events
        if call.first_token is None:
            call.first_token = self._exchange.elapsed()
        found = list(events.feed(chunk)) if events else []
        filtered = self._exchange.drop_usage and events is not None
        passed = b"".join(map(_without_usage, found)) if filtered else chunk
        self._store(passed)
        # Clients stop reading after the last event, and may end the run, so the call is recorded before they get it.
        if self._read(found) and events is not None and not events.rest:
            await self._complete()
        if passed:
            await self._write(passed)
        if call.response_bytes > (most := self._client.settings.max_answer):
            raise aiohttp.ClientPayloadError(f"the answer is larger than {most >> 20} MiB")

    async def _write(self, chunk: bytes) -> None:
        await self._client.in_time(self._exchange, self._response.write(chunk))

    def _store(self, chunk: bytes) -> None:
        call = self._exchange.call
        call.response_bytes += len(chunk)
        if call.response_bytes <= MAX_RECORDED_STREAM:
            self._recorded.append(chunk)
        else:
            self._recorded.clear()
        try:
            self._client.keep(self._exchange, len(chunk))
        except Refusal as refusal:  # too late for a response with an error
            raise aiohttp.ClientPayloadError(str(refusal)) from None

    def _read(self, found: list[Event]) -> bool:
        """Process events. Returns whether the last event of the stream was among them."""
        ended, last = False, self._exchange.api.last_events
        for event in found:
            if event.value is not None:
                self._exchange.feed(event.value)
                if event.value.get("error"):
                    self._exchange.call.error = error_text(event.value, event.content)
            ended |= event.data in last or (event.value or {}).get("type") in last
        return ended

    async def _complete(self) -> None:
        self._exchange.stage = Stage.COMPLETE
        await self._client.accounting.finish(self._exchange)


def _interrupted(exchange: Exchange, why: str) -> ConnectionResetError:
    """Abort the client's connection, which shows that its answer is incomplete. Returns the error to raise."""
    exchange.call.error = f"the stream was interrupted: {why}" if why else CANCELLED
    if exchange.request.transport is not None:
        exchange.request.transport.abort()
    return ConnectionResetError(exchange.call.error)


def _without_usage(event: Event) -> bytes:
    """Return an event of a chat completion without the usage, which the client did not ask for."""
    value = event.value
    if value is None or "usage" not in value:
        return event.content
    if value["usage"] is not None and not value.get("choices"):
        return b""
    return api.sse(None, {key: item for key, item in value.items() if key != "usage"})


def _retry_delay(attempt: int, retry_after: str | None) -> float:
    """Return the seconds until a retry, with jitter: what the provider asks for, or exponentially longer delays."""
    jitter = 1 + secrets.randbelow(250) / 1000
    with contextlib.suppress(TypeError, ValueError):
        if (seconds := float(retry_after)) >= 0:  # type: ignore[arg-type]
            return min(seconds, _MAX_BACKOFF_SECONDS) * jitter
    return float(min(_BACKOFF_SECONDS * 2**attempt, _MAX_BACKOFF_SECONDS)) * jitter


class KeyRedactor:
    """Removes a provider's key from a stream, in case the provider repeats it. The key may span two chunks."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self.rest = b""

    def feed(self, chunk: bytes) -> bytes:
        if not self._key:
            return chunk
        chunk = (self.rest + chunk).replace(self._key, HIDDEN.encode())
        held = next((n for n in range(min(len(self._key) - 1, len(chunk)), 0, -1) if chunk.endswith(self._key[:n])), 0)
        self.rest = chunk[len(chunk) - held :]
        return chunk[: len(chunk) - held]


def error_text(answer: Mapping[str, Any] | None, content: bytes) -> str:
    error = (answer or {}).get("error")
    message = error.get("message") if isinstance(error, Mapping) else error
    return str(message or content[:500].decode("utf-8", "replace"))[:1000]


def reason(error: BaseException, key: str) -> str:
    text = str(error) or type(error).__name__
    return (text.replace(key, HIDDEN) if key else text)[:300]
