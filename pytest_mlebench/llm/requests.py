"""Requests: read in the one way in which everybody reads them, and what they may hold, at every level.

A rule takes a value and returns the value to be sent. It raises ``Wrong`` for a value of another type. A field that no
list names does not reach the provider: it is dropped and noted, so clients that are newer than the lists still work.
A field that would change what is asked, if it were dropped, is refused by name. The lists are with their APIs.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Container, Mapping
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
"""Commas and brackets in a body: parsed, each may take a hundred bytes."""
MOST_NOTED = 50
MOST_TOKENS = 1 << 31
DROPPED = object()
"""What a rule returns for what is not sent."""
_NAME = re.compile(r"[A-Za-z0-9_.:$@/-]{1,64}")
_BASE64 = re.compile(r"(?:data:[\w/+.;=-]{0,100},)?[A-Za-z0-9+/=_\-\s]*", re.ASCII)
INLINE = (
    "this run reaches no network but its model, so the provider may not fetch files for it: send text, or media inline "
    "as base64"
)


class Refusal(Exception):
    """Why the gateway does not pass a request on; the text is meant for the agent's author."""

    def __init__(self, problem: Problem, message: str) -> None:
        super().__init__(message)
        self.problem = problem


@dataclass(frozen=True, kw_only=True)
class Target:
    """What a request's first line names: a provider, the path below it, and the query."""

    provider: str
    path: str
    query: Mapping[str, str]

    @classmethod
    def of(cls, raw: str) -> Target:
        """The provider is empty for what is not a plain path."""
        path, _, query = raw.partition("?")
        parts = path.split("/")
        if parts[0] or len(parts) < 3 or any(part in ("", ".", "..") for part in parts[1:]) or set(path) & set("%\\;#"):
            return cls(provider="", path=path, query=dict(parse_qsl(query)))
        below = "/" + "/".join(parts[2:])
        return cls(provider=parts[1], path=below, query=dict(parse_qsl(query, keep_blank_values=True)))


def check_content_type(request: web.BaseRequest) -> None:
    """Raises Refusal for a body that its own headers say to be read in another way than as JSON in UTF-8."""
    for name, right in (("Content-Type", _JSON), ("Content-Encoding", _PLAIN)):
        given = request.headers.getall(name, [])
        if len(given) > 1 or not all(right.fullmatch(value) for value in given):
            needed = "application/json in UTF-8" if right is _JSON else "uncompressed"
            raise Refusal("unsupported", f"{name}: {', '.join(given)[:100]}: bodies must be {needed}")


_JSON = re.compile(r'application/json(\s*;\s*charset="?utf-?8"?)?\s*;?', re.IGNORECASE)
_PLAIN = re.compile("identity", re.IGNORECASE)


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


class Wrong(Exception):
    """A value that no rule admits. ``at`` adds where it is."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
        self.path: list[str] = []

    def at(self, key: str) -> Wrong:
        self.path.insert(0, key)
        return self

    def __str__(self) -> str:
        return f"{'.'.join(self.path).replace('.[', '[')[:200] or 'the body'}: {self.message}"


@dataclass(kw_only=True)
class Admission:
    """One request's way through the rules: what it may hold, and what was found in it."""

    model: str = ""
    received: set[str] = field(default_factory=set)
    """Ids by which the run can speak of answers that it has received; all its calls share them."""
    provider_tools: bool = False
    """Whether tools that the provider runs itself pass, and media by their address."""
    fields: Container[str] = ()
    """Further fields that pass as they are, as dotted paths."""
    output_limits: Container[str] = ("max_tokens", "max_completion_tokens")
    """The names by which the server of a chat completion limits its length."""
    types: Container[str] = ()
    """Further types of tools, messages' parts and items that pass as they are."""
    dropped: list[str] = field(default_factory=list)
    withheld: list[str] = field(default_factory=list)
    """What kinds of tools were taken out, and what they were called."""
    withheld_names: set[str] = field(default_factory=set)
    media: int = 0
    unbounded: bool = False
    """Whether something is in it whose tokens its size does not limit: audio, video, documents."""
    stored: bool = False
    """Whether it continues an answer that the provider keeps."""
    long_context: bool = False
    """Whether a header asks for a longer context window than the model has by default."""
    path: list[str] = field(default_factory=list)

    def name(self, key: str) -> str:
        return ".".join([*self.path, key])

    def drop(self, name: str) -> None:
        if name not in self.dropped and len(self.dropped) < MOST_NOTED:
            self.dropped.append(name[:128])

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
"""A choice that selects nothing of what the lists guard, such as an effort, a voice or a format."""
mapping = _rule(lambda value: type(value) is dict, "an object")
"""An object whose keys are the agent's own, such as a tool's JSON schema."""
labels = _rule(
    lambda value: type(value) is dict and {*map(type, value.values())} <= {str, int, float, bool, type(None)},
    "an object of strings",
)
"""Short notes of the client's: an object of strings, numbers and booleans."""


def one_of(*values: str) -> Rule:
    """A string of these."""
    return _rule(lambda value: type(value) is str and value in values, f"one of {', '.join(sorted(values))}")


def refused(why: str) -> Rule:
    """A field that must be absent, null, or empty, unless the user has listed it."""

    def rule(value: Any, admission: Admission) -> Any:
        if ".".join(admission.path) in admission.fields:
            return value
        if value is False or value == "" or value == [] or value == {}:
            return DROPPED
        raise Wrong(why)

    return rule


def _unless_allowed(rule: Rule, *, stored: bool = False) -> Rule:
    """The rule, unless ``--allow-provider-tools`` is given."""

    def checked(value: Any, admission: Admission) -> Any:
        if not admission.provider_tools:
            return rule(value, admission)
        admission.unbounded = True
        admission.stored |= stored
        return value

    return checked


def kept(why: str) -> Rule:
    """What the provider keeps, of this run or another: refused, unless ``--allow-provider-tools`` is given."""
    return _unless_allowed(refused(why), stored=True)


def only_with_provider(what: str) -> Rule:
    """A field by which the provider reaches elsewhere itself: withheld, unless ``--allow-provider-tools`` is given."""

    def withhold(value: Any, admission: Admission) -> Any:
        if value is not False:
            admission.withheld.append(what)
        return DROPPED

    return _unless_allowed(withhold)


def many(rule: Rule, most: int = 1_000_000) -> Rule:
    """A list of what the rule admits."""

    def listed(value: Any, admission: Admission) -> Any:
        if type(value) is not list:
            raise Wrong("must be a list")
        if len(value) > most:
            raise Wrong(f"must have at most {most} elements")
        made = []
        for index, item in enumerate(value):
            try:
                got = rule(item, admission)
            except Wrong as wrong:
                raise wrong.at(f"[{index}]") from None
            if got is not DROPPED:
                made.append(got)
        return made

    return listed


def some_of(*values: str) -> Rule:
    """A list of strings; what is not among these is dropped."""
    known = frozenset(values)

    def rule(value: Any, admission: Admission) -> Any:
        if text(value, admission) in known or admission.provider_tools:
            return value
        admission.drop(f"{admission.name('')}{value[:64]}")
        return DROPPED

    return many(rule)


def either(rules: Mapping[type, Rule]) -> Rule:
    """A rule for each type of JSON."""

    def rule(value: Any, admission: Admission) -> Any:
        right = rules.get(type(value))
        if right is None:
            raise Wrong(f"must be {' or '.join(_JSON_TYPES[known] for known in rules)}")
        return right(value, admission)

    return rule


def _not_inline(value: Any, admission: Admission) -> Any:
    raise Wrong(INLINE)


by_address = _unless_allowed(_not_inline)
"""Media by a URL, or by the id of a file that the provider holds."""


def data_url(value: Any, admission: Admission) -> Any:
    """Media inline."""
    if text(value, admission)[:5].lower() != "data:":
        return by_address(value, admission)
    admission.saw_media(value[5:64].lower().partition(";")[0])
    return value


def base64(value: Any, admission: Admission) -> Any:
    """Media inline, of which the field beside it gives the type."""
    if _BASE64.fullmatch(text(value, admission)) is None:
        raise Wrong(INLINE)
    return value


def media(rule: Rule, type_field: str = "", *, default: str = "") -> Rule:
    """Media inline, with their type in a field, or always the same."""

    def seen(value: Any, admission: Admission) -> Any:
        made = rule(value, admission)
        admission.saw_media(str(made.get(type_field, default)).lower())
        return made

    return seen


class Fields:
    """An object with these fields. ``snake``: servers know each also by its name in snake case."""

    def __init__(self, known: Mapping[str, Rule], *, snake: bool = False, needs: tuple[str, ...] = ()) -> None:
        self.known = dict(known)
        self._needs = needs
        self._snake = {_snake(name): name for name in known if _snake(name) != name} if snake else {}
        self._normal = {normal(name): name for name in known}

    def __call__(self, value: Any, admission: Admission) -> Any:
        mapping(value, admission)
        made: dict[str, Any] = {}
        known = self.known
        for key, item in value.items():
            rule = known.get(key)
            name = key
            if rule is None:
                name = self._snake.get(key, "")
                if not name:
                    self._unknown(key, item, made, admission)
                    continue
                if name in value:
                    raise Wrong(f"{key!r} and {name!r} are two spellings of one field")
                rule = known[name]
            if item is None:
                made[name] = None
                continue
            admission.path.append(name)
            try:
                got = rule(item, admission)
            except Wrong as wrong:
                raise wrong.at(name) from None
            admission.path.pop()
            if got is not DROPPED:
                made[name] = got
        for name in self._needs:
            if made.get(name) is None:
                raise Wrong(f"needs {name!r}")
        return made

    def _unknown(self, key: str, item: Any, made: dict[str, Any], admission: Admission) -> None:
        if right := self._normal.get(normal(key)):
            raise Wrong(f"{key[:64]!r} must be written {right!r}")
        if not key.isascii():
            raise Wrong(f"{key[:64]!r} has letters that no field has")
        name = admission.name(key)
        if name in admission.fields:
            made[key] = item
        else:
            admission.drop(name)


class Tagged:
    """An object whose ``type`` says which fields it has."""

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
    """A tool that the client runs, by the rule; others are withheld."""

    def tool(value: Any, admission: Admission) -> Any:
        kind = mapping(value, admission).get("type")
        if admission.provider_tools or (type(kind) is str and kind in admission.types):
            admission.unbounded |= not is_clients(value)
            return value
        if is_clients(value):
            return rule(value, admission)
        admission.withheld.append(str(kind)[:64])
        admission.withheld_names.add(str(value.get("name")))
        return DROPPED

    return tool


def fields(*words: str, **known: Rule) -> Fields:
    """An object with a ``type`` or other ``words``, and fields with rules of their own."""
    return Fields({**dict.fromkeys(("type", *words), text), **known})


def normal(name: str) -> str:
    """A field's name without what some servers do not look at: capitals, underscores, dashes, forms of letters."""
    name = unicodedata.normalize("NFKC", name)
    return re.sub(r"[\W_]", "", name).casefold()


def _snake(name: str) -> str:
    return re.sub("[A-Z]", lambda match: f"_{match[0].lower()}", name)
