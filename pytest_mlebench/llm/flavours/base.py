"""What every flavour of API offers to the gateway."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

Body = dict[str, Any]
Kind = Literal["generate", "embed", "count", "models"]
Problem = Literal[
    "authentication",
    "not_found",
    "invalid",
    "too_large",
    "unsupported",
    "budget",
    "model",
    "overloaded",
    "upstream",
    "timeout",
]
STATUS: dict[Problem, int] = {
    "authentication": 401,
    "not_found": 404,
    "invalid": 400,
    "too_large": 413,
    "unsupported": 415,
    # Not 429: clients and agents take that for a pause, and would ask again until their time has run out.
    "budget": 402,
    "model": 404,
    "overloaded": 503,
    "upstream": 502,
    "timeout": 504,
}
MEDIA_TOKENS = 16_384
"""More than any provider counts for one image, however small its file."""


class Refusal(Exception):
    """Why the gateway does not pass a request on; the text is meant for the agent's author."""

    def __init__(self, problem: Problem, message: str) -> None:
        super().__init__(message)
        self.problem = problem


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """What a listed path does. ``api`` is what genai-prices calls it; Gemini has the model in its path."""

    kind: Kind
    api: str = "default"
    model: str | None = None
    stream: bool | None = None
    """None: the body says."""


@dataclass(frozen=True)
class Expected:
    """The most that an answer can use, as far as a request alone says."""

    input_tokens: int | None
    """None: only the model's context window limits it."""
    output_tokens: int | None
    """None: the request has no limit."""
    answers: int = 1
    audio: bool = False


class StreamReader(ABC):
    """Puts the events of one stream together to the answer that it would have been without a stream."""

    @abstractmethod
    def feed(self, event: Body) -> None:
        """Take in the data of an event."""

    @abstractmethod
    def answer(self) -> Body:
        """The answer so far."""

    last: ClassVar[tuple[str, ...]] = ()
    """What the data of an event has in it, or is, after which clients stop reading; other events may have it too."""
    usage: ClassVar[str | None] = None
    """What the data of an event has in it that may not be passed on as it is."""

    def is_last(self, event: Body | None, data: str | None) -> bool:
        """Whether clients stop reading after this event."""
        return False

    def pass_on(self, event: Body) -> Body | None:
        """The event as the client gets it; None where the client does not get it at all."""
        return event


class Flavour(ABC):
    """One API: which requests there are, and how to read and write what the gateway must know of them."""

    name: ClassVar[str]
    key_header: ClassVar[str]
    usage_of: ClassVar[str]
    """Whose reader of usage in genai-prices reads its answers."""
    query: ClassVar[frozenset[str] | None] = None
    """The parameters of a query that are passed on; None: all."""

    @abstractmethod
    def endpoint(self, method: str, path: str) -> Endpoint | None:
        """What a path below the provider's base URL is; None for one that is not listed."""

    @abstractmethod
    def error(self, problem: Problem, message: str) -> Body:
        """The body of an error, in the provider's own form."""

    @abstractmethod
    def guard(self, endpoint: Endpoint, body: Body, received: Container[str] = ()) -> list[str]:
        """Take out of a body what the provider would do in the open network; returns the names of what was taken.

        Raises Refusal where the request makes no sense without, and where it speaks of what the provider keeps, other
        than by the ids that this run has ``received``.
        """

    @abstractmethod
    def expected(self, endpoint: Endpoint, body: Body, size: int) -> Expected:
        """The most that a request of ``size`` bytes can use."""

    @abstractmethod
    def limit_output(self, endpoint: Endpoint, body: Body, tokens: int, name: str) -> bool:
        """Limit the length of the answer; False where that is not possible. ``name``: ``Provider.output_limit``."""

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
        return text(answer.get("model"))

    def status(self, problem: Problem) -> int:
        return STATUS[problem]


def text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def number(value: Any) -> int | None:
    """A count of tokens, as a request may give it."""
    if isinstance(value, float) and value == value and abs(value) < 1e18:
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


_CLIENTS_OWN = {"tool_use": "input", "redacted_thinking": "data"}
_REFERENCES = ("url", "uri", "fileid")
_DATA_KEYS = ("data", "filedata")
_NOT_SENT_FOR = {"args", "response", "arguments", "annotations", "citations"}


def normal(name: str) -> str:
    """A field's name without what some servers do not look at: capitals, underscores, dashes."""
    return re.sub(r"[_\-]", "", name).casefold()


def refuse_disguises(body: Body, names: Mapping[str, str]) -> None:
    """Refuse fields that a lenient server would read as a guarded one. ``names``: by their normal form."""
    for key in body:
        right = names.get(normal(key))
        if right is not None and key not in right.split("|"):
            raise Refusal("invalid", f"{key!r} must be written {right.split('|')[0]!r}")


def refuse_references(content: Any) -> tuple[int, bool]:
    """Refuse media by URL or by the id of a file that the provider holds, anywhere in messages.

    What an agent's own tools were called with and answered is the client's and not looked into. Returns how many media
    there are inline, and whether there are some whose tokens their size does not limit (documents, audio, video).
    """
    images, unbounded = 0, False
    todo = [content]
    while todo:
        value = todo.pop()
        if isinstance(value, list):
            todo += value
            continue
        if not isinstance(value, dict):
            continue
        type = value.get("type")
        for key, item in value.items():
            if key in _NOT_SENT_FOR or (isinstance(type, str) and _CLIENTS_OWN.get(type) == key):
                continue
            name = normal(key)
            if (
                isinstance(item, str)
                and item[:5].lower() != "data:"
                and (name.endswith(_REFERENCES) or (name in _DATA_KEYS and "://" in item[:64]))
            ):
                where = f"{type} " if isinstance(type, str) else ""
                raise Refusal(
                    "invalid",
                    f"{where}{key}: this run reaches no network but its model, so the provider may not fetch "
                    "files for it: send them inline as base64",
                )
            if isinstance(item, str):
                if item[:5].lower() == "data:" or name in _DATA_KEYS:
                    media = _media_type(value, item)
                    images += 1
                    unbounded |= not media.startswith(("image/", "text/"))
            else:
                todo.append(item)
    return images, unbounded


def _media_type(value: Mapping[str, Any], item: str) -> str:
    if item[:5].lower() == "data:":
        return item[5:64].lower().partition(";")[0]
    given = next((value[key] for key in ("media_type", "mimeType", "mime_type") if key in value), "")
    return str(given).lower()


def sse(name: str | None, data: Body | str) -> bytes:
    """A server-sent event."""
    line = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return (f"event: {name}\n" if name else "").encode() + f"data: {line}\n\n".encode()


def withheld_tool(name: str) -> Refusal:
    """The refusal of a request that insists on a tool which is withheld."""
    return Refusal(
        "invalid",
        f"{name}: tools that the provider runs itself could reach the network, which this run may not; the request "
        "makes no sense without it",
    )
