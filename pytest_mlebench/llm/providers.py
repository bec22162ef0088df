"""Definitions of the providers of language models: the bundled ones and those in a user's file."""

from __future__ import annotations

import re
from collections.abc import Mapping
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
_TEXTS = ("base_url", "prices", "key_header", "output_limit")


def load_providers(*files: Path) -> dict[str, Provider]:
    """Load the bundled providers and those in these files, by name; later ones win. Raises UsageError."""
    return {provider.name: provider for file in (BUNDLED, *files) for provider in _read(file)}


def gateway_url(provider: Provider, url: str) -> str:
    """Return a provider's base URL on the gateway, in the form that clients of its API expect."""
    return f"{url}/{provider.name}" + ("/v1" if provider.api.name == "openai" else "")


def call_content(flavour: str, body: Mapping[str, Any]) -> CallContent:
    """Return the content of a call from ``bodies.jsonl.zst``."""
    api = APIS.get(flavour, APIS["openai"])
    return api.said(str(body.get("path")), as_object(body.get("request")), as_object(body.get("response")))


def read_mapping(file: Path, what: str, form: str) -> dict[Any, Any]:
    """Read a YAML file of ``what``, a mapping of the given form. Raises UsageError."""
    try:
        values = load_yaml(read_regular(file, _MAX_BYTES))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise UsageError(f"{what} in {file} cannot be read: {' '.join(str(error).split())}") from error
    if not isinstance(values, dict):
        raise UsageError(f"{file}: must be a mapping of {form}")
    return values


def _read(file: Path) -> list[Provider]:
    values = read_mapping(file, "providers", "providers' names to their settings")
    return [_provider(name, value, f"{file}: provider {name}") for name, value in values.items()]


def _provider(name: Any, values: Any, where: str) -> Provider:
    if not isinstance(name, str) or not re.fullmatch(r"[a-z0-9][a-z0-9._-]*", name):
        raise UsageError(f"{where}: a name consists of lowercase letters, digits, '-', '_' and '.'")
    if not isinstance(values, dict):
        raise UsageError(f"{where}: must be a mapping with `flavour` and `base_url`")
    known = ("flavour", *_TEXTS, *_LISTS, *_MAPPINGS)
    if extra := sorted(map(str, values.keys() - set(known))):
        raise UsageError(f"{where} has unknown keys {', '.join(extra)}; known: {', '.join(known)}")
    if values.get("flavour") not in [*APIS]:  # a list or a mapping has no hash
        raise UsageError(f"{where}: flavour must be one of {', '.join(APIS)}, not {values.get('flavour')!r}")
    given: dict[str, Any] = {"api": APIS[values["flavour"]]}
    for key, (what, form) in _LISTS.items():
        entries = values.get(key) or []
        if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
            raise UsageError(f"{where}: {key} must be a list of {what}")
        if wrong := next((entry for entry in entries if not re.fullmatch(form, entry, re.ASCII)), None):
            raise UsageError(f"{where}: {key} has {wrong!r}, must be a list of {what}")
        given[key] = tuple(entries)
    if never := sorted({name.lower() for name in given["request_headers"]} & _NEVER_PASSED):
        raise UsageError(f"{where}: request_headers may not contain {', '.join(never)}: the gateway controls it")
    for key in _MAPPINGS:
        entries = values.get(key) or {}
        if not isinstance(entries, dict):
            raise UsageError(f"{where}: {key} must be a mapping")
        given[key] = {str(name): str(value) for name, value in entries.items()}
    for key in _TEXTS:
        if (text := values.get(key)) is None:
            continue
        if not isinstance(text, str):
            raise UsageError(f"{where}: {key} must be a string, not {text!r}")
        given[key] = text
    for key, text in {**given["headers"], **({given["key_header"]: ""} if "key_header" in given else {})}.items():
        if not VISIBLE.fullmatch(key) or not text.isascii() or (text and not text.isprintable()):
            raise UsageError(f"{where}: {key!r}: {text!r} is not an HTTP header")
    if (limit := given.get("output_limit", "max_tokens")) not in CHAT_LIMITS:
        raise UsageError(f"{where}: output_limit must be {' or '.join(CHAT_LIMITS)}, not {limit!r}")
    given["base_url"] = checked_url(given.get("base_url", ""), f"{where}: base_url")
    return Provider(name=name, **given)
