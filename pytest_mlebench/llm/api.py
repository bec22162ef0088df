"""What the gateway knows of an API: the contract of ``openai``, ``anthropic`` and ``gemini``, and what these share.

What was said in a recorded call has one form for all APIs: messages, with tools' calls and results. Requests come from
agents and answers from models, so nothing in them need be of the type that an API asks for.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple
from urllib.parse import urlsplit

from pytest_mlebench.errors import UsageError
from pytest_mlebench.io.values import as_object, loads
from pytest_mlebench.llm.requests import MAX_ELEMENTS, Admission, Fields, Problem, Refusal, Rule, Wrong

Body = dict[str, Any]
Kind = Literal["generate", "embed", "count", "models", "other"]


class ErrorForm(NamedTuple):
    """How the APIs tell of a problem: by a status, and by a word that each of them has for it."""

    status: int
    openai: str | None
    anthropic: str
    gemini: str


ERRORS: dict[Problem, ErrorForm] = {
    "authentication": ErrorForm(401, "invalid_api_key", "authentication_error", "UNAUTHENTICATED"),
    "not_found": ErrorForm(404, "unknown_url", "not_found_error", "NOT_FOUND"),
    "invalid": ErrorForm(400, None, "invalid_request_error", "INVALID_ARGUMENT"),
    "too_large": ErrorForm(413, "request_too_large", "request_too_large", "INVALID_ARGUMENT"),
    "unsupported": ErrorForm(415, None, "invalid_request_error", "INVALID_ARGUMENT"),
    # Not 429: clients and agents take that for a pause, and would ask again until their time has run out.
    "budget": ErrorForm(402, "insufficient_quota", "billing_error", "PERMISSION_DENIED"),
    "model": ErrorForm(404, "model_not_found", "not_found_error", "NOT_FOUND"),
    "overloaded": ErrorForm(503, None, "overloaded_error", "UNAVAILABLE"),
    "upstream": ErrorForm(502, None, "api_error", "UNAVAILABLE"),
    "timeout": ErrorForm(504, None, "timeout_error", "DEADLINE_EXCEEDED"),
}
_MODEL_NAME = re.compile(r"[A-Za-z0-9][\w.@-]*", re.ASCII)
ANSWER = "answer"
"""What a tool, or a form, is called by which a model answers a question of the harness's own."""
MEDIA_TOKENS = 16_384
"""More than any provider counts for one image, however small its file."""


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """What a listed path does. ``api`` is what genai-prices calls it; Gemini has the model in its path."""

    kind: Kind
    api: str = "default"
    model: str | None = None
    stream: bool | None = None
    """None: the body says."""
    rule: Rule = field(default=Fields({}), compare=False, repr=False)
    """What a body may hold."""


@dataclass(frozen=True)
class Expected:
    """The most that an answer can use, as far as a request alone says."""

    input_tokens: int | None
    """None: only the model's context window limits it."""
    output_tokens: int | None
    """None: the request has no limit. Servers take 0 for none, too."""
    answers: int = 1
    audio: bool = False
    long_context: bool = False
    """Whether the request asks for a longer context window than its model has by default."""
    media_output: str = ""
    """What it may answer other than text, where prices of text do not say what that costs."""


class StreamReader(ABC):
    """Puts the events of one stream together to the answer that it would have been without a stream."""

    @abstractmethod
    def feed(self, event: Body) -> None:
        """Take in the data of an event."""

    @abstractmethod
    def answer(self) -> Body:
        """The answer so far."""

    last: ClassVar[tuple[str, ...]] = ()
    """The types, or the data, of events after which clients stop reading."""

    def pass_on(self, event: Body) -> Body | None:
        """The event as the client gets it; None where the client does not get it at all."""
        return event


Role = Literal["system", "user", "agent", "results"]


@dataclass(frozen=True, kw_only=True)
class ToolCall:
    """A tool that a model called."""

    id: str
    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class ToolResult:
    """What a tool gave; ``id`` is its call's."""

    id: str
    content: str


@dataclass(frozen=True, kw_only=True)
class Message:
    """One message; ``results`` are only in messages of that role, ``calls`` and ``reasoning`` only in the agent's."""

    role: Role
    text: str = ""
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()

    @property
    def fingerprint(self) -> bytes:
        """Equal for messages that say the same: agents repeat no reasoning, and no spaces at the ends."""
        called = [[call.name, call.arguments] for call in self.calls]
        gave = [result.content for result in self.results]
        text = json.dumps([self.role, self.text.strip(), called, gave], sort_keys=True, default=str)
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


@dataclass(kw_only=True)
class Said:
    """A call: what the agent sent, and what the model answered (None if nothing came)."""

    messages: list[Message] = field(default_factory=list)
    answer: Message | None = None
    tools: list[dict[str, Any]] = field(default_factory=list)
    id: str | None = None
    """Of the answer, where a later request may refer to it."""
    previous: str | None = None
    """Of the answer that the request continues, without repeating it."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question of the harness's own to a model, whose answer is a JSON object by ``schema``."""

    model: str
    system: str
    user: str
    schema: Mapping[str, Any]
    max_tokens: int
    output_limit: str
    """See ``Provider``."""
    with_schema: bool = True
    """Whether the server of OpenAI's API takes a schema; some do not know it."""


class API(ABC):
    """One API: which requests there are, and how to read and write what the gateway must know of them."""

    name: ClassVar[str]
    key_header: ClassVar[str]
    usage_of: ClassVar[str]
    """Whose reader of usage in genai-prices reads its answers."""
    paths: ClassVar[Mapping[str, Endpoint]] = {}
    """What its methods and paths are, other than those of ``models``, which list models."""
    models: ClassVar[re.Pattern[str]]
    query: ClassVar[frozenset[str]] = frozenset()
    """The parameters of a query that are passed on."""
    headers: ClassVar[Mapping[str, re.Pattern[str]]] = {}
    """The headers that are passed on, and the form that they must have."""

    def betas(self, names: str, *, provider_tools: bool) -> tuple[str, list[str]]:
        """Of a list of features that are not final those that pass, and the others."""
        return "", names.split(",")

    def endpoint(self, method: str, path: str) -> Endpoint | None:
        """What a path below the provider's base URL is; None for one that is not listed."""
        if method == "GET" and self.models.fullmatch(path):
            return Endpoint(kind="models", stream=False)
        return self.paths.get(f"{method} {path}")

    @abstractmethod
    def error(self, problem: Problem, message: str) -> Body:
        """The body of an error, in the provider's own form."""

    def admit(self, endpoint: Endpoint, body: Body, admission: Admission) -> Body:
        """A body written anew, of what the lists name; ``admission`` has what was left out. Raises Refusal."""
        try:
            made: Body = endpoint.rule(body, admission)
        except Wrong as wrong:
            raise Refusal("invalid", str(wrong)) from None
        self.without_tools(made, admission)
        return made

    def why_not_model(self, model: str, *, routed: bool) -> str:
        """Why a model's name is not passed on; empty where it is.

        ``routed``: it may leave the choice of a server, and of a price, to the provider.
        """
        return "" if _MODEL_NAME.fullmatch(model) else "it is not the name of one model"

    @abstractmethod
    def without_tools(self, body: Body, admission: Admission) -> None:
        """Make sense of a request whose tools were withheld. Raises Refusal where that is not possible."""

    @abstractmethod
    def expected(self, endpoint: Endpoint, body: Body, size: int, admission: Admission) -> Expected:
        """The most that a request of ``size`` bytes can use."""

    @abstractmethod
    def limit_output(self, endpoint: Endpoint, body: Body, tokens: int, name: str, admission: Admission) -> bool:
        """Limit the length of the answer; False where that is not possible. ``name``: ``Provider.output_limit``."""

    @abstractmethod
    def said(self, path: str, request: Body, answer: Body) -> Said:
        """What was said in a call, as ``bodies.jsonl.zst`` has it."""

    @abstractmethod
    def question(self, question: Question) -> tuple[str, Body]:
        """The path and the body of a request that asks a question."""

    @abstractmethod
    def stream(self, endpoint: Endpoint, *, drop_usage: bool) -> StreamReader:
        """A reader for the stream of an answer."""

    @abstractmethod
    def as_stream(self, endpoint: Endpoint, answer: Body) -> Iterator[tuple[str | None, Body | str]]:
        """An answer as the events of a stream: the name and data of each."""

    def ask_for_usage(self, endpoint: Endpoint, body: Body) -> bool:
        """Ask for usage in a stream; True where that had to be added, and is to be taken out of the answer again."""
        return False

    def kept_by_provider(self, endpoint: Endpoint, answer: Body) -> Iterable[str]:
        """The ids by which later requests can speak of an answer, as the provider keeps it."""
        return ()

    def answered_model(self, answer: Body) -> str | None:
        return as_string(answer.get("model")) or None

    def status(self, problem: Problem) -> int:
        return ERRORS[problem].status


HOST_ALIAS = "host.docker.internal"
"""How agents in containers name the harness's machine; the gateway runs on it."""
VISIBLE = re.compile("[!-~]+")


@dataclass(frozen=True, kw_only=True)
class Provider:
    """A server of language models: the API that it speaks, where it is, and where its key comes from.

    ``prices`` names a provider of genai-prices. ``keys`` and ``url_variables`` are variables of the environment.
    ``fields``, ``types``, ``paths``, ``parameters`` and ``request_headers`` pass beyond the API's allow-lists.
    """

    name: str
    api: API
    base_url: str
    keys: tuple[str, ...] = ()
    url_variables: tuple[str, ...] = ()
    prices: str | None = None
    key_header: str | None = None
    output_limit: str = "max_tokens"
    fields: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    request_headers: tuple[str, ...] = ()
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def output_limits(self) -> tuple[str, ...]:
        """The names by which it limits the length of a chat completion."""
        both = self.prices or self.output_limit == "max_completion_tokens"
        return ("max_tokens", "max_completion_tokens") if both else (self.output_limit,)

    def key(self, environment: Mapping[str, str] = os.environ) -> str:
        """Its key; empty where none is set."""
        return next((environment[name] for name in self.keys if environment.get(name)), "")

    def check_key(self, environment: Mapping[str, str] = os.environ) -> None:
        """Raises UsageError for a key that no header of a request can hold."""
        key = self.key(environment)
        if key and not VISIBLE.fullmatch(key):
            name = next(name for name in self.keys if environment.get(name))
            raise UsageError(
                f"${name} holds a space, a line break or a letter that is not ASCII; no key does: set it again"
            )

    @property
    def host(self) -> str:
        return urlsplit(self.base_url).hostname or ""

    def is_above(self, url: str) -> bool:
        """Whether a URL is the provider's base URL, or below it."""
        return f"{url.rstrip('/')}/".startswith(f"{self.base_url}/")

    def located(self, environment: Mapping[str, str] = os.environ) -> Provider:
        """The provider with the base URL that the harness's own environment gives it."""
        moved = next((environment[name] for name in self.url_variables if environment.get(name)), None)
        return replace(self, base_url=checked_url(moved, f"${self.url_variables[0]}")) if moved else self


def checked_url(url: str, where: str) -> str:
    """A base URL without a slash at its end. Raises UsageError, which begins with ``where`` the URL was found."""
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        valid = False
    if not valid or parts.query or parts.fragment or not VISIBLE.fullmatch(url):
        raise UsageError(f"{where} is {url!r}, must be a URL such as https://api.openai.com/v1")
    return url.rstrip("/")


def as_index(value: Any) -> int:
    """The place of an answer, a block or an item among others of its kind; the first where it is not given."""
    return int(value) if isinstance(value, int | float) and 0 <= value < 1 << 31 else 0


def sse(name: str | None, data: Body | str) -> bytes:
    """A server-sent event."""
    line = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return (f"event: {name}\n" if name else "").encode() + f"data: {line}\n\n".encode()


def withheld_tool(name: str) -> Refusal:
    """The refusal of a request that insists on a tool which is withheld."""
    why = "tools that the provider runs itself could reach the network, which this run may not"
    return Refusal("invalid", f"{name[:64]!r}: {why}; the request makes no sense without it")


def grouped(messages: Iterable[Message]) -> list[Message]:
    """The messages with what belongs together in one: an agent's reasoning, text and calls; several results."""
    grouped: list[Message] = []
    for message in messages:
        last = grouped[-1] if grouped else None
        if last is not None and last.role == message.role and message.role in ("agent", "results"):
            grouped[-1] = replace(
                last,
                text=joined((last.text, message.text)),
                reasoning=joined((last.reasoning, message.reasoning)),
                calls=last.calls + message.calls,
                results=last.results + message.results,
            )
        else:
            grouped.append(message)
    return grouped


def called(id: Any, name: Any, arguments: Any) -> ToolCall:
    if isinstance(arguments, str):
        try:
            parsed = json.loads(arguments)
        except (ValueError, RecursionError):
            parsed = None
        arguments = parsed if isinstance(parsed, dict) else {"input": arguments}
    return ToolCall(id=as_string(id), name=as_string(name), arguments=as_object(arguments))


def content_text(value: Any) -> str:
    """Content as text: of parts the texts, with a word for each of another kind."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return joined(part_text(part) for part in value)
    return "" if value is None else json.dumps(value, ensure_ascii=False, default=str)


def part_text(part: Any) -> str:
    if not isinstance(part, Mapping):
        return as_string(part)
    for key in ("text", "refusal", "thinking"):
        if isinstance(part.get(key), str):
            return str(part[key])
    if part.get("type") == "tool_result":
        return content_text(part.get("content"))
    return f"[{as_string(part.get('type')) or ', '.join(map(str, part))}]"[:100]


def joined(texts: Iterable[Any]) -> str:
    return "\n".join(text for text in texts if isinstance(text, str) and text)


def as_string(value: Any) -> str:
    return value if isinstance(value, str) else ""


MAX_ANSWERED_NUMBERS = 8_000_000
"""Commas in an answer: the largest answer of embeddings has six million numbers."""
MAX_EVENT = 32 << 20
_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_BETWEEN = re.compile(r"[\s,\[]*")
_LINE = re.compile(rb"\r\n|\n|\r")


class StreamTooLarge(Exception):
    """One event is larger than any honest one."""


class Event:
    """A server-sent event: its bytes, the text of its data, and the object that this is.

    ``data`` is None where it has none, ``value`` where its data is anything else, such as ``[DONE]``.
    """

    def __init__(self, content: bytes) -> None:
        self.content = content
        lines = [line[5:].removeprefix(b" ") for line in _LINE.split(content) if line.startswith(b"data:")]
        self.data = b"\n".join(lines).decode("utf-8", "replace") if lines else None

    @cached_property
    def value(self) -> dict[str, Any] | None:
        return _object(self.data) if self.data and self.data[0] == "{" else None


class ServerSentEvents:
    """Splits a stream into its events."""

    def __init__(self) -> None:
        self.rest = b""
        """What came after the last event that was complete."""

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """The events that end in this chunk. Raises StreamTooLarge."""
        # Only what is new is searched, and one end may lie across two chunks.
        start = max(0, len(self.rest) - 3)
        self.rest += chunk
        done = 0
        for match in _END.finditer(self.rest, start):
            start, done = done, match.end()
            yield Event(self.rest[start:done])
        self.rest = self.rest[done:]
        if len(self.rest) > MAX_EVENT:
            raise StreamTooLarge


def _object(content: str | bytes) -> dict[str, Any] | None:
    try:
        value = loads(content)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def parse_array(content: bytes) -> list[dict[str, Any]]:
    """The objects of a JSON array, as far as it came."""
    text = content.decode("utf-8", "replace")
    decoder, values, place = json.JSONDecoder(), list[dict[str, Any]](), 0
    while (start := _BETWEEN.match(text, place).end()) < len(text):  # type: ignore[union-attr]
        try:
            value, place = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            break
        if isinstance(value, dict):
            values.append(value)
    return values


def json_object(content: bytes) -> dict[str, Any] | None:
    """The object that an answer is; None for anything else, and for more than any honest answer holds."""
    if content.count(b"{") + content.count(b"[") > MAX_ELEMENTS or content.count(b",") > MAX_ANSWERED_NUMBERS:
        return None
    return _object(content)
