"""Local providers: a server with the APIs of OpenAI, Anthropic and Gemini over TLS and a scripted model.
It counts words as tokens, so that every total can be checked.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import ssl
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trustme
from aiohttp import web

KEY = "sk-upstream-0123456789abcdefghijklmnopqrstuv"
REPLY = "Standard scaling and a logistic regression reach the best score."
CACHED, REASONING = 3, 2
ARGUMENTS = {"command": "ls -la", "where": {"host": "https://example.org/häßlich"}}
_FORCED = ("function", "tool")
_pause: ContextVar[float] = ContextVar("_pause")
"""``Upstream.pause`` when the task's request arrived."""


@dataclass
class Seen:
    """A request as received by the provider."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: Any
    raw: bytes


@dataclass
class Failure:
    """An error response to the next request."""

    status: int
    body: dict[str, Any]
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Move:
    """An action of the model: write text, or call a tool of the client.

    String arguments are for a tool that takes free text, which only the Responses API has.
    """

    text: str = ""
    tool: str = ""
    arguments: Any = None
    id: str = "call_1"


class Upstream:
    """A provider in a separate thread. Its attributes may be set while it runs."""

    def __init__(self, *, tls: ssl.SSLContext | None = None, host: str = "localhost") -> None:
        self.seen: list[Seen] = []
        self.failures: deque[Failure] = deque()
        self.reply = REPLY
        self.pause = 0.0
        """Seconds between the events of a stream, and before an answer."""
        self.usage: Any = None
        """A false usage to report instead of the real one; False reports none."""
        self.endless = False
        self.breaks_off = False
        self.lost = 0
        """How many of the next requests get no answer: the connection is lost."""
        self.fixed: tuple[str, bytes] | None = None
        """A content type and a response body."""
        self.compressed = False
        self.echo = ""
        self.arguments: dict[str, Any] = ARGUMENTS
        """Arguments of its tool calls."""
        self.headers: dict[str, str] = {}
        self.bomb = b""
        """A compressed response body."""
        self.bomb_encoding = "gzip"
        self.gather = 0
        """If set, it responds only when this many requests are waiting."""
        self.cancelled = 0
        self.open = 0
        self.most_open = 0
        self.served = 0
        self.on_request: Callable[[Seen], None] = lambda seen: None
        self.play: Callable[[dict[str, Any]], Move] = self._reply
        """Returns the model's action for the body of a request."""
        self._tls, self._host = tls, host
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://{self._host}:{self.port}"

    def __enter__(self) -> Upstream:
        self._thread.start()
        assert self._started.wait(20)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        runner = web.ServerRunner(
            web.Server(
                self._handle,
                handler_cancellation=True,
                access_log=None,
                request_factory=self._request,
            ),
            shutdown_timeout=0.1,
        )
        await runner.setup()
        listening = socket.create_server(("127.0.0.1" if self._host == "localhost" else self._host, 0))
        await web.SockSite(runner, listening, ssl_context=self._tls).start()
        self.port = listening.getsockname()[1]
        self._started.set()
        await self._stop.wait()
        self._loop.remove_reader(listening)
        await asyncio.sleep(0.02)  # connections that were just accepted reach the server
        await runner.cleanup()
        await asyncio.sleep(0.02)  # aborted connections are closed in the next iterations of the loop

    def _request(self, message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
        return web.BaseRequest(message, payload, protocol, writer, task, self._loop, client_max_size=1 << 28)

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        _pause.set(self.pause)  # a test may change it as soon as it sees the request
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            return await self._answer(request)
        except (asyncio.CancelledError, ConnectionResetError):  # the client disconnects during a wait or a write
            self.cancelled += 1
            raise
        finally:
            self.open -= 1

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        raw = await request.read()
        while self.open < self.gather and self.most_open < self.gather:
            await asyncio.sleep(0.01)
        body: Any = json.loads(raw) if raw else None
        seen = Seen(request.method, request.path, request.query_string, dict(request.headers), body, raw)
        self.seen.append(seen)
        self.on_request(seen)
        if self.failures:
            failure = self.failures.popleft()
            headers = {"Content-Type": "application/json", **failure.headers}
            return web.Response(text=json.dumps(failure.body), status=failure.status, headers=headers)
        if self.lost:
            self.lost -= 1
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        if self.fixed is not None:
            return web.Response(body=self.fixed[1], headers={"content-type": self.fixed[0]})
        if self.bomb:
            kind = "text/event-stream" if body.get("stream") else "application/json"
            return web.Response(body=self.bomb, headers={"content-encoding": self.bomb_encoding, "content-type": kind})
        path = request.path
        if path.endswith("/chat/completions"):
            events, whole = _chat(self, body)
            return await self._send(request, body.get("stream"), events, whole)
        if path.endswith("/responses"):
            events, whole = _responses(self, body)
            return await self._send(request, body.get("stream"), events, whole)
        if path.endswith("/embeddings"):
            usage = self._said({"prompt_tokens": 8, "total_tokens": 8})
            data = [{"object": "embedding", "index": 0, "embedding": [0.5, -0.25]}]
            return web.json_response({"object": "list", "data": data, "model": body["model"], "usage": usage})
        if path.endswith("/models") and "v1beta" not in path:
            return web.json_response(
                {"object": "list", "data": [{"id": "gpt-4o", "object": "model", "created": 1, "owned_by": "us"}]}
            )
        if path.endswith("/messages"):
            events, whole = _messages(self, body)
            return await self._send(request, body.get("stream"), events, whole)
        if path.endswith("/messages/count_tokens"):
            return web.json_response({"input_tokens": _words(body)})
        if path.endswith(":generateContent"):
            _, whole = _contents(self, request.path, body)
            return await self._send(request, False, [], whole)
        if path.endswith(":streamGenerateContent"):
            events, whole = _contents(self, request.path, body)
            return await self._send(request, True, events, whole, array=request.query.get("alt") != "sse")
        if path.endswith(":countTokens"):
            return web.json_response({"totalTokens": _words(body)})
        return web.json_response({"error": {"message": f"no {path}"}}, status=404)

    def _reply(self, body: dict[str, Any]) -> Move:
        if tool := _tool(body):
            return Move(tool=tool["name"], arguments=self.arguments)
        return Move(self.reply + self.echo)

    def _said(self, usage: dict[str, Any]) -> Any:
        return usage if self.usage is None else self.usage or None

    async def _send(
        self,
        request: web.BaseRequest,
        stream: bool | None,
        events: list[tuple[str | None, Any]],
        whole: dict[str, Any],
        *,
        array: bool = False,
    ) -> web.StreamResponse:
        if not stream:
            await asyncio.sleep(_pause.get())
            content = json.dumps(whole).encode()
            headers = {"content-type": "application/json", "request-id": "req_1", **self.headers}
            if self.compressed:
                content, headers["content-encoding"] = gzip.compress(content), "gzip"
            self.served += 1
            return web.Response(body=content, headers=headers)
        kind = "application/json" if array else "text/event-stream"
        response = web.StreamResponse(headers={"content-type": kind, "request-id": "req_1", **self.headers})
        await response.prepare(request)
        async for content in self._pieces(events, array=array):
            await response.write(content)
            await asyncio.sleep(self.pause)
        if self.breaks_off:
            assert request.transport is not None
            request.transport.abort()
            return response
        self.served += 1
        await response.write_eof()
        return response

    async def _pieces(self, events: list[tuple[str | None, Any]], *, array: bool) -> AsyncIterator[bytes]:
        for number, (name, data) in enumerate(events):
            if self.breaks_off and number == 3:
                return
            text = data if isinstance(data, str) else json.dumps(data)
            if array:
                yield (b"[" if number == 0 else b",\r\n") + text.encode()
            else:
                yield (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode()
            while self.endless and number == 3:
                yield b": still here\n\n"
                await asyncio.sleep(0.01)
        if array:
            yield b"]"


def _words(value: Any) -> int:
    if isinstance(value, dict):
        return sum(map(_words, value.values()))
    if isinstance(value, list):
        return sum(map(_words, value))
    return len(str(value).split()) if isinstance(value, str) else 0


def _pieces_of(text: str) -> Iterator[str]:
    words = text.split(" ")
    for number, word in enumerate(words):
        yield word if number == len(words) - 1 else word + " "


def _tool(body: dict[str, Any]) -> dict[str, Any] | None:
    """The first client tool, if ``tool_choice`` forces a call or a message requests one."""
    choice = body.get("tool_choice")
    if "use the tool" not in json.dumps(body) and not (isinstance(choice, dict) and choice["type"] in _FORCED):
        return None
    for tool in body.get("tools") or ():
        if "function" in tool:
            return dict(tool["function"])
        if "functionDeclarations" in tool or "function_declarations" in tool:
            return dict((tool.get("functionDeclarations") or tool["function_declarations"])[0])
        if tool.get("type") in (None, "custom", "function") and "name" in tool:
            return dict(tool)
    return None


def _chat(up: Upstream, body: dict[str, Any]) -> tuple[list[tuple[str | None, Any]], dict[str, Any]]:
    move = up.play(body)
    reply, arguments = move.text, json.dumps(move.arguments)
    output = len(reply.split()) + REASONING
    usage = up._said(
        {
            "prompt_tokens": (prompt := _words(body["messages"]) + CACHED),
            "completion_tokens": output,
            "total_tokens": prompt + output,
            "prompt_tokens_details": {"cached_tokens": CACHED},
            "completion_tokens_details": {"reasoning_tokens": REASONING},
        }
    )
    common = {"id": "chatcmpl-1", "created": 1_700_000_000, "model": f"{body['model']}", "x_unknown": {"kept": True}}
    call: dict[str, Any] | None = None
    if move.tool:
        function = {"name": move.tool, "arguments": arguments}
        call = {"id": move.id, "type": "function", "function": function}
    message = {"role": "assistant", "content": None if call else reply, **({"tool_calls": [call]} if call else {})}
    finish = "tool_calls" if call else "stop"
    whole = {
        **common,
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None}],
        "usage": usage,
    }
    asked = bool((body.get("stream_options") or {}).get("include_usage"))
    extra = {"usage": None} if asked else {}
    chunk = {**common, "object": "chat.completion.chunk", **extra}

    def delta(value: dict[str, Any], finish: str | None = None) -> tuple[None, dict[str, Any]]:
        return None, {**chunk, "choices": [{"index": 0, "delta": value, "finish_reason": finish, "logprobs": None}]}

    events: list[tuple[str | None, Any]] = [delta({"role": "assistant", "content": None if call else ""})]
    if call:
        start = {**call, "index": 0, "function": {"name": move.tool, "arguments": ""}}
        events.append(delta({"tool_calls": [start]}))
        events += [
            delta({"tool_calls": [{"index": 0, "function": {"arguments": arguments[i : i + 7]}}]})
            for i in range(0, len(arguments), 7)
        ]
    else:
        events += [delta({"content": piece}) for piece in _pieces_of(reply)]
    events.append(delta({}, finish))
    if asked:
        events.append((None, {**chunk, "choices": [], "usage": usage}))
    return [*events, (None, "[DONE]")], whole


def _responses(up: Upstream, body: dict[str, Any]) -> tuple[list[tuple[str | None, Any]], dict[str, Any]]:
    move = up.play(body)
    reply, arguments = move.text, json.dumps(move.arguments)
    output = len(reply.split()) + REASONING
    prompt = _words(body["input"]) + CACHED
    usage = up._said(
        {
            "input_tokens": prompt,
            "input_tokens_details": {"cached_tokens": CACHED},
            "output_tokens": output,
            "output_tokens_details": {"reasoning_tokens": REASONING},
            "total_tokens": prompt + output,
        }
    )
    item: dict[str, Any]
    if move.tool and isinstance(move.arguments, str):
        item = {
            "id": "ctc_1",
            "type": "custom_tool_call",
            "call_id": move.id,
            "name": move.tool,
            "input": move.arguments,
            "status": "completed",
        }
    elif move.tool:
        item = {
            "id": "fc_1",
            "type": "function_call",
            "call_id": move.id,
            "name": move.tool,
            "arguments": arguments,
            "status": "completed",
        }
    else:
        part: dict[str, Any] = {"type": "output_text", "text": reply, "annotations": [], "logprobs": []}
        item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
    whole = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": "completed",
        "model": body["model"],
        "output": [item],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": body.get("tools") or [],
        "usage": usage,
    }
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    events: list[dict[str, Any]] = [{"type": "response.created", "response": begun}]
    events.append({"type": "response.output_item.added", "output_index": 0, "item": {**item, "status": "in_progress"}})
    place = {"output_index": 0, "item_id": item["id"]}
    if item["type"] == "custom_tool_call":
        for phase, key in (("delta", "delta"), ("done", "input")):
            events.append({"type": f"response.custom_tool_call_input.{phase}", **place, key: move.arguments})
    elif move.tool:
        events += [
            {"type": "response.function_call_arguments.delta", **place, "delta": arguments[i : i + 7]}
            for i in range(0, len(arguments), 7)
        ]
        events.append(
            {"type": "response.function_call_arguments.done", **place, "name": item["name"], "arguments": arguments}
        )
    else:
        where = {**place, "content_index": 0}
        events.append({"type": "response.content_part.added", **where, "part": {**item["content"][0], "text": ""}})
        events += [
            {"type": "response.output_text.delta", **where, "delta": piece, "logprobs": []}
            for piece in _pieces_of(reply)
        ]
        events.append({"type": "response.output_text.done", **where, "text": reply, "logprobs": []})
        events.append({"type": "response.content_part.done", **where, "part": item["content"][0]})
    events.append({"type": "response.output_item.done", "output_index": 0, "item": item})
    events.append({"type": "response.completed", "response": whole})
    return [(event["type"], {**event, "sequence_number": n}) for n, event in enumerate(events)], whole


def _messages(up: Upstream, body: dict[str, Any]) -> tuple[list[tuple[str | None, Any]], dict[str, Any]]:
    move = up.play(body)
    reply, arguments = move.text, json.dumps(move.arguments)
    output = len(reply.split())
    usage = up._said(
        {
            "input_tokens": _words(body["messages"]),
            "cache_creation_input_tokens": 5,
            "cache_read_input_tokens": CACHED,
            "output_tokens": output,
        }
    )
    block: dict[str, Any] = {"type": "text", "text": reply}
    if move.tool:
        block = {"type": "tool_use", "id": f"toolu_{move.id}", "name": move.tool, "input": move.arguments}
    stop = "tool_use" if move.tool else "end_turn"
    whole = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": [block],
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": usage,
    }
    first = {**usage, "output_tokens": 1} if isinstance(usage, dict) else usage
    begun = {**whole, "content": [], "stop_reason": None, "usage": first}
    empty = {**block, "input": {}} if move.tool else {**block, "text": ""}
    pieces = [arguments[i : i + 7] for i in range(0, len(arguments), 7)] if move.tool else list(_pieces_of(reply))
    deltas = [
        {"type": "input_json_delta", "partial_json": piece} if move.tool else {"type": "text_delta", "text": piece}
        for piece in pieces
    ]
    last = {"output_tokens": usage["output_tokens"]} if isinstance(usage, dict) and "output_tokens" in usage else usage
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": empty},
        {"type": "ping"},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": last},
        {"type": "message_stop"},
    ]
    return [(str(event["type"]), event) for event in events], whole


def _contents(up: Upstream, path: str, body: dict[str, Any]) -> tuple[list[tuple[str | None, Any]], dict[str, Any]]:
    move = up.play(body)
    reply = move.text
    output = len(reply.split())
    prompt = _words(body["contents"]) + CACHED
    model = path.rpartition("/")[2].partition(":")[0]
    usage = up._said(
        {
            "promptTokenCount": prompt,
            "cachedContentTokenCount": CACHED,
            "candidatesTokenCount": output,
            "thoughtsTokenCount": REASONING,
            "totalTokenCount": prompt + output + REASONING,
        }
    )

    def answer(parts: list[Any], finish: str | None, usage: Any) -> dict[str, Any]:
        candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
        if finish:
            candidate["finishReason"] = finish
        return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": model, "responseId": "r1"}

    if move.tool:
        parts = [{"functionCall": {"name": move.tool, "args": move.arguments}}]
        return [(None, answer(parts, "STOP", usage))], answer(parts, "STOP", usage)
    begun = {"promptTokenCount": prompt, "totalTokenCount": prompt} if usage else usage
    pieces = [[{"text": piece}] for piece in _pieces_of(reply)]
    events = [answer(parts, None, begun) for parts in pieces[:-1]] + [answer(pieces[-1], "STOP", usage)]
    return [(None, event) for event in events], answer([{"text": reply}], "STOP", usage)


@contextmanager
def authority(folder: Path) -> Iterator[tuple[ssl.SSLContext, Path]]:
    """A certificate authority: the server's TLS context and the CA file for clients."""
    ca = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("localhost", "127.0.0.1", "models.example").configure_cert(context)
    file = folder / "ca.pem"
    ca.cert_pem.write_to_path(str(file))
    yield context, file
