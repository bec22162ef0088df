"""What the gateway does with each request: who asks, what for, whether it may pass, and what the provider answers.

Providers are asked with one pooled client, through the machine's own proxy where it has one.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hmac
import json
import logging
import re
import secrets
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any
from urllib.request import getproxies, proxy_bypass

import aiohttp
from aiohttp import web
from yarl import URL

from pytest_mlebench.llm.accounting import PAID, Accounting, Exchange, GatewaySettings, Route, Stage
from pytest_mlebench.llm.api import (
    API,
    Body,
    Endpoint,
    Event,
    ServerSentEvents,
    StreamReader,
    StreamTooLarge,
    json_object,
    parse_array,
    sse,
)
from pytest_mlebench.llm.ledger import Call, Recording
from pytest_mlebench.llm.prices import matches_any
from pytest_mlebench.llm.providers import APIS, HOST_ALIAS, Provider
from pytest_mlebench.llm.requests import Admission, Problem, Refusal, Target, check_content_type, parse_body

logger = logging.getLogger(__name__)

MAX_BODY = 32 << 20
"""As much as Anthropic takes; the others take less inline."""
MAX_BODIES = 256 << 20
"""Of all requests that are in progress."""
_KEY_HEADERS = ("authorization", "x-api-key", "x-goog-api-key", "api-key")


@dataclass(eq=False, repr=False)
class Service:
    """Answers one run's requests. To be made and used in one event loop."""

    settings: GatewaySettings
    providers: Mapping[str, Provider]
    accounting: Accounting
    _: KW_ONLY
    token: str
    keys: Mapping[str, str]
    replay: Path | None

    def __post_init__(self) -> None:
        self._recording: Recording | None = None
        self._number = 0
        self._bytes = 0
        self._received: set[str] = set()
        self._spoken: set[int] = set()
        self._handlers: set[asyncio.Task[Any]] = set()

    @contextlib.asynccontextmanager
    async def listening(self, listening: socket.socket, backlog: int) -> AsyncIterator[None]:
        """Within, requests on this socket are answered; at the end those in progress are cancelled and noted."""
        loop = asyncio.get_running_loop()
        server = web.Server(
            self._handle,
            request_factory=self._request,
            handler_cancellation=True,
            access_log=None,
            # The server's own log of broken requests is not needed: the client gets the error.
            logger=logging.Logger("pytest_mlebench.llm.http", logging.CRITICAL),
            keepalive_timeout=75,
            auto_decompress=False,
        )

        def connected() -> asyncio.Protocol:
            protocol = server()
            loop.call_later(self.settings.head_seconds, self._end_silent, protocol)
            return protocol

        async with session() as client:
            self._upstream = UpstreamClient(self.settings, client, self.keys, self.accounting)
            make = loop.create_unix_server if listening.family == socket.AF_UNIX else loop.create_server
            accepting = await make(connected, sock=listening, backlog=backlog)
            warming = asyncio.ensure_future(self.accounting.do(self._warm_up))
            try:
                yield
            finally:
                accepting.close()
                server.pre_shutdown()
                for task in self._handlers:  # the agent has ended, nobody waits for their answers
                    task.cancel()
                await asyncio.gather(*self._handlers, return_exceptions=True)
                await server.shutdown(0.1)
                await warming

    def _request(
        self, message: Any, payload: Any, protocol: web.RequestHandler, writer: Any, task: asyncio.Task[None]
    ) -> web.BaseRequest:
        loop = asyncio.get_running_loop()
        return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=MAX_BODY)

    def _warm_up(self) -> None:
        """What the first call would wait for."""
        from genai_prices.data_snapshot import get_snapshot

        get_snapshot()
        if self.replay is not None:
            self._recording = Recording(self.replay)

    def _end_silent(self, protocol: web.RequestHandler) -> None:
        """End a connection on which no request came in time."""
        if id(protocol) not in self._spoken:
            protocol.force_close()
        self._spoken.discard(id(protocol))

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self._spoken.add(id(request.protocol))
        task = asyncio.current_task()
        assert task is not None
        self._handlers.add(task)
        task.add_done_callback(self._handlers.discard)
        target = Target.of(request.raw_path)
        provider = self.providers.get(target.provider)
        api = provider.api if provider else APIS["openai"]
        self._number += 1
        name = provider.name if provider else ""
        call = Call(number=self._number, flavour=api.name, provider=name, endpoint=target.path[:256])
        exchange: Exchange | None = None
        known = False
        try:
            if not self._is_right(request, target.query):
                raise Refusal("authentication", "invalid token for this run")
            known = True
            exchange = self._exchange(request, call, provider, target)
            return await self._answer(exchange)
        except Refusal as refusal:
            call.status, call.error, call.refused = api.status(refusal.problem), str(refusal), True
            return _error(api, refusal.problem, str(refusal))
        except (ConnectionError, TimeoutError) as error:  # the client's own
            call.error = call.error or f"{type(error).__name__}: {error}"
            raise
        except asyncio.CancelledError:
            call.error = call.error or CANCELLED
            raise
        except Exception as error:
            logger.exception("call %s of the gateway failed", call.number)
            call.status, call.error = 502, f"{type(error).__name__}: {error}"
            return _error(api, "upstream", "the gateway failed")
        finally:
            if exchange is not None:
                await self.accounting.finish(exchange)
            elif known:  # what strangers ask does not fill the ledger
                await self.accounting.refuse(call)

    def _is_right(self, request: web.BaseRequest, query: Mapping[str, str]) -> bool:
        given = [value for name in _KEY_HEADERS for value in request.headers.getall(name, ())]
        given += [query["key"]] if "key" in query else []
        right = False
        for value in given:
            scheme, _, rest = value.partition(" ")
            word = rest.strip() if scheme.lower() == "bearer" else value
            right |= hmac.compare_digest(word.encode("utf-8", "replace"), self.token.encode())
        return right

    def _exchange(self, request: web.BaseRequest, call: Call, provider: Provider | None, target: Target) -> Exchange:
        """What is asked, as far as path and query tell. Raises Refusal for what is on no list."""
        if provider is None:
            given = ", ".join(f"/{name}" for name in self.providers) or "none"
            raise Refusal("not_found", f"no provider is at this path; this run has {given}")
        api, path = provider.api, target.path
        if api.name == "openai":
            path = path.removeprefix("/v1") if path.startswith("/v1/") else "/"
        endpoint = api.endpoint(request.method, path)
        if endpoint is None and f"{request.method} {path}" in provider.paths:
            endpoint = Endpoint(kind="other", stream=False)
        if endpoint is None:
            raise Refusal("not_found", f"{request.method} {path[:200]} is not among what this run's gateway passes on")
        call.kind = endpoint.kind
        admission = Admission(
            received=self._received,
            provider_tools=self.settings.allow_provider_tools,
            fields=provider.fields,
            types=provider.types,
            output_limits=provider.output_limits,
        )
        query = {}
        for name, value in target.query.items():
            if name in api.query or name in provider.parameters:
                query[name] = value
            elif name != "key":
                admission.drop(f"?{name}")
        route = Route(provider=provider, endpoint=endpoint, path=path, query=query)
        return Exchange(request=request, call=call, route=route, admission=admission, received=self._received)

    async def _answer(self, exchange: Exchange) -> web.StreamResponse:
        call, query = exchange.call, exchange.route.query
        if query.get("alt", "sse") not in ("sse", "json"):
            raise Refusal("invalid", f"alt={query['alt'][:20]!r} is not passed on, only sse and json")
        if exchange.request.method != "POST":
            if self.replay is not None:
                return await self._replayed(exchange)
            outgoing = Outgoing(headers=headers_of(exchange))
            call.dropped = tuple(exchange.admission.dropped)
            await self.accounting.enter(exchange)
            return await self._upstream.forward(exchange, outgoing)
        async with self._read(exchange):
            self._check(exchange)
            if self.replay is not None:
                return await self._replayed(exchange)
            outgoing = await self._written(exchange)
            return await self._upstream.forward(exchange, outgoing)

    @contextlib.asynccontextmanager
    async def _read(self, exchange: Exchange) -> AsyncIterator[None]:
        """Read a request's body; its size counts while the request is in progress."""
        request = exchange.request
        check_content_type(request)
        size = MAX_BODY if request.content_length is None else request.content_length
        if size > MAX_BODY:
            raise Refusal("too_large", f"the body is larger than {MAX_BODY >> 20} MiB")
        if self._bytes + size > MAX_BODIES:
            raise Refusal("overloaded", "too many large requests at once")
        self._bytes += size
        try:
            if request.headers.get("Expect", "").lower() == "100-continue":
                await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                request.writer.output_size = 0
            try:
                async with asyncio.timeout(self.settings.body_seconds):
                    exchange.raw = await request.read()
            except TimeoutError:
                why = f"the body did not come within {self.settings.body_seconds:g} s"
                raise Refusal("invalid", why) from None
            except web.HTTPRequestEntityTooLarge:
                raise Refusal("too_large", f"the body is larger than {MAX_BODY >> 20} MiB") from None
            except aiohttp.ClientError as error:
                raise Refusal("invalid", f"the body cannot be read: {error}") from None
            exchange.call.request_bytes = len(exchange.raw)
            exchange.body = parse_body(exchange.raw)
            yield
        finally:
            self._bytes -= size

    async def _written(self, exchange: Exchange) -> Outgoing:
        """What is sent for a request with a body, once the most that it can cost is reserved. Raises Refusal."""
        call, endpoint, headers = exchange.call, exchange.route.endpoint, headers_of(exchange)
        body = self._admit(exchange)
        await self.accounting.enter(exchange)
        if self.accounting.has_budget and endpoint.kind in (*PAID, "other"):
            await self.accounting.reserve(exchange)
        asked = call.stream and exchange.api.ask_for_usage(endpoint, body)
        call.dropped = tuple(exchange.admission.dropped)
        return Outgoing(headers=headers, content=json.dumps(body).encode(), drop_usage=asked)

    def _admit(self, exchange: Exchange) -> Body:
        """The body as it is sent: what the allow-lists name, written anew. Raises Refusal."""
        admission, call = exchange.admission, exchange.call
        body, endpoint = exchange.body or {}, exchange.route.endpoint
        admission.model = call.model
        if endpoint.kind != "other":
            body = exchange.body = exchange.api.admit(endpoint, body, admission)
        call.withheld = tuple(admission.withheld)
        for name in ("service_tier", "serviceTier", "speed", "inference_geo"):
            if isinstance(body.get(name), str):
                exchange.context["service_tier" if name == "serviceTier" else name] = body[name].lower()
        return body

    def _check(self, exchange: Exchange) -> None:
        """Which model is asked, and how; raises Refusal for one that this run may not use."""
        call, allowed, body = exchange.call, self.settings.models, exchange.body or {}
        provider, endpoint = exchange.route.provider, exchange.route.endpoint
        model = endpoint.model or body.get("model")
        if endpoint.kind == "other" and model is None and not allowed:
            return
        if not isinstance(model, str) or not model or len(model) > 256:
            raise Refusal("invalid", "model must be the name of a model")
        call.model = model
        streamed = body.get("stream") if endpoint.stream is None else endpoint.stream
        if streamed not in (None, True, False) or isinstance(streamed, int | float) != isinstance(streamed, bool):
            raise Refusal("invalid", "stream must be true or false")
        call.stream = bool(streamed)
        exchange.models = [model]
        if "models" in provider.fields and body.get("models") is not None:
            others = body["models"]
            if not isinstance(others, list) or not all(isinstance(one, str) and len(one) <= 256 for one in others):
                raise Refusal("invalid", "models must be a list of strings")
            exchange.models += others
        for model in exchange.models:
            why = "" if model in allowed else exchange.api.why_not_model(model, routed=provider.is_router)
            if why:
                raise Refusal("invalid", f"model {model!r} is not passed on: {why}")
            if allowed and not matches_any(allowed, provider, model):
                raise Refusal("model", f"this run may not use model {model!r}, only {', '.join(allowed)}")

    async def _replayed(self, exchange: Exchange) -> web.StreamResponse:
        call, route, came = exchange.call, exchange.route, exchange.answer

        def find() -> tuple[Mapping[str, Any], bool]:
            assert self._recording is not None  # the accounting thread reads it before all else
            return self._recording.find(route.recorded, exchange.body)

        try:
            recorded, call.replayed_nearly = await self.accounting.do(find)
        except Refusal:
            self.accounting.totals.replay_misses += 1
            raise
        answer = recorded["response"]
        came.value = answer if isinstance(answer, dict) else None
        call.status, call.replayed = 200, True
        call.first_token = exchange.elapsed()
        as_array = exchange.api.name == "gemini" and route.query.get("alt") != "sse"
        type = "application/json" if as_array or not call.stream else "text/event-stream"
        if not call.stream:
            content = json.dumps(answer).encode()
        elif isinstance(stream := recorded.get("stream"), str) and stream.lstrip().startswith("[") == as_array:
            content = stream.encode()
        elif as_array:
            content = json.dumps([answer]).encode()
        else:
            content = b"".join(sse(name, data) for name, data in exchange.api.as_stream(route.endpoint, answer))
        call.response_bytes = len(content)
        came.chunks = [content] if call.stream else None
        await self.accounting.finish(exchange)
        return web.Response(body=content, content_type=type)


def headers_of(exchange: Exchange) -> dict[str, str]:
    """The headers of a request that are passed on, as the gateway writes them. Raises Refusal."""
    request, call, provider = exchange.request, exchange.call, exchange.route.provider
    made = {"Accept": "text/event-stream" if call.stream else "application/json", "User-Agent": "pytest-mlebench"}
    if request.method == "POST":
        made["Content-Type"] = "application/json"
    further = dict.fromkeys(provider.request_headers, _HEADER)
    for name, form in {**exchange.api.headers, **further}.items():
        given = ",".join(request.headers.getall(name, ()))
        if given and name == "anthropic-beta":
            given, others = exchange.api.betas(given, provider_tools=exchange.admission.provider_tools)
            for other in others:
                exchange.admission.drop(f"{name}: {other}")
            exchange.admission.long_context = "context-1m-" in given
        if given and not form.fullmatch(given):
            raise Refusal("invalid", f"the header {name} has another form than {form.pattern}")
        if given:
            made[name] = given
    return made


_HEADER = re.compile("[ -~]{1,4096}")


def _error(api: API, problem: Problem, message: str) -> web.Response:
    # What is refused is refused again: the clients that know this header do not ask again.
    headers = {"x-should-retry": "false"} if problem not in ("overloaded", "upstream", "timeout") else {}
    content = json.dumps(api.error(problem, message)).encode()
    return web.Response(status=api.status(problem), body=content, content_type="application/json", headers=headers)


HIDDEN = "[key]"
CANCELLED = "cancelled by the client"
CONNECT_SECONDS = 30.0
IDLE_SECONDS = 900.0
"""The longest silence of a provider; models that reason long are silent that long."""


def session() -> aiohttp.ClientSession:
    """A pooled client. It trusts what the machine trusts: ``$SSL_CERT_FILE`` and ``$SSL_CERT_DIR`` count."""
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


def url_of(provider: Provider, path: str, query: Mapping[str, str]) -> URL:
    """Where a path of a provider is."""
    base = URL(provider.base_url)
    if base.host == HOST_ALIAS:
        base = base.with_host("127.0.0.1")
    return URL(f"{base}".rstrip("/") + path, encoded=True).with_query({**query, **provider.query} or None)


def proxy_of(url: URL) -> tuple[URL | None, dict[str, str]]:
    """This machine's own proxy for a URL, by ``$HTTPS_PROXY`` and ``$NO_PROXY``, and the headers that log in to it."""
    host = url.host or ""
    found = getproxies().get(url.scheme)
    if not found or host == "localhost" or host == "::1" or host.startswith("127.") or proxy_bypass(host):
        return None, {}
    proxy = URL(found if "://" in found else f"http://{found}")
    if not proxy.user:
        return proxy, {}
    login = base64.b64encode(f"{proxy.user}:{proxy.password or ''}".encode()).decode()
    return proxy.with_user(None), {"Proxy-Authorization": f"Basic {login}"}


def headers_there(headers: Mapping[str, str], provider: Provider, key: str) -> dict[str, str]:
    """What is sent to the provider: the client's headers that may pass (see ``server``), and the provider's key."""
    name = (provider.key_header or provider.api.key_header).lower()
    kept = {header: value for header, value in headers.items() if header.lower() != name}
    if key:
        kept[name] = f"Bearer {key}" if name == "authorization" else key
    return {**kept, **provider.headers, "Accept-Encoding": "identity"}


MAX_RECORDED_STREAM = 32 << 20
_PASSED_BACK = re.compile(
    "content-type|date|server-timing|retry-after(-ms)?|x-should-retry|(x-)?request-id|x-goog-request-id|cf-ray"
    "|openai-(model|processing-ms|version)|(x|anthropic)-ratelimit-[a-z0-9-]+|x-(reasoning-included|models-etag)",
    re.IGNORECASE,
)
"""The headers of an answer that clients read."""
_BACKOFF_SECONDS = 1.0
_MAX_BACKOFF_SECONDS = 60.0
_RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})


def headers_back(headers: Mapping[str, str], key: str) -> dict[str, str]:
    """What the client gets of a provider's headers, without its key."""
    only_for_gateway = {name.strip().lower() for name in headers.get("Connection", "").split(",")}
    return {
        name: value.replace(key, HIDDEN) if key else value
        for name, value in headers.items()
        if _PASSED_BACK.fullmatch(name) and name.lower() not in only_for_gateway
    }


@dataclass(frozen=True, kw_only=True)
class Outgoing:
    """A request as the gateway writes it."""

    headers: Mapping[str, str]
    content: bytes = b""
    drop_usage: bool = False
    """Whether the client has not asked for the usage in a stream."""


class UpstreamClient:
    """Sends requests to providers and passes their answers back; ``keys`` are the providers'."""

    def __init__(
        self, settings: GatewaySettings, session: aiohttp.ClientSession, keys: Mapping[str, str], accounting: Accounting
    ) -> None:
        self.settings = settings
        self._session = session
        self._keys = keys
        self.accounting = accounting
        self._bytes = 0
        self._proxies: dict[str, tuple[URL | None, dict[str, str]]] = {}

    async def forward(self, exchange: Exchange, outgoing: Outgoing) -> web.StreamResponse:
        """Send a request, again where the provider asks for that, and pass its answer back. Raises Refusal."""
        call, request, provider = exchange.call, exchange.request, exchange.route.provider
        url = url_of(provider, exchange.route.path, exchange.route.query)
        key = self._keys[provider.name]
        headers = headers_there(outgoing.headers, provider, key)
        if provider.name not in self._proxies:  # the environment does not change, and is slow to look through
            self._proxies[provider.name] = proxy_of(url)
        proxy, login = self._proxies[provider.name]
        for attempt in range(self.settings.retries + 1):
            last = attempt == self.settings.retries
            call.retries = attempt
            if self.settings.rpm is not None and call.kind in PAID:
                await self.accounting.pace(provider, self.settings.rpm)
            try:
                exchange.stage = Stage.SENT
                async with (
                    asyncio.timeout(self.settings.call_seconds),
                    self._session.request(
                        request.method,
                        url,
                        data=outgoing.content or None,
                        headers=headers,
                        proxy=proxy,
                        proxy_headers=login,
                        allow_redirects=False,
                    ) as upstream,
                ):
                    if upstream.status in _RETRIED and not last:
                        exchange.stage = Stage.RECEIVED
                        pause = _pause(attempt, upstream.headers.get("retry-after"))
                    else:
                        return await self._pass_back(exchange, upstream, key, drop_usage=outgoing.drop_usage)
            except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
                exchange.stage = Stage.RECEIVED  # nothing was asked
                if last:
                    raise Refusal("upstream", f"{provider.name} cannot be reached: {reason(error, key)}") from error
                pause = _pause(attempt, None)
            except (aiohttp.ClientError, TimeoutError) as error:
                if exchange.stage.begun:  # the client has a part of it, and learns by its connection that it is not all
                    gone = request.transport is None or request.transport.is_closing()
                    call.error = CANCELLED if gone else f"the stream broke off: {reason(error, key)}"
                    if request.transport is not None:
                        request.transport.abort()
                    raise ConnectionResetError(call.error) from error
                if last:
                    problem: Problem = "timeout" if isinstance(error, TimeoutError) else "upstream"
                    raise Refusal(problem, f"{provider.name} did not answer: {reason(error, key)}") from error
                pause = _pause(attempt, None)
            finally:
                self._bytes -= exchange.answer.kept
                exchange.answer.kept = 0
            await asyncio.sleep(pause)
        raise AssertionError("unreachable")

    def keep(self, exchange: Exchange, more: int) -> bool:
        """Count what a call keeps in memory until it ends; False where all calls together would keep too much."""
        if self._bytes + more > self.settings.max_answers:
            return False
        self._bytes += more
        exchange.answer.kept += more
        return True

    async def _pass_back(
        self, exchange: Exchange, upstream: aiohttp.ClientResponse, key: str, *, drop_usage: bool
    ) -> web.StreamResponse:
        call = exchange.call
        if upstream.status >= 300:
            exchange.stage = Stage.REFUSED
        if 300 <= upstream.status < 400:
            raise Refusal("upstream", f"{call.provider} answered {upstream.status}; redirects are not followed")
        if upstream.status < 300 and upstream.content_type == "text/html":
            exchange.stage = Stage.REFUSED
            raise Refusal("upstream", f"{call.provider} answered with a web page, not JSON: check its base URL")
        call.status = upstream.status
        headers = headers_back(upstream.headers, key)
        if call.stream and upstream.status < 300:
            return await PassedStream(self, exchange, upstream, drop_usage=drop_usage).run(headers, key)
        received = bytearray()
        async for chunk in upstream.content.iter_any():
            received += chunk
            if len(received) > (most := self.settings.max_answer):
                raise Refusal("upstream", f"{call.provider}'s answer is larger than {most >> 20} MiB")
            if not self.keep(exchange, len(chunk)):
                raise Refusal("overloaded", "too many large answers at once")
        content = bytes(received)
        received.clear()
        if key:
            content = content.replace(key.encode(), HIDDEN.encode())
        call.first_token = exchange.elapsed()
        call.response_bytes = len(content)
        exchange.answer.content, exchange.answer.value = content, json_object(content)
        if upstream.status >= 400:
            call.error = error_text(exchange.answer.value, content)
        await self.accounting.finish(exchange)
        return web.Response(status=upstream.status, reason=upstream.reason, body=content, headers=headers)


class PassedStream:
    """A stream on its way to the client: passed on chunk by chunk, and read for what it says of the call."""

    def __init__(
        self, client: UpstreamClient, exchange: Exchange, upstream: aiohttp.ClientResponse, *, drop_usage: bool
    ) -> None:
        self._client = client
        self._exchange = exchange
        self._upstream = upstream
        self._drop_usage = drop_usage
        self._reader = exchange.api.stream(exchange.route.endpoint, drop_usage=drop_usage)
        self._events = ServerSentEvents() if upstream.content_type == "text/event-stream" else None
        self._recorded: list[bytes] = []
        exchange.answer.reader, exchange.answer.chunks = self._reader, self._recorded

    async def run(self, headers: Mapping[str, str], key: str) -> web.StreamResponse:
        exchange, upstream = self._exchange, self._upstream
        self._response = web.StreamResponse(status=upstream.status, reason=upstream.reason, headers=headers)
        await self._response.prepare(exchange.request)
        exchange.stage = Stage.STREAMING
        hiding = Hiding(key.encode())
        try:
            async for chunk in upstream.content.iter_any():
                if shown := hiding.feed(chunk):
                    await self._take(shown)
            if rest := hiding.rest():
                await self._take(rest)
        except StreamTooLarge:
            raise aiohttp.ClientPayloadError("one of its events is too large") from None
        if self._events is None:
            for value in parse_array(b"".join(self._recorded)):
                self._reader.feed(value)
        elif self._drop_usage and (rest := self._events.rest()):
            self._keep(rest)
            await self._write(rest)
        await self._complete()
        await self._response.write_eof()
        return self._response

    async def _take(self, chunk: bytes) -> None:
        call, events, reader = self._exchange.call, self._events, self._reader
        if call.first_token is None:
            call.first_token = self._exchange.elapsed()
        found = list(events.feed(chunk)) if events else []
        passed = b"".join(_without_usage(reader, event) for event in found) if self._drop_usage else chunk
        self._keep(passed)
        # Clients read no further than the last event, and may end the run: what the call used is noted before they can.
        if self._read(found) and events is not None and not events.rest():
            await self._complete()
        if passed:
            await self._write(passed)
        if call.response_bytes > (most := self._client.settings.max_answer):
            raise aiohttp.ClientPayloadError(f"it is longer than {most >> 20} MiB")

    async def _write(self, chunk: bytes) -> None:
        seconds = self._client.settings.read_seconds
        try:
            async with asyncio.timeout(seconds):
                await self._response.write(chunk)
        except TimeoutError:
            raise aiohttp.ClientPayloadError(f"its client read nothing for {seconds:g} s") from None

    def _keep(self, chunk: bytes) -> None:
        call = self._exchange.call
        call.response_bytes += len(chunk)
        if call.response_bytes <= MAX_RECORDED_STREAM:
            self._recorded.append(chunk)
        else:
            self._recorded.clear()
        if not self._client.keep(self._exchange, len(chunk)):
            raise aiohttp.ClientPayloadError("too many large answers at once")

    def _read(self, found: list[Event]) -> bool:
        """Take in what events say; returns whether the last one was among them."""
        ended = False
        for event in found:
            if event.value is not None:
                self._reader.feed(event.value)
                if event.value.get("error"):
                    self._exchange.call.error = error_text(event.value, event.content)
            ended |= event.data in self._reader.last or (event.value or {}).get("type") in self._reader.last
        return ended

    async def _complete(self) -> None:
        self._exchange.stage = Stage.COMPLETE
        await self._client.accounting.finish(self._exchange)


def _without_usage(reader: StreamReader, event: Event) -> bytes:
    """An event without the usage that its client has not asked for."""
    kept = None if event.value is None else reader.pass_on(event.value)
    if kept is event.value:
        return event.content
    return b"" if kept is None else sse(None, kept)


def _pause(attempt: int, retry_after: str | None) -> float:
    """Seconds until a call is tried again: what the provider says, else longer each time; and some jitter."""
    jitter = 1 + secrets.randbelow(250) / 1000
    with contextlib.suppress(TypeError, ValueError):
        if (seconds := float(retry_after)) >= 0:  # type: ignore[arg-type]
            return min(seconds, _MAX_BACKOFF_SECONDS) * jitter
    return float(min(_BACKOFF_SECONDS * 2**attempt, _MAX_BACKOFF_SECONDS)) * jitter


class Hiding:
    """Takes a provider's key out of a stream, should the provider repeat it, also where two chunks share it."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._rest = b""

    def feed(self, chunk: bytes) -> bytes:
        if not self._key:
            return chunk
        chunk = (self._rest + chunk).replace(self._key, HIDDEN.encode())
        held = next((n for n in range(min(len(self._key) - 1, len(chunk)), 0, -1) if chunk.endswith(self._key[:n])), 0)
        self._rest = chunk[len(chunk) - held :]
        return chunk[: len(chunk) - held]

    def rest(self) -> bytes:
        return self._rest


def error_text(answer: Mapping[str, Any] | None, content: bytes) -> str:
    error = (answer or {}).get("error")
    message = error.get("message") if isinstance(error, Mapping) else error
    return str(message or content[:500].decode("utf-8", "replace"))[:1000]


def reason(error: BaseException, key: str) -> str:
    text = str(error) or type(error).__name__
    return (text.replace(key, HIDDEN) if key else text)[:300]
