"""Providers of language models, as data: bundled ones and those of a user's file."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args
from urllib.parse import urlsplit

import yaml

from pytest_mlebench.errors import UsageError
from pytest_mlebench.io.values import load_yaml
from pytest_mlebench.llm.anthropic import Anthropic
from pytest_mlebench.llm.api import API, Said, as_object
from pytest_mlebench.llm.gemini import Gemini
from pytest_mlebench.llm.openai import OpenAI

FlavourName = Literal["openai", "anthropic", "gemini"]
APIS: Mapping[str, API] = {"openai": OpenAI(), "anthropic": Anthropic(), "gemini": Gemini()}
"""By the flavour of a provider."""
BUNDLED = Path(__file__).parent / "providers.yaml"
HOST_ALIAS = "host.docker.internal"
"""How agents in containers name the harness's machine; the gateway runs on it."""

_VISIBLE = re.compile("[!-~]+")
_HEADER_NAME = r"[A-Za-z][A-Za-z0-9-]*"
_LISTS = {
    "keys": ("names of variables", r".+"),
    "url_variables": ("names of variables", r".+"),
    "fields": ("fields of requests, such as `guided_json` or `messages.prefix`", r"[\w$-]+(\.[\w$-]+)*"),
    "types": ("types of tools, parts and items, such as `video_url`", r"[\w.:-]+"),
    "paths": ("methods and paths below base_url, such as `POST /rerank`", r"(GET|POST) (/[\w.:-]+)+"),
    "parameters": ("names of a query's parameters", r"[\w$.-]+"),
    "request_headers": ("names of headers", _HEADER_NAME),
}
"""What each list holds, and the form of its entries."""
_NEVER_PASSED = frozenset(
    "authorization api-key x-api-key x-goog-api-key cookie host content-length content-type content-encoding "
    "transfer-encoding connection expect upgrade te trailer proxy-authorization accept-encoding".split()
)
"""Headers that no provider's entry may name: they hold keys, or say how a request is read."""
_MAPPINGS = ("query", "headers")
_TEXTS = ("base_url", "prices", "key_header", "output_limit")


@dataclass(frozen=True, kw_only=True)
class Provider:
    """A server of language models: the API that it speaks, where it is, and where its key comes from.

    ``prices`` names a provider of genai-prices. ``keys`` and ``url_variables`` are variables of the environment.
    ``fields``, ``types``, ``paths``, ``parameters`` and ``request_headers`` pass beyond the API's allow-lists.
    """

    name: str
    flavour: FlavourName
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
    def api(self) -> API:
        return APIS[self.flavour]

    @property
    def is_router(self) -> bool:
        """Whether the name of a model may leave the choice of a server, and of a price, to the provider."""
        return self.prices == "openrouter"

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
        if key and not _VISIBLE.fullmatch(key):
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
        return replace(self, base_url=_base_url(moved, f"${self.url_variables[0]}")) if moved else self


def load_providers(*files: Path) -> dict[str, Provider]:
    """The bundled providers and those of these files, by name; later ones win. Raises UsageError."""
    return {provider.name: provider for file in (BUNDLED, *files) for provider in _read(file)}


def gateway_url(provider: Provider, url: str) -> str:
    """A provider's base URL on the gateway, in the form in which the flavour's clients expect it."""
    return f"{url}/{provider.name}" + ("/v1" if provider.flavour == "openai" else "")


def said_in(flavour: str, body: Mapping[str, Any]) -> Said:
    """What was said in a call as ``bodies.jsonl.zst`` has it."""
    api = APIS.get(flavour, APIS["openai"])
    return api.said(str(body.get("path")), as_object(body.get("request")), as_object(body.get("response")))


def read_mapping(file: Path, what: str, form: str) -> dict[Any, Any]:
    """A YAML file of ``what``, a mapping of the form given; raises UsageError."""
    try:
        values = load_yaml(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError(f"{what} in {file} cannot be read: {' '.join(str(error).split())}") from error
    if not isinstance(values, dict):
        raise UsageError(f"{file}: must be a mapping of {form}")
    return values


def _read(file: Path) -> list[Provider]:
    values = read_mapping(file, "providers", "providers' names to what they are")
    return [_provider(name, value, f"{file}: provider {name}") for name, value in values.items()]


def _provider(name: Any, values: Any, where: str) -> Provider:
    if not isinstance(name, str) or not re.fullmatch(r"[a-z0-9][a-z0-9._-]*", name):
        raise UsageError(f"{where}: a name is made of small letters, digits, '-', '_' and '.'")
    if not isinstance(values, dict):
        raise UsageError(f"{where}: must be a mapping with `flavour` and `base_url`")
    known = ("flavour", *_TEXTS, *_LISTS, *_MAPPINGS)
    if extra := sorted(map(str, values.keys() - set(known))):
        raise UsageError(f"{where} has unknown keys {', '.join(extra)}; known are {', '.join(known)}")
    if values.get("flavour") not in get_args(FlavourName):
        raise UsageError(f"{where}: flavour is {values.get('flavour')!r}, must be {', '.join(get_args(FlavourName))}")
    given: dict[str, Any] = {"flavour": values["flavour"]}
    for key, (what, form) in _LISTS.items():
        entries = values.get(key) or []
        if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
            raise UsageError(f"{where}: {key} must be a list of {what}")
        if wrong := next((entry for entry in entries if not re.fullmatch(form, entry, re.ASCII)), None):
            raise UsageError(f"{where}: {key} has {wrong!r}, must be a list of {what}")
        given[key] = tuple(entries)
    if never := sorted({name.lower() for name in given["request_headers"]} & _NEVER_PASSED):
        raise UsageError(f"{where}: request_headers may not have {', '.join(never)}: the gateway sets it itself")
    for key in _MAPPINGS:
        entries = values.get(key) or {}
        if not isinstance(entries, dict):
            raise UsageError(f"{where}: {key} must be a mapping")
        given[key] = {str(name): str(value) for name, value in entries.items()}
    for key in _TEXTS:
        if (text := values.get(key)) is None:
            continue
        if not isinstance(text, str):
            raise UsageError(f"{where}: {key} is {text!r}, must be a text")
        given[key] = text
    for key, text in {**given["headers"], **({given["key_header"]: ""} if "key_header" in given else {})}.items():
        if not _VISIBLE.fullmatch(key) or not text.isascii() or (text and not text.isprintable()):
            raise UsageError(f"{where}: {key!r}: {text!r} is not an HTTP header")
    given["base_url"] = _base_url(given.get("base_url", ""), f"{where}: base_url")
    return Provider(name=name, **given)


def _base_url(url: str, where: str) -> str:
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        valid = False
    if not valid or parts.query or parts.fragment or not _VISIBLE.fullmatch(url):
        raise UsageError(f"{where} is {url!r}, must be a URL such as https://api.openai.com/v1")
    return url.rstrip("/")
