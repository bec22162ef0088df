"""Requests: parses them unambiguously, and defines the rules for what they may contain, at every level.

A rule takes a value and returns the value to send. It raises ``Wrong`` for a value of another type. A field that is not
on an allow-list is not sent: it is dropped and recorded, so clients that are newer than the lists still work. A field
is refused by name if dropping it would change what is asked. The allow-lists are in the modules of their APIs.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import parse_qsl

from pytest_mlebench.io.values import json_decoder, loads

if TYPE_CHECKING:
    from aiohttp import web

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
MAX_ELEMENTS = 1_000_000
"""Maximum number of commas and brackets in a body. Parsed, each can take a hundred bytes of memory."""
MOST_NOTED = 50
"""Maximum numbers of dropped fields and of withheld tools that are recorded for a request."""
MOST_TOKENS = 1 << 31
DROPPED = object()
"""A rule returns this for a value that is not sent."""
_LONGEST = 256
_NAME = re.compile(r"[A-Za-z0-9_.:$@/-]{1,64}")
_BASE64 = re.compile(r"(?:data:[\w/+.;=-]{0,100},)?[A-Za-z0-9+/=_\-\s]*", re.ASCII)
INLINE = (
    "this run can only access its model, so the provider may not fetch files for it: send text, or media inline as "
    "base64"
)


class Refusal(Exception):
    """The gateway does not pass a request on. The message is for the agent's author."""

    def __init__(self, problem: Problem, message: str) -> None:
        super().__init__(message)
        self.problem = problem


@dataclass(frozen=True, kw_only=True)
class Target:
    """The target of a request: the provider, the path below it, and the query."""

    provider: str
    path: str
    query: Mapping[str, str]

    @classmethod
    def of(cls, raw: str) -> Target:
        """Parse a request target. The provider is empty if the path is not plain."""
        path, _, query = raw.partition("?")
        parts = path.split("/")
        if parts[0] or len(parts) < 3 or any(part in ("", ".", "..") for part in parts[1:]) or set(path) & set("%\\;#"):
            return cls(provider="", path=path, query=dict(parse_qsl(query)))
        below = "/" + "/".join(parts[2:])
        return cls(provider=parts[1], path=below, query=dict(parse_qsl(query, keep_blank_values=True)))


def check_content_type(request: web.BaseRequest) -> None:
    """Raise Refusal if the headers declare the body to be anything other than uncompressed JSON in UTF-8."""
    for name, allowed in (("Content-Type", _JSON), ("Content-Encoding", _PLAIN)):
        given = request.headers.getall(name, [])
        if len(given) > 1 or not all(allowed.fullmatch(value) for value in given):
            needed = "application/json in UTF-8" if allowed is _JSON else "uncompressed"
            raise Refusal("unsupported", f"{name}: {', '.join(given)[:100]}: bodies must be {needed}")


_JSON = re.compile(r'application/json(\s*;\s*charset="?utf-?8"?)?\s*;?', re.IGNORECASE)
_PLAIN = re.compile("identity", re.IGNORECASE)


def parse_body(raw: bytes) -> dict[str, Any]:
    """Parse a request's JSON object. Raises Refusal for everything that other parsers may read differently."""
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
    """Reject duplicate keys, because parsers disagree: some use the first value, others the last."""
    values = dict(pairs)
    if len(values) != len(pairs):
        raise ValueError("duplicate key")
    return values


def _reject_constant(name: str) -> Any:
    raise ValueError(f"{name} is not valid JSON")


def _finite(digits: str) -> float:
    if not math.isfinite(value := float(digits)):
        raise ValueError(f"{digits[:20]} is too large for a number")
    return value


_STRICT = json_decoder(object_pairs_hook=_unique, parse_constant=_reject_constant, parse_float=_finite)


class Wrong(Exception):
    """A value that no rule allows. ``Admission.place`` is the value's place."""


@dataclass(kw_only=True)
class Admission:
    """The state of one request in the rules: what it may contain, and what was found in it."""

    model: str = ""
    received: set[str] = field(default_factory=set)
    """Ids by which the run can refer to answers that it has received. All calls of the run share this set."""
    provider_tools: bool = False
    """Whether tools that the provider runs itself, and media by URL or id, are passed on."""
    fields: Container[str] = ()
    """Additional fields that are passed on unchanged, as dotted paths."""
    output_limits: Sequence[str] = ("max_tokens", "max_completion_tokens")
    """See ``Provider.output_limits``."""
    types: Container[str] = ()
    """Additional types of tools, message parts and items that are passed on unchanged."""
    dropped: list[str] = field(default_factory=list)
    withheld: list[str] = field(default_factory=list)
    """Kinds of the tools that were removed."""
    withheld_names: set[str] = field(default_factory=set)
    media: int = 0
    unbounded: bool = False
    """Whether it contains something whose tokens are not limited by its size: audio, video, documents."""
    stored: bool = False
    """Whether it refers to an answer that the provider stores."""
    long_context: bool = False
    """Whether a header asks for a longer context window than the model has by default."""
    path: list[str] = field(default_factory=list)
    """Names of the fields around the current value; after an error, also the indexes."""

    @property
    def place(self) -> str:
        return ".".join(self.path).replace(".[", "[")[:200] or "the body"

    def name(self, key: str) -> str:
        return ".".join([*self.path, key])

    def drop(self, name: str) -> None:
        if name not in self.dropped and len(self.dropped) < MOST_NOTED:
            self.dropped.append(name[:128])

    def withhold(self, kind: str) -> None:
        if len(self.withheld) < MOST_NOTED:
            self.withheld.append(kind[:64])

    def saw_media(self, type: str) -> None:
        self.media += 1
        self.unbounded |= not type.startswith(("image/", "text/"))


Rule = Callable[[Any, Admission], Any]


_JSON_TYPES = {str: "a string", list: "a list", dict: "an object", bool: "true or false", int: "a number"}


def _rule(admits: Callable[[Any], bool], what: str) -> Rule:
    def rule(value: Any, _: Admission) -> Any:
        if not admits(value):
            raise Wrong(f"must be {what}")
        return value

    return rule


text = _rule(lambda value: type(value) is str, "a string")
flag = _rule(lambda value: type(value) is bool, "true or false")
count = _rule(lambda value: type(value) is int and 0 <= value < MOST_TOKENS, "a whole number of at least 0")
"""A number of tokens, answers, …"""
whole = _rule(lambda value: type(value) is int and abs(value) < 1 << 63, "a whole number")
number = _rule(lambda value: type(value) in (int, float) and abs(value) <= 1e18, "a number")
word = _rule(lambda value: type(value) is str and _NAME.fullmatch(value) is not None, "a word")
"""A choice with no effect on what the allow-lists protect, such as an effort, a voice or a format."""
mapping = _rule(lambda value: type(value) is dict, "an object")
"""An object with keys that the agent chooses, such as a tool's JSON schema."""
labels = _rule(
    lambda value: type(value) is dict and {*map(type, value.values())} <= {str, int, float, bool, type(None)},
    "an object of strings",
)
"""The client's metadata: an object of strings, numbers and booleans."""


def one_of(*values: str) -> Rule:
    """One of these strings."""
    return _rule(lambda value: type(value) is str and value in values, f"one of {', '.join(sorted(values))}")


def refused(why: str) -> Rule:
    """A field that must be absent, null, false or empty, unless the user has allowed it."""

    def rule(value: Any, admission: Admission) -> Any:
        if ".".join(admission.path) in admission.fields:
            return value
        if value is False or value == "" or value == [] or value == {}:
            return DROPPED
        raise Wrong(why)

    return rule


def _unless_allowed(rule: Rule, *, stored: bool = False) -> Rule:
    """Apply the rule, unless ``--allow-provider-tools`` is given."""

    def checked(value: Any, admission: Admission) -> Any:
        if not admission.provider_tools:
            return rule(value, admission)
        admission.unbounded = True
        admission.stored |= stored
        return value

    return checked


def kept(why: str) -> Rule:
    """Data that the provider stores for this run or another: refused, unless ``--allow-provider-tools`` is given."""
    return _unless_allowed(refused(why), stored=True)


def only_with_provider(what: str) -> Rule:
    """A field that makes the provider access other servers: withheld, unless ``--allow-provider-tools`` is given."""

    def withhold(value: Any, admission: Admission) -> Any:
        if value is not False:
            admission.withhold(what)
        return DROPPED

    return _unless_allowed(withhold)


def many(rule: Rule) -> Rule:
    """A list with elements that the rule allows."""

    def listed(value: Any, admission: Admission) -> Any:
        if type(value) is not list:
            raise Wrong("must be a list")
        admitted, depth = [], len(admission.path)
        for index, item in enumerate(value):
            try:
                got = rule(item, admission)
            except Wrong:
                admission.path.insert(depth, f"[{index}]")
                raise
            if got is not DROPPED:
                admitted.append(got)
        return admitted

    return listed


def some_of(*values: str) -> Rule:
    """A list of strings; those that are not among ``values`` are dropped."""
    known = frozenset(values)

    def rule(value: Any, admission: Admission) -> Any:
        if text(value, admission) in known or admission.provider_tools:
            return value
        admission.drop(f"{admission.name('')}{value[:64]}")
        return DROPPED

    return many(rule)


def either(rules: Mapping[type, Rule]) -> Rule:
    """A value of one of several JSON types, each with its own rule."""

    def rule(value: Any, admission: Admission) -> Any:
        chosen = rules.get(type(value))
        if chosen is None:
            raise Wrong(f"must be {' or '.join(_JSON_TYPES[known] for known in rules)}")
        return chosen(value, admission)

    return rule


def _not_inline(value: Any, admission: Admission) -> Any:
    raise Wrong(INLINE)


by_address = _unless_allowed(_not_inline)
"""Media by URL, or by the id of a file that the provider stores."""


def data_url(value: Any, admission: Admission) -> Any:
    """Inline media as a data URL; anything else is treated as ``by_address``."""
    if text(value, admission)[:5].lower() != "data:":
        return by_address(value, admission)
    admission.saw_media(value[5:64].lower().partition(";")[0])
    return value


def base64(value: Any, admission: Admission) -> Any:
    """Inline media in base64; another field contains their type."""
    if _BASE64.fullmatch(text(value, admission)) is None:
        raise Wrong(INLINE)
    return value


def media(rule: Rule, type_field: str = "", *, default: str = "") -> Rule:
    """Inline media; their type is in ``type_field``, or is always ``default``."""

    def counted(value: Any, admission: Admission) -> Any:
        admitted = rule(value, admission)
        admission.saw_media(str(admitted.get(type_field, default)).lower())
        return admitted

    return counted


class Fields:
    """An object with the ``known`` fields."""

    def __init__(self, **known: Rule) -> None:
        self.known = known
        self._required = ""
        self._snake: dict[str, str] = {}
        self._normal = {normal(name): name for name in known}

    def requiring(self, name: str) -> Fields:
        """Require this field."""
        self._required = name
        return self

    def __call__(self, value: Any, admission: Admission) -> Any:
        mapping(value, admission)
        admitted: dict[str, Any] = {}
        known = self.known
        for key, item in value.items():
            name = self._snake.get(key, key)
            if (rule := known.get(name)) is None:
                self._unknown(key, item, admitted, admission)
                continue
            if name != key and name in value:
                raise Wrong(f"{key!r} and {name!r} are two spellings of the same field")
            if item is None:
                admitted[name] = None
                continue
            admission.path.append(name)
            got = rule(item, admission)
            admission.path.pop()
            if got is not DROPPED:
                admitted[name] = got
        if self._required and admitted.get(self._required) is None:
            raise Wrong(f"needs {self._required!r}")
        return admitted

    def _unknown(self, key: str, item: Any, admitted: dict[str, Any], admission: Admission) -> None:
        if spelling := self._normal.get(normal(key)):
            raise Wrong(f"{key[:64]!r} must be written {spelling!r}")
        if not key.isascii():
            raise Wrong(f"{key[:64]!r} has non-ASCII characters, which no field has")
        name = admission.name(key)
        if name in admission.fields:
            admitted[key] = item
        else:
            admission.drop(name)


class CamelFields(Fields):
    """An object with fields in camel case, whose names servers also accept in snake case."""

    def __init__(self, **known: Rule) -> None:
        super().__init__(**known)
        self._snake = {re.sub("[A-Z]", lambda match: f"_{match[0].lower()}", name): name for name in known}


class Tagged:
    """An object whose ``type`` determines its fields."""

    def __init__(self, kinds: Mapping[str, Rule], *, default: str | None = None, what: str = "") -> None:
        self._kinds = kinds
        self._default = default
        self._what = what

    def __call__(self, value: Any, admission: Admission) -> Any:
        kind = mapping(value, admission).get("type")
        if kind is None:
            kind = self._default
        if type(kind) is not str:
            raise Wrong("type must be a string")
        if (rule := self._kinds.get(kind)) is not None:
            return rule(value, admission)
        if kind in admission.types or admission.provider_tools:
            admission.unbounded = True
            return value
        raise Wrong(f"{self._what} of type {kind[:64]!r} is not passed on; {INLINE}")


def client_tool(rule: Rule, is_clients: Callable[[dict[str, Any]], bool]) -> Rule:
    """A tool: the rule applies if the client runs it; other tools are withheld."""

    def tool(value: Any, admission: Admission) -> Any:
        kind = mapping(value, admission).get("type")
        if admission.provider_tools or (type(kind) is str and kind in admission.types):
            admission.unbounded |= not is_clients(value)
            return value
        if is_clients(value):
            return rule(value, admission)
        admission.withhold(str(kind))
        admission.withheld_names.add(str(value.get("name")))
        return DROPPED

    return tool


def fields(*words: str, **known: Rule) -> Fields:
    """An object whose ``type`` and ``words`` are strings, and whose ``known`` fields have rules."""
    return Fields(**dict.fromkeys(("type", *words), text), **known)


def normal(name: str) -> str:
    """Remove differences that some servers ignore in a field's name: case, underscores, dashes, Unicode forms."""
    if not name.isascii():
        # In long names, normalising takes quadratic time, in which no other thread runs. No field's name is long.
        name = unicodedata.normalize("NFKC", name[:_LONGEST])
    return re.sub(r"[\W_]", "", name).casefold()
