"""What the gateway does with each request: who asks, what for, and whether it may pass."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import logging
import socket
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from pytest_mlebench.llm.books import PAID, Books
from pytest_mlebench.llm.exchange import CANCELLED, Exchange, parse_body, target
from pytest_mlebench.llm.flavours import FLAVOURS, Endpoint, Flavour, Refusal
from pytest_mlebench.llm.flavours.base import Body, Problem, sse
from pytest_mlebench.llm.ledger import Call
from pytest_mlebench.llm.passing import Passing
from pytest_mlebench.llm.prices import matches_any
from pytest_mlebench.llm.providers import Provider
from pytest_mlebench.llm.replay import Recording
from pytest_mlebench.llm.settings import BACKLOG, GatewaySettings
from pytest_mlebench.llm.upstream import session

logger = logging.getLogger(__name__)

MAX_BODY = 32 << 20
"""As much as Anthropic takes; the others take less inline."""
MAX_BODIES = 256 << 20
"""Of all requests that are in progress."""
HEAD_SECONDS = 30.0
BODY_SECONDS = 120.0
_KEY_HEADERS = ("authorization", "x-api-key", "x-goog-api-key", "api-key")


class Service:
    """Answers one run's requests. To be made and used in one event loop."""

    def __init__(
        self,
        settings: GatewaySettings,
        providers: Mapping[str, Provider],
        books: Books,
        *,
        token: str,
        keys: Mapping[str, str],
        replay: Path | None,
    ) -> None:
        self._settings = settings
        self._providers = providers
        self._books = books
        self._token = token
        self._keys = keys
        self._replay = replay
        self._recording: Recording | None = None
        self._number = 0
        self._bytes = 0
        self._received: set[str] = set()
        self._spoken: set[int] = set()
        self._handlers: set[asyncio.Task[Any]] = set()

    @contextlib.asynccontextmanager
    async def listening(self, listening: socket.socket) -> AsyncIterator[None]:
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
            loop.call_later(HEAD_SECONDS, self._end_silent, protocol)
            return protocol

        async with session() as client:
            self._passing = Passing(self._settings, client, self._keys, self._books)
            make = loop.create_unix_server if listening.family == socket.AF_UNIX else loop.create_server
            accepting = await make(connected, sock=listening, backlog=BACKLOG)
            warming = asyncio.ensure_future(self._books.do(self._warm_up))
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
        if self._replay is not None:
            self._recording = Recording(self._replay)

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
        name, path, query = target(request.raw_path)
        provider = self._providers.get(name)
        flavour = FLAVOURS[provider.flavour if provider else "openai"]
        self._number += 1
        call = Call(number=self._number, flavour=flavour.name, provider=name if provider else "", endpoint=path[:256])
        exchange = Exchange(request=request, flavour=flavour, call=call, received=self._received)
        known = False
        try:
            if not self._is_right(request, query):
                raise Refusal("authentication", "the token is not this run's")
            known = True
            if provider is None:
                given = ", ".join(f"/{name}" for name in self._providers) or "none"
                raise Refusal("not_found", f"no provider is at this path; this run has {given}")
            return await self._answer(exchange, provider, path, query)
        except Refusal as refusal:
            call.status, call.error = flavour.status(refusal.problem), str(refusal)
            return _error(flavour, refusal.problem, str(refusal))
        except (ConnectionError, TimeoutError) as error:  # the client's own
            call.error = call.error or f"{type(error).__name__}: {error}"
            raise
        except asyncio.CancelledError:
            call.error = call.error or CANCELLED
            raise
        except Exception as error:
            logger.exception("call %s of the gateway failed", call.number)
            call.status, call.error = 502, f"{type(error).__name__}: {error}"
            return _error(flavour, "upstream", "the gateway failed")
        finally:
            if known:  # what strangers ask does not fill the ledger
                await self._books.finish(exchange)

    def _is_right(self, request: web.BaseRequest, query: Mapping[str, str]) -> bool:
        given = [value for name in _KEY_HEADERS for value in request.headers.getall(name, ())]
        given += [query["key"]] if "key" in query else []
        right = False
        for value in given:
            scheme, _, rest = value.partition(" ")
            word = rest.strip() if scheme.lower() == "bearer" else value
            right |= hmac.compare_digest(word.encode("utf-8", "replace"), self._token.encode())
        return right

    async def _answer(
        self, exchange: Exchange, provider: Provider, path: str, query: Mapping[str, str]
    ) -> web.StreamResponse:
        flavour, call, request = exchange.flavour, exchange.call, exchange.request
        if flavour.name == "openai":
            path = path.removeprefix("/v1") if path.startswith("/v1/") else "/"
        endpoint = flavour.endpoint(request.method, path)
        if endpoint is None:
            raise Refusal("not_found", f"{request.method} {path[:200]} is not among what this run's gateway passes on")
        exchange.provider, exchange.endpoint = provider, endpoint
        exchange.path = f"/{provider.name}{path}".replace(":streamGenerateContent", ":generateContent")
        call.kind = endpoint.kind
        query = {
            name: value
            for name, value in query.items()
            if name != "key" and (flavour.query is None or name in flavour.query)
        }
        if query.get("alt", "sse") not in ("sse", "json"):
            raise Refusal("invalid", f"alt={query['alt'][:20]} is not passed on, only sse and json")
        if request.method != "POST":
            return await self._ask(exchange, provider, endpoint, path, query, {})
        async with self._read(exchange) as body:
            return await self._ask(exchange, provider, endpoint, path, query, body)

    @contextlib.asynccontextmanager
    async def _read(self, exchange: Exchange) -> AsyncIterator[Body]:
        """Read a request's body; its size counts while the request is in progress."""
        request = exchange.request
        if request.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise Refusal("unsupported", "bodies must not be compressed")
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
                async with asyncio.timeout(BODY_SECONDS):
                    exchange.raw = await request.read()
            except TimeoutError:
                raise Refusal("invalid", f"the body did not come within {BODY_SECONDS:g} s") from None
            except web.HTTPRequestEntityTooLarge:
                raise Refusal("too_large", f"the body is larger than {MAX_BODY >> 20} MiB") from None
            except aiohttp.ClientError as error:
                raise Refusal("invalid", f"the body cannot be read: {error}") from None
            exchange.call.request_bytes = len(exchange.raw)
            body = parse_body(exchange.raw)
            exchange.is_read = True
            yield body
        finally:
            self._bytes -= size

    async def _ask(
        self,
        exchange: Exchange,
        provider: Provider,
        endpoint: Endpoint,
        path: str,
        query: Mapping[str, str],
        body: Body,
    ) -> web.StreamResponse:
        flavour, call, settings = exchange.flavour, exchange.call, self._settings
        if exchange.request.method == "POST":
            self._check(exchange, provider, endpoint, body)
        if self._replay is not None:
            return await self._replayed(exchange, endpoint, query, body)
        if exchange.request.method == "POST" and not settings.allow_provider_tools:
            call.withheld = tuple(flavour.guard(endpoint, body, self._received))
        exchange.context = {
            name: str(body[name]) for name in ("service_tier", "speed") if isinstance(body.get(name), str)
        }
        if settings.limits and endpoint.kind in PAID:
            await self._books.reserve(exchange, provider, endpoint, body)
        asked = call.stream and flavour.ask_for_usage(endpoint, body)
        changed = call.withheld or asked or call.output_limited is not None
        content = json.dumps(body).encode() if changed else exchange.raw
        return await self._passing.forward(exchange, provider, endpoint, path, query, content, drop_usage=asked)

    def _check(self, exchange: Exchange, provider: Provider, endpoint: Endpoint, body: Body) -> None:
        """Which model is asked, and how; raises Refusal for one that this run may not use."""
        call, allowed = exchange.call, self._settings.models
        model = endpoint.model or body.get("model")
        if not isinstance(model, str) or not model or len(model) > 256:
            raise Refusal("invalid", "model must be the name of a model")
        call.model = model
        streamed = body.get("stream") if endpoint.stream is None else endpoint.stream
        if streamed not in (None, True, False):
            raise Refusal("invalid", "stream must be true or false")
        call.stream = bool(streamed)
        fallbacks = body.get("models")
        models = [model, *(map(str, fallbacks) if isinstance(fallbacks, list) else ())]
        if allowed and not all(matches_any(allowed, provider, model) for model in models):
            raise Refusal("model", f"this run may not use model {', '.join(models)}, only {', '.join(allowed)}")

    async def _replayed(
        self, exchange: Exchange, endpoint: Endpoint, query: Mapping[str, str], body: Body
    ) -> web.StreamResponse:
        call, flavour = exchange.call, exchange.flavour

        def find() -> tuple[Mapping[str, Any], bool]:
            assert self._recording is not None  # the books' thread reads it before all else
            return self._recording.find(exchange.path, body if exchange.request.method == "POST" else None)

        try:
            recorded, call.replayed_nearly = await self._books.do(find)
        except Refusal:
            self._books.totals.replay_misses += 1
            raise
        answer = recorded["response"]
        exchange.answer = answer if isinstance(answer, dict) else None
        call.status, call.replayed = 200, True
        call.first_token = exchange.elapsed()
        as_array = flavour.name == "gemini" and query.get("alt") != "sse"
        type = "application/json" if as_array or not call.stream else "text/event-stream"
        if not call.stream:
            content = json.dumps(answer).encode()
        elif isinstance(stream := recorded.get("stream"), str) and stream.lstrip().startswith("[") == as_array:
            content = stream.encode()
        elif as_array:
            content = json.dumps([answer]).encode()
        else:
            content = b"".join(sse(name, data) for name, data in flavour.as_stream(endpoint, answer))
        call.response_bytes = len(content)
        exchange.stream = [content] if call.stream else None
        await self._books.finish(exchange)
        return web.Response(body=content, content_type=type)


def _error(flavour: Flavour, problem: Problem, message: str) -> web.Response:
    # What is refused is refused again: the clients that know this header do not ask again.
    headers = {"x-should-retry": "false"} if problem not in ("overloaded", "upstream", "timeout") else {}
    content = json.dumps(flavour.error(problem, message)).encode()
    return web.Response(status=flavour.status(problem), body=content, content_type="application/json", headers=headers)
