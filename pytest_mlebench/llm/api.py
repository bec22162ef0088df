"""The interface that ``openai``, ``anthropic`` and ``gemini`` implement for the gateway, and what these modules share.

The content of a recorded call has one form for all APIs: messages, with tool calls and results. Requests come from
agents and answers from models, so any value in them can have the wrong type.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from typing import Any, ClassVar, Literal, NamedTuple
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from pytest_mlebench.errors import UsageError
from pytest_mlebench.io.values import MAX_DEPTH, as_object, loads
from pytest_mlebench.llm.requests import MAX_ELEMENTS, Admission, Fields, Problem, Refusal, Rule, Wrong

Body = dict[str, Any]
Kind = Literal["generate", "embed", "count", "models", "other"]


class ErrorForm(NamedTuple):
    """How the APIs report a problem: the HTTP status, and the error code of each API."""

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
    # Not 429: clients and agents treat that as temporary, and would retry until their time limit.
    "budget": ErrorForm(402, "insufficient_quota", "billing_error", "PERMISSION_DENIED"),
    "model": ErrorForm(404, "model_not_found", "not_found_error", "NOT_FOUND"),
    "overloaded": ErrorForm(503, None, "overloaded_error", "UNAVAILABLE"),
    "upstream": ErrorForm(502, None, "api_error", "UNAVAILABLE"),
    "timeout": ErrorForm(504, None, "timeout_error", "DEADLINE_EXCEEDED"),
}
_MODEL_NAME = re.compile(r"[A-Za-z0-9][\w.@-]*", re.ASCII)
ANSWER = "answer"
"""Name of the tool or response schema by which a model answers a question of the harness."""
MEDIA_TOKENS = 16_384
"""Upper bound on the tokens that any provider counts for one image, however small its file."""


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """An allowed path. ``api`` is its name in genai-prices. ``model`` is set if the path contains it (Gemini)."""

    kind: Kind
    api: str = "default"
    model: str | None = None
    stream: bool | None = None
    """None: the request body decides."""
    rule: Rule = field(default=Fields(), compare=False, repr=False)
    """What the request body may contain."""


@dataclass(frozen=True)
class Expected:
    """Upper bounds on what a call can use, derived from its request alone."""

    input_tokens: int | None
    """None: limited only by the model's context window."""
    output_tokens: int | None
    """None: the request sets no limit. Servers also treat 0 as no limit."""
    answers: int = 1
    audio: bool = False
    long_context: bool = False
    """Whether the request asks for a longer context window than its model has by default."""
    media_output: str = ""
    """Kind of output other than text that the answer may contain; text prices do not cover it."""


class StreamReader(ABC):
    """Assembles the events of a stream into the answer that a request without streaming would get."""

    @abstractmethod
    def feed(self, event: Body) -> None:
        """Process the data of an event."""

    @abstractmethod
    def answer(self) -> Body:
        """Return the answer so far."""


Role = Literal["system", "user", "agent", "results"]


@dataclass(frozen=True, kw_only=True)
class ToolCall:
    """A tool that a model called."""

    id: str
    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class ToolResult:
    """The result of a tool call; ``id`` is the call's id."""

    id: str
    content: str


@dataclass(frozen=True, kw_only=True)
class Message:
    """One message. Only role ``results`` has ``results``; only role ``agent`` has ``calls`` and ``reasoning``."""

    role: Role
    text: str = ""
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()

    @property
    def fingerprint(self) -> bytes:
        """Equal for messages with the same content. Ignores reasoning and outer spaces, which agents do not repeat."""
        calls = [[call.name, call.arguments] for call in self.calls]
        results = [result.content for result in self.results]
        text = json.dumps([self.role, self.text.strip(), calls, results], sort_keys=True, default=str)
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


@dataclass(kw_only=True)
class CallContent:
    """The content of a call: the agent's messages, and the model's answer (None if there is none)."""

    messages: list[Message] = field(default_factory=list)
    answer: Message | None = None
    tools: list[dict[str, Any]] = field(default_factory=list)
    id: str | None = None
    """Id of the answer, if a later request may refer to it."""
    previous: str | None = None
    """Id of the answer that the request continues without repeating it."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question from the harness to a model. The answer is a JSON object that matches ``schema``."""

    model: str
    system: str
    user: str
    schema: Mapping[str, Any]
    max_tokens: int
    output_limit: str
    """See ``Provider``."""
    with_schema: bool = True
    """Whether to send the schema to a server with OpenAI's API; some do not support it."""


class API(ABC):
    """One API: its requests, and how to read and write the parts that the gateway needs."""

    name: ClassVar[str]
    key_header: ClassVar[str]
    usage_of: ClassVar[str]
    """Provider in genai-prices that can parse the usage in this API's answers."""
    paths: ClassVar[Mapping[str, Endpoint]] = {}
    """Endpoints by method and path, other than the paths that list models (see ``models``)."""
    models: ClassVar[re.Pattern[str]]
    query: ClassVar[frozenset[str]] = frozenset()
    """Query parameters that are passed on."""
    headers: ClassVar[Mapping[str, re.Pattern[str]]] = {}
    """Headers that are passed on, and the required form of their values."""
    last_events: ClassVar[tuple[str, ...]] = ()
    """Types, or data, of the events after which clients stop reading a stream."""

    def betas(self, names: str, *, provider_tools: bool) -> tuple[str, list[str]]:
        """Split a list of beta features into those that are passed on and the others."""
        return "", names.split(",")

    def endpoint(self, method: str, path: str) -> Endpoint | None:
        """Return the endpoint for a path below the provider's base URL; None if the path is not allowed."""
        if method == "GET" and self.models.fullmatch(path):
            return Endpoint(kind="models", stream=False)
        return self.paths.get(f"{method} {path}")

    @abstractmethod
    def error(self, problem: Problem, message: str) -> Body:
        """Return the body of an error in the API's own form."""

    def admit(self, endpoint: Endpoint, body: Body, admission: Admission) -> Body:
        """Return a new body with only the allowed fields; ``admission`` lists what was left out. Raises Refusal."""
        try:
            admitted: Body = endpoint.rule(body, admission)
        except Wrong as wrong:
            raise Refusal("invalid", f"{admission.place}: {wrong}") from None
        self.drop_withheld_tools(admitted, admission)
        return admitted

    def model_problem(self, model: str, *, routed: bool) -> str:
        """Return why a model's name is not passed on; empty if it is.

        ``routed``: the provider routes requests, so a name may leave the choice of a server and a price to it.
        """
        return "" if _MODEL_NAME.fullmatch(model) else "it is not the name of a single model"

    @abstractmethod
    def drop_withheld_tools(self, body: Body, admission: Admission) -> None:
        """Adapt a request whose tools were withheld. Raises Refusal if it requires one of these tools."""

    @abstractmethod
    def expected(self, endpoint: Endpoint, body: Body, size: int, admission: Admission) -> Expected:
        """Return the most that a request of ``size`` bytes can use."""

    @abstractmethod
    def limit_output(self, endpoint: Endpoint, body: Body, tokens: int, admission: Admission) -> bool:
        """Limit the length of the answer of a ``generate`` call; returns False if impossible."""

    @abstractmethod
    def said(self, path: str, request: Body, answer: Body) -> CallContent:
        """Return the content of a call from ``bodies.jsonl.zst``."""

    @abstractmethod
    def question(self, question: Question) -> tuple[str, Body]:
        """Return the path and the body of a request that asks a question."""

    @abstractmethod
    def stream(self, endpoint: Endpoint) -> StreamReader:
        """Return a reader for a streamed answer."""

    @abstractmethod
    def as_stream(self, endpoint: Endpoint, answer: Body) -> Iterator[tuple[str | None, Body | str]]:
        """Convert an answer to the events of a stream: the name and data of each."""

    def ask_for_usage(self, endpoint: Endpoint, body: Body) -> bool:
        """Ask for usage in a stream; returns True if this was added, so that the client must not receive the usage."""
        return False

    def stored_ids(self, endpoint: Endpoint, answer: Body) -> Iterable[str]:
        """Return the ids by which later requests can refer to what the provider stores of an answer."""
        return ()

    def status(self, problem: Problem) -> int:
        return ERRORS[problem].status


CHAT_LIMITS: tuple[str, ...] = ("max_completion_tokens", "max_tokens")
"""Fields by which servers limit the length of a chat completion."""
HOST_ALIAS = "host.docker.internal"
"""Name by which containers reach the host, where the gateway runs."""
VISIBLE = re.compile("[!-~]+")


@dataclass(frozen=True, kw_only=True)
class Provider:
    """A server of language models: its API, its address, and the source of its key.

    ``prices`` is a provider in genai-prices. ``keys`` and ``url_variables`` are names of environment variables.
    ``fields``, ``types``, ``paths``, ``parameters`` and ``request_headers`` extend the API's allow-lists.
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
        """Names of the fields that limit the length of a chat completion; the first is the server's usual one."""
        both = self.prices or self.output_limit == "max_completion_tokens"
        return tuple(dict.fromkeys((self.output_limit, *(CHAT_LIMITS if both else ()))))

    def key(self, environment: Mapping[str, str] = os.environ) -> str:
        """Return the provider's key; empty if none is set."""
        return next((environment[name] for name in self.keys if environment.get(name)), "")

    def check_key(self) -> None:
        """Raise UsageError if the key cannot be sent in an HTTP header."""
        name = next(filter(os.environ.get, self.keys), None)
        if name is not None and not VISIBLE.fullmatch(os.environ[name]):
            raise UsageError(
                f"${name} contains a space, a line break or a non-ASCII character, which no key does: set it again"
            )

    @property
    def host(self) -> str:
        return urlsplit(self.base_url).hostname or ""

    def is_above(self, url: str) -> bool:
        """Return whether a URL is the provider's base URL or below it."""
        return f"{url.rstrip('/')}/".startswith(f"{self.base_url}/")

    def located(self, environment: Mapping[str, str] = os.environ) -> Provider:
        """Return the provider with the base URL that the environment sets for it, if any."""
        moved = next((name for name in self.url_variables if environment.get(name)), None)
        return replace(self, base_url=checked_url(environment[moved], f"${moved}")) if moved else self


def checked_url(url: str, where: str) -> str:
    """Return a base URL without a trailing slash. Raises a UsageError that begins with ``where`` if it is invalid."""
    if not _is_http(url) or (parts := urlsplit(url)).query or parts.fragment:
        raise UsageError(f"{where} is {url!r}, but must be a URL such as https://api.openai.com/v1")
    if "@" in parts.netloc:
        raise UsageError(f"{where} contains a user name or password, which is not supported: use a key of the provider")
    return url.rstrip("/")


def proxy_for(url: str) -> str:
    """Return the machine's proxy for a URL (from ``$HTTPS_PROXY`` and ``$NO_PROXY``); empty if there is none.

    Raises UsageError if it is invalid.
    """
    scheme, host = urlsplit(url).scheme, urlsplit(url).hostname or ""
    found = getproxies().get(scheme)
    if not found or host in ("localhost", "::1", HOST_ALIAS) or host.startswith("127.") or proxy_bypass(host):
        return ""
    proxy = found if "://" in found else f"http://{found}"
    if not _is_http(proxy):  # the message leaves it out, because it may contain a password
        raise UsageError(
            f"the proxy for {scheme}:// URLs, ${scheme}_proxy or ${scheme.upper()}_PROXY, must be a URL such as "
            "http://proxy.example:3128; SOCKS proxies are not supported"
        )
    return proxy


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False
    return valid and VISIBLE.fullmatch(url) is not None


def as_index(value: Any) -> int:
    """Return the index of an answer, a block or an item; 0 if it is missing or invalid."""
    return int(value) if isinstance(value, int | float) and 0 <= value < 1 << 31 else 0


def sse(name: str | None, data: Body | str) -> bytes:
    """Format a server-sent event."""
    line = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return (f"event: {name}\n" if name else "").encode() + f"data: {line}\n\n".encode()


def withheld_tool(name: str) -> Refusal:
    """Return the refusal of a request that requires a withheld tool."""
    why = "tools that the provider runs itself could access the network, which this run may not"
    return Refusal("invalid", f"{name[:64]!r}: {why}; the request requires this tool")


def merge_messages(messages: Iterable[Message]) -> list[Message]:
    """Merge consecutive messages that belong together: an agent's reasoning, text and calls, or several results."""
    merged: list[Message] = []
    for role, consecutive in groupby(messages, key=lambda message: message.role):
        group = list(consecutive)
        if role in ("agent", "results"):
            together = Message(
                role=role,
                text=joined(message.text for message in group),
                reasoning=joined(message.reasoning for message in group),
                calls=tuple(call for message in group for call in message.calls),
                results=tuple(result for message in group for result in message.results),
            )
            group = [together]
        merged += group
    return merged


def called(id: Any, name: Any, arguments: Any) -> ToolCall:
    if isinstance(arguments, str):
        parsed = parse_object(arguments)
        arguments = {"input": arguments} if parsed is None else parsed
    return ToolCall(id=as_string(id), name=as_string(name), arguments=as_object(arguments))


def content_text(value: Any) -> str:
    """Convert content to text: the text of each part, or a placeholder if it has none."""
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
"""Maximum number of commas in an answer. The largest answer with embeddings has six million numbers."""
MAX_EVENT = 32 << 20
_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_BETWEEN = re.compile(r"[\s,\[]*")
_LINE = re.compile(rb"\r\n|\n|\r")


class StreamTooLarge(Exception):
    """An event is larger than ``MAX_EVENT``."""


class Event:
    """A server-sent event: its bytes, its data as text, and its data as a JSON object.

    ``data`` is None if the event has no data, and ``value`` if this is not an object, such as ``[DONE]``.
    """

    def __init__(self, content: bytes) -> None:
        self.content = content
        lines = [line[5:].removeprefix(b" ") for line in _LINE.split(content) if line.startswith(b"data:")]
        self.data = b"\n".join(lines).decode("utf-8", "replace") if lines else None

    @cached_property
    def value(self) -> dict[str, Any] | None:
        return parse_object(self.data) if self.data and self.data[0] == "{" else None


class ServerSentEvents:
    """Splits a stream into its events."""

    def __init__(self) -> None:
        self.rest = b""
        """What follows the last complete event."""

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """Yield the events that end in this chunk. Raises StreamTooLarge."""
        # Search only the new data, and the few bytes before it, where a separator may have started.
        start = max(0, len(self.rest) - 3)
        self.rest += chunk
        done = 0
        for match in _END.finditer(self.rest, start):
            start, done = done, match.end()
            yield Event(self.rest[start:done])
        self.rest = self.rest[done:]
        if len(self.rest) > MAX_EVENT:
            raise StreamTooLarge


def parse_object(content: str | bytes, *, depth: int = MAX_DEPTH) -> dict[str, Any] | None:
    """Parse a JSON object. Returns None for anything else, and if it is nested deeper than ``depth``."""
    try:
        value = loads(content, depth=depth)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def parse_array(content: bytes) -> list[dict[str, Any]]:
    """Return the objects of a JSON array that may be incomplete."""
    text = content.decode("utf-8", "replace")
    decoder, values, position = json.JSONDecoder(), list[dict[str, Any]](), 0
    while (start := _BETWEEN.match(text, position).end()) < len(text):  # type: ignore[union-attr]
        try:
            _, position = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            break
        if (value := parse_object(text[start:position])) is not None:  # not nested too deeply
            values.append(value)
    return values


def joined_texts(stream: bytes) -> list[str]:
    """Return the strings in a stream, joined over its events: one for each place that events have in common."""
    texts = defaultdict[tuple[str, ...], list[str]](list)

    def add(value: Any, place: tuple[str, ...]) -> None:
        if isinstance(value, str):
            texts[place].append(value)
        elif isinstance(value, list):
            for item in value:
                add(item, place)
        elif isinstance(value, dict):
            which = as_index(value.get("index", value.get("output_index")))  # answers and blocks may alternate
            for key, item in value.items():
                add(item, (*place, str(which), key))

    for event in ServerSentEvents().feed(stream + b"\n\n"):  # one by one: parsed, they would take much memory
        add(event.value, ())
    if not texts:
        add(parse_array(stream), ())
    return ["".join(parts) for parts in texts.values()]


def json_object(content: bytes) -> dict[str, Any] | None:
    """Parse an answer that is a JSON object. Returns None for anything else, and if it has too many elements."""
    if content.count(b"{") + content.count(b"[") > MAX_ELEMENTS or content.count(b",") > MAX_ANSWERED_NUMBERS:
        return None
    return parse_object(content)
