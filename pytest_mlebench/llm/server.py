"""The gateway's server: authenticates each request, checks it, and passes it on or refuses it."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import logging
import re
import socket
from collections.abc import AsyncIterator, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from pytest_mlebench.llm.accounting import CHARGED_KINDS, Accounting, Exchange, GatewaySettings
from pytest_mlebench.llm.api import API, Body, Endpoint, Provider, sse
from pytest_mlebench.llm.ledger import Call, Recording
from pytest_mlebench.llm.prices import matches
from pytest_mlebench.llm.providers import APIS
from pytest_mlebench.llm.requests import Admission, Problem, Refusal, Target, check_content_type, parse_body
from pytest_mlebench.llm.upstream import CANCELLED, UpstreamClient, session

logger = logging.getLogger(__name__)

MAX_BODY = 32 << 20
"""Maximum size of a request's body, in bytes. Anthropic accepts this much; the others accept less inline."""
MAX_BODIES = 256 << 20
"""Maximum size of the bodies of all requests in progress, in bytes."""
_KEY_HEADERS = ("authorization", "x-api-key", "x-goog-api-key", "api-key")


class _Connection(web.RequestHandler):
    """A connection of the agent. It is closed if there are too many, or if its first request does not arrive in time.

    aiohttp itself closes connections without a further request.
    """

    has_request = False

    def __init__(self, server: web.Server, service: Service, **options: Any) -> None:
        super().__init__(server, **options)
        self._server, self._service = server, service
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        settings = self._service.settings
        if len(self._server.connections) > settings.max_connections:
            self._service.accounting.totals.connections_refused += 1
            self.force_close()
        else:
            self._timer = asyncio.get_running_loop().call_later(settings.head_seconds, self._close_silent)

    def connection_lost(self, error: BaseException | None) -> None:
        super().connection_lost(error)
        if self._timer is not None:
            self._timer.cancel()

    def _close_silent(self) -> None:
        if not self.has_request:
            self.force_close()


@dataclass(eq=False, repr=False)
class Service:
    """Answers one run's requests. Create and use it in one event loop."""

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
        self._handlers: set[asyncio.Task[Any]] = set()

    @contextlib.asynccontextmanager
    async def listening(self, listening: socket.socket, backlog: int) -> AsyncIterator[None]:
        """Context manager: answer requests on this socket. At the end, cancel and record those in progress."""
        loop = asyncio.get_running_loop()
        server = web.Server(
            self._handle,
            request_factory=partial(web.BaseRequest, loop=loop, client_max_size=MAX_BODY),
            handler_cancellation=True,
        )
        connected = partial(
            _Connection,
            server,
            self,
            loop=loop,
            access_log=None,
            # aiohttp's own log of malformed requests is not needed: the client gets the error.
            logger=logging.Logger("pytest_mlebench.llm.http", logging.CRITICAL),
            keepalive_timeout=75,
            auto_decompress=False,
        )
        async with session() as client:
            self._upstream = UpstreamClient(self.settings, client, self.keys, self.accounting)
            make = loop.create_unix_server if listening.family == socket.AF_UNIX else loop.create_server
            accepting = await make(connected, sock=listening, backlog=backlog)
            warming = asyncio.ensure_future(self.accounting.do(self._warm_up))
            try:
                yield
            finally:
                # If the loop's server is closed before the loop hands over a connection, that connection stays open. It
                # hands over a connection two iterations after accepting it.
                loop.remove_reader(listening)
                for _ in range(3):
                    await asyncio.sleep(0)
                accepting.close()
                server.pre_shutdown()
                for task in self._handlers:  # the agent has ended and no longer needs the answers
                    task.cancel()
                await asyncio.gather(*self._handlers, return_exceptions=True)
                await server.shutdown(0.1)
                await warming

    def _warm_up(self) -> None:
        """Load in advance what the first call needs."""
        from genai_prices.data_snapshot import get_snapshot

        get_snapshot()
        if self.replay is not None:
            self._recording = Recording(self.replay)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        assert isinstance(request.protocol, _Connection)
        request.protocol.has_request = True
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
        authenticated = False
        try:
            if not self._has_token(request, target.query):
                raise Refusal("authentication", "invalid token for this run")
            authenticated = True
            exchange = self._accept(request, call, provider, target)
            return await self._answer(exchange)
        except Refusal as refusal:
            call.status, call.error, call.refused = api.status(refusal.problem), str(refusal), True
            return _error(api, refusal.problem, str(refusal))
        except (ConnectionError, TimeoutError) as error:  # of the client's connection
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
            elif authenticated:  # requests without a valid token do not fill the ledger
                await self.accounting.refuse(call)

    def _has_token(self, request: web.BaseRequest, query: Mapping[str, str]) -> bool:
        given = [value for name in _KEY_HEADERS for value in request.headers.getall(name, ())]
        given += [query["key"]] if "key" in query else []
        valid = False
        for value in given:
            scheme, _, rest = value.partition(" ")
            token = rest.strip() if scheme.lower() == "bearer" else value
            valid |= hmac.compare_digest(token.encode("utf-8", "replace"), self.token.encode())
        return valid

    def _accept(self, request: web.BaseRequest, call: Call, provider: Provider | None, target: Target) -> Exchange:
        """Create the exchange from the path and query. Raises Refusal for an unlisted provider or path."""
        if provider is None:
            given = ", ".join(f"/{name}" for name in self.providers) or "none"
            raise Refusal("not_found", f"there is no provider at this path; this run has {given}")
        api, path = provider.api, target.path
        if api.name == "openai":
            path = path.removeprefix("/v1") if path.startswith("/v1/") else "/"
        endpoint = api.endpoint(request.method, path)
        if endpoint is None and f"{request.method} {path}" in provider.paths:
            endpoint = Endpoint(kind="other", stream=False)
        if endpoint is None:
            raise Refusal("not_found", f"{request.method} {path[:200]} is not passed on by this run's gateway")
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
        return Exchange(
            request=request,
            call=call,
            provider=provider,
            endpoint=endpoint,
            path=path,
            query=query,
            admission=admission,
        )

    async def _answer(self, exchange: Exchange) -> web.StreamResponse:
        query = exchange.query
        if query.get("alt", "sse") not in ("sse", "json"):
            raise Refusal("invalid", f"alt={query['alt'][:20]!r} is not passed on, only sse and json")
        if exchange.request.method != "POST":
            return await self._pass_on(exchange)
        async with self._read_body(exchange):
            self._check_model(exchange)
            return await self._pass_on(exchange)

    @contextlib.asynccontextmanager
    async def _read_body(self, exchange: Exchange) -> AsyncIterator[None]:
        """Context manager: read a request's body. Its size counts against ``MAX_BODIES`` until the end."""
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
                why = f"the body did not arrive within {self.settings.body_seconds:g} s"
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

    async def _pass_on(self, exchange: Exchange) -> web.StreamResponse:
        """Reserve the maximum cost of a request and send it, or replay its recorded answer. Raises Refusal."""
        if self.replay is not None:
            return await self._replay(exchange)
        call, endpoint, headers = exchange.call, exchange.endpoint, headers_of(exchange)
        body = None if exchange.body is None else self._admit(exchange)
        await self.accounting.enter(exchange)
        if self.accounting.has_budget and endpoint.kind in (*CHARGED_KINDS, "other"):
            await self.accounting.reserve(exchange)
        call.dropped = tuple(exchange.admission.dropped)
        if body is None:
            return await self._upstream.forward(exchange, headers)
        exchange.drop_usage = call.stream and exchange.api.ask_for_usage(endpoint, body)
        return await self._upstream.forward(exchange, headers, json.dumps(body).encode())

    def _admit(self, exchange: Exchange) -> Body:
        """Return the body to send, with only what the allow-lists contain. Raises Refusal."""
        admission, call = exchange.admission, exchange.call
        body, endpoint = exchange.body or {}, exchange.endpoint
        admission.model = call.model
        if endpoint.kind != "other":
            body = exchange.body = exchange.api.admit(endpoint, body, admission)
        call.withheld = tuple(admission.withheld)
        for name in ("service_tier", "serviceTier", "speed", "inference_geo"):
            if isinstance(body.get(name), str):
                exchange.context["service_tier" if name == "serviceTier" else name] = body[name].lower()
        return body

    def _check_model(self, exchange: Exchange) -> None:
        """Set the model and whether to stream. Raises Refusal if this run may not use the model."""
        call, allowed, body = exchange.call, self.settings.models, exchange.body or {}
        provider, endpoint = exchange.provider, exchange.endpoint
        model = endpoint.model or body.get("model")
        if endpoint.kind == "other" and model is None and not allowed:
            return
        if not isinstance(model, str) or not model or len(model) > 256:
            raise Refusal("invalid", "model must be the name of a model")
        call.model = model
        streamed = body.get("stream") if endpoint.stream is None else endpoint.stream
        if streamed is not None and not isinstance(streamed, bool):
            raise Refusal("invalid", "stream must be true or false")
        call.stream = bool(streamed)
        exchange.models = [model]
        if "models" in provider.fields and body.get("models") is not None:
            others = body["models"]
            if not isinstance(others, list) or not all(isinstance(one, str) and len(one) <= 256 for one in others):
                raise Refusal("invalid", "models must be a list of strings")
            exchange.models += others
        for model in exchange.models:
            why = "" if model in allowed else exchange.api.model_problem(model, routed=provider.prices == "openrouter")
            if why:
                raise Refusal("invalid", f"model {model!r} is not passed on: {why}")
            if allowed and not any(matches(pattern, provider, model) for pattern in allowed):
                raise Refusal("model", f"this run may not use model {model!r}, only {', '.join(allowed)}")

    async def _replay(self, exchange: Exchange) -> web.StreamResponse:
        call = exchange.call

        def find() -> tuple[Mapping[str, Any], bool]:
            assert self._recording is not None  # loaded by the first job of the accounting thread
            return self._recording.find(exchange.recorded, exchange.body)

        try:
            recorded, call.replayed_nearly = await self.accounting.do(find)
            type, content = _replayed(exchange, recorded)
        except Refusal:
            self.accounting.totals.replay_misses += 1
            raise
        exchange.answer = recorded["response"]
        call.status, call.replayed = 200, True
        call.first_token = exchange.elapsed()
        call.response_bytes = len(content)
        exchange.chunks = [content] if call.stream else None
        try:
            self._upstream.keep(exchange, len(content))
            await self.accounting.finish(exchange)
            return await self._upstream.send(exchange, web.StreamResponse(headers={"Content-Type": type}), content)
        finally:
            self._upstream.release(exchange)


def _replayed(exchange: Exchange, recorded: Mapping[str, Any]) -> tuple[str, bytes]:
    """Return the content type and body of a recorded answer. Raises Refusal if no gateway recorded it."""
    answer, stream = recorded["response"], recorded.get("stream")
    as_array = exchange.api.name == "gemini" and exchange.query.get("alt") != "sse"
    try:
        if not isinstance(answer, dict):
            raise TypeError("it is not a JSON object")
        if not exchange.call.stream:
            return "application/json", json.dumps(answer).encode()
        if isinstance(stream, str) and stream.lstrip().startswith("[") == as_array:
            content = stream.encode()
        elif as_array:
            content = json.dumps([answer]).encode()
        else:
            content = b"".join(sse(name, data) for name, data in exchange.api.as_stream(exchange.endpoint, answer))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        why = (
            f"the recorded answer of call {recorded['number']} is malformed, so it cannot be replayed: record it again"
        )
        raise Refusal("invalid", why) from error
    return "application/json" if as_array else "text/event-stream", content


def headers_of(exchange: Exchange) -> dict[str, str]:
    """Return the headers to send: the gateway's own, and the request's allowed headers. Raises Refusal."""
    request, call, provider = exchange.request, exchange.call, exchange.provider
    headers = {"Accept": "text/event-stream" if call.stream else "application/json", "User-Agent": "pytest-mlebench"}
    if request.method == "POST":
        headers["Content-Type"] = "application/json"
    additional = dict.fromkeys(provider.request_headers, _HEADER)
    for name, form in {**exchange.api.headers, **additional}.items():
        given = ",".join(request.headers.getall(name, ()))
        if given and name == "anthropic-beta":
            given, others = exchange.api.betas(given, provider_tools=exchange.admission.provider_tools)
            for other in others:
                exchange.admission.drop(f"{name}: {other}")
            exchange.admission.long_context = "context-1m-" in given
        if given and not form.fullmatch(given):
            raise Refusal("invalid", f"the header {name} does not match {form.pattern}")
        if given:
            headers[name] = given
    return headers


_HEADER = re.compile("[ -~]{1,4096}")


def _error(api: API, problem: Problem, message: str) -> web.Response:
    # A retry would be refused again; clients that know this header do not retry.
    headers = {"x-should-retry": "false"} if problem not in ("overloaded", "upstream", "timeout") else {}
    content = json.dumps(api.error(problem, message)).encode()
    return web.Response(status=api.status(problem), body=content, content_type="application/json", headers=headers)
