"""A request on its way through the gateway, and how it is read."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from pytest_mlebench.io.json_files import json_decoder, loads
from pytest_mlebench.llm.allowed import Admission
from pytest_mlebench.llm.flavours import Endpoint, Flavour, Refusal
from pytest_mlebench.llm.flavours.base import StreamReader
from pytest_mlebench.llm.ledger import Call
from pytest_mlebench.llm.providers import Provider

if TYPE_CHECKING:
    from aiohttp import web

MAX_ELEMENTS = 1_000_000
"""Commas and brackets in a body: parsed, each may take a hundred bytes."""
MAX_ANSWERED_NUMBERS = 8_000_000
"""Commas in an answer: the largest answer of embeddings has six million numbers."""
_MOST_IDS, _LONGEST_ID = 1000, 256
"""Of one answer."""
HIDDEN = "[key]"
CANCELLED = "cancelled by the client"


class Stage(Enum):
    """How far a request has come."""

    RECEIVED = "received"
    SENT = "sent"
    """The provider may have begun to answer, and to charge for it."""
    REFUSED = "refused"
    """By the provider, which costs nothing."""
    STREAMING = "streaming"
    """The client has the first part of the answer."""
    COMPLETE = "complete"

    @property
    def begun(self) -> bool:
        """Whether the client has a part of the answer already."""
        return self in (Stage.STREAMING, Stage.COMPLETE)

    @property
    def costs(self) -> bool:
        return self not in (Stage.RECEIVED, Stage.REFUSED)


@dataclass(frozen=True, kw_only=True)
class Outgoing:
    """A request as the gateway writes it, for ``path`` below the provider's base URL."""

    provider: Provider
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    content: bytes = b""
    drop_usage: bool = False
    """Whether the client has not asked for the usage in a stream."""


@dataclass
class Exchange:
    """A request on its way, and what is known of it by now."""

    request: web.BaseRequest
    flavour: Flavour
    call: Call
    provider: Provider | None = None
    endpoint: Endpoint | None = None
    path: str = ""
    received: set[str] = field(default_factory=set)
    """Ids by which the run can speak of answers that it has received; all its calls share them."""
    raw: bytes = b""
    is_read: bool = False
    """Whether ``raw`` is a JSON object."""
    admission: Admission = field(default_factory=Admission)
    models: list[str] = field(default_factory=list)
    """The model that is asked, and those that the provider may ask in its place."""
    context: dict[str, str] = field(default_factory=dict)
    reservation: int | None = None
    stage: Stage = Stage.RECEIVED
    finished: bool = False
    """Whether it is in the ledger."""
    kept: int = 0
    """Bytes of the answer that are in memory."""
    answer: dict[str, Any] | None = None
    content: bytes = b""
    """Of the answer, where it was no stream."""
    reader: StreamReader | None = None
    stream: list[bytes] | None = None
    started: float = field(default_factory=time.monotonic)

    def remember(self) -> None:
        """Put a stream together to its answer, and note the ids by which the run can speak of it from now on."""
        if self.reader is not None:
            self.answer = self.reader.answer()
        if self.answer is not None and self.endpoint is not None:
            ids = self.flavour.kept_by_provider(self.endpoint, self.answer)
            self.received.update(id for id in islice(ids, _MOST_IDS) if len(id) <= _LONGEST_ID)

    @property
    def size(self) -> int:
        return len(self.raw) + self.call.response_bytes

    def elapsed(self) -> float:
        return round(time.monotonic() - self.started, 6)


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


def parse_body(raw: bytes) -> dict[str, Any]:
    """A request's JSON object, read in the one way in which everybody reads it. Raises Refusal."""
    if sum(map(raw.count, (b",", b"[", b"{"))) > MAX_ELEMENTS:
        raise Refusal("too_large", "the body has too many elements")
    try:
        body = loads(raw.decode("utf-8"), decoder=_STRICT)
    except ValueError as error:
        raise Refusal("invalid", f"the body is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise Refusal("invalid", "the body must be a JSON object")
    return body


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Readers disagree on a duplicate key: some use its first value, others the last."""
    values = dict(pairs)
    if len(values) != len(pairs):
        raise ValueError("duplicate key")
    return values


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not valid JSON")


def _finite(digits: str) -> float:
    if not math.isfinite(value := float(digits)):
        raise ValueError(f"{digits[:20]} is larger than a number can be")
    return value


_STRICT = json_decoder(object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite)


def text_list(name: str, values: Any) -> list[str]:
    if not isinstance(values, list) or not all(isinstance(value, str) and len(value) <= 256 for value in values):
        raise Refusal("invalid", f"{name} must be a list of strings")
    return values


def check_content_type(request: web.BaseRequest) -> None:
    """Raises Refusal for a body that its own headers say to be read in another way than as JSON in UTF-8."""
    for name, right in (("Content-Type", _JSON), ("Content-Encoding", _PLAIN)):
        given = request.headers.getall(name, [])
        if len(given) > 1 or not all(right.fullmatch(value) for value in given):
            needed = "application/json in UTF-8" if right is _JSON else "uncompressed"
            raise Refusal("unsupported", f"{name}: {', '.join(given)[:100]}: bodies must be {needed}")


_JSON = re.compile(r'application/json(\s*;\s*charset="?utf-?8"?)?\s*;?', re.IGNORECASE)
_PLAIN = re.compile("identity", re.IGNORECASE)


def headers_of(exchange: Exchange) -> dict[str, str]:
    """The headers of a request that are passed on, as the gateway writes them. Raises Refusal."""
    request, call, provider = exchange.request, exchange.call, exchange.provider
    made = {
        "Accept": "text/event-stream" if call.stream else "application/json",
        "User-Agent": "pytest-mlebench",
    }
    if request.method == "POST":
        made["Content-Type"] = "application/json"
    further = dict.fromkeys(provider.request_headers, _HEADER) if provider is not None else {}
    for name, form in {**exchange.flavour.headers, **further}.items():
        given = ",".join(request.headers.getall(name, ()))
        if given and name == "anthropic-beta":
            given, others = exchange.flavour.betas(given, provider_tools=exchange.admission.provider_tools)
            for other in others:
                exchange.admission.drop(f"{name}: {other}")
            exchange.admission.long_context = "context-1m-" in given
        if given and not form.fullmatch(given):
            raise Refusal("invalid", f"the header {name} has another form than {form.pattern}")
        if given:
            made[name] = given
    return made


_HEADER = re.compile("[ -~]{1,4096}")


def target(raw: str) -> tuple[str, str, dict[str, str]]:
    """A request's provider, the path below it, and its query; the provider is empty for what is no plain path."""
    path, _, query = raw.partition("?")
    parts = path.split("/")
    if parts[0] or len(parts) < 3 or any(part in ("", ".", "..") for part in parts[1:]) or set(path) & set("%\\;#"):
        return "", path, dict(parse_qsl(query))
    return parts[1], "/" + "/".join(parts[2:]), dict(parse_qsl(query, keep_blank_values=True))


def json_object(content: bytes) -> dict[str, Any] | None:
    if content.count(b"{") + content.count(b"[") > MAX_ELEMENTS or content.count(b",") > MAX_ANSWERED_NUMBERS:
        return None
    try:
        value = loads(content)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def error_text(answer: Mapping[str, Any] | None, content: bytes) -> str:
    error = (answer or {}).get("error")
    message = error.get("message") if isinstance(error, Mapping) else error
    return str(message or content[:500].decode("utf-8", "replace"))[:1000]


def reason(error: BaseException, key: str) -> str:
    text = str(error) or type(error).__name__
    return (text.replace(key, HIDDEN) if key else text)[:300]
