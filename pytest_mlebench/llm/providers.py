"""Definitions of the providers of language models: the bundled ones and those in a user's file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from pytest_mlebench.errors import UsageError
from pytest_mlebench.io.files import read_regular
from pytest_mlebench.io.values import as_object, load_yaml
from pytest_mlebench.llm.anthropic import Anthropic
from pytest_mlebench.llm.api import API, CHAT_LIMITS, VISIBLE, CallContent, Provider, checked_url
from pytest_mlebench.llm.gemini import Gemini
from pytest_mlebench.llm.openai import OpenAI

APIS: Mapping[str, API] = {"openai": OpenAI(), "anthropic": Anthropic(), "gemini": Gemini()}
"""APIs by the ``flavour`` of a provider."""
BUNDLED = Path(__file__).parent / "providers.yaml"

_MAX_BYTES = 1 << 20
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
"""Description of each list, and a pattern for its entries."""
_NEVER_PASSED = frozenset(
    "authorization api-key x-api-key x-goog-api-key cookie host content-length content-type content-encoding "
    "transfer-encoding connection expect upgrade te trailer proxy-authorization accept-encoding".split()
)
"""Headers that no provider's entry may name, because they contain keys or determine how a request is parsed."""
_MAPPINGS = ("query", "headers")
_KEYS = ("flavour", "base_url", "prices", "key_header", "output_limit", *_LISTS, *_MAPPINGS)


def load_providers(*files: Path) -> dict[str, Provider]:
    """Load the bundled providers and those in these files, by name; later ones win. Raises UsageError."""
    entries = (entry for file in (BUNDLED, *files) for entry in read_entries(file, "provider", _KEYS))
    return {name: _provider(name, values, where) for name, values, where in entries}


def gateway_url(provider: Provider, url: str) -> str:
    """Return a provider's base URL on the gateway, in the form that clients of its API expect."""
    return f"{url}/{provider.name}" + ("/v1" if provider.api.name == "openai" else "")


def call_content(flavour: str, body: Mapping[str, Any]) -> CallContent:
    """Return the content of a call from ``bodies.jsonl.zst``."""
    api = APIS.get(flavour, APIS["openai"])
    return api.said(str(body.get("path")), as_object(body.get("request")), as_object(body.get("response")))


def read_entries(file: Path, what: str, known: Sequence[str]) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield a YAML file's entries: the name of a ``what``, its ``known`` settings, and its place, for messages.

    Raises UsageError.
    """
    try:
        entries = load_yaml(read_regular(file, _MAX_BYTES))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise UsageError(f"{file} cannot be read: {' '.join(str(error).split())}") from error
    if not isinstance(entries, dict):
        raise UsageError(f"{file}: must be a mapping of each {what}'s name to its settings")
    for name, values in entries.items():
        where = f"{file}: {what} {name}"
        if not isinstance(values, dict) or not values:
            raise UsageError(f"{where}: must be a mapping with some of {', '.join(known)}")
        if extra := sorted(map(str, values.keys() - set(known))):
            raise UsageError(f"{where} has unknown keys {', '.join(extra)}; known: {', '.join(known)}")
        yield str(name), values, where


def _provider(name: str, values: Mapping[str, Any], where: str) -> Provider:
    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]*", name):
        raise UsageError(f"{where}: a name consists of lowercase letters, digits, '-', '_' and '.'")
    flavour = values.get("flavour")
    if flavour not in [*APIS]:  # a list or a mapping has no hash
        raise UsageError(f"{where}: flavour must be one of {', '.join(APIS)}, not {flavour!r}")
    given: dict[str, Any] = {"base_url": ""}
    for key, value in values.items():
        if value is None or key == "flavour":
            continue
        if key in _LISTS:
            what, form = _LISTS[key]
            if not isinstance(value, list):
                raise UsageError(f"{where}: {key} must be a list of {what}")
            for entry in value:
                if not isinstance(entry, str) or not re.fullmatch(form, entry, re.ASCII):
                    raise UsageError(f"{where}: {key} has {entry!r}, must be a list of {what}")
            given[key] = tuple(value)
        elif key in _MAPPINGS:
            if not isinstance(value, dict):
                raise UsageError(f"{where}: {key} must be a mapping")
            given[key] = {str(header): str(text) for header, text in value.items()}
        elif isinstance(value, str):
            given[key] = value
        else:
            raise UsageError(f"{where}: {key} must be a string, not {value!r}")
    provider = Provider(name=name, api=APIS[flavour], **given)
    if never := sorted({header.lower() for header in provider.request_headers} & _NEVER_PASSED):
        raise UsageError(f"{where}: request_headers may not contain {', '.join(never)}: the gateway controls it")
    key_header = {} if provider.key_header is None else {provider.key_header: ""}
    for header, text in {**provider.headers, **key_header}.items():
        if not VISIBLE.fullmatch(header) or not text.isascii() or (text and not text.isprintable()):
            raise UsageError(f"{where}: {header!r}: {text!r} is not an HTTP header")
    if provider.output_limit not in CHAT_LIMITS:
        raise UsageError(f"{where}: output_limit must be {' or '.join(CHAT_LIMITS)}, not {provider.output_limit!r}")
    return replace(provider, base_url=checked_url(provider.base_url, f"{where}: base_url"))
