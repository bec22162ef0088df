"""Fetches the probability that a model gives to each token of a text, from a server with the completions API.

It supports ``echo`` with ``logprobs`` of OpenAI's completions API, and vLLM's ``prompt_logprobs``.
"""

from __future__ import annotations

import http.client
import json
import math
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from pytest_mlebench.errors import MLEBenchError
from pytest_mlebench.io.values import as_object, loads

TOP = 10
"""Number of likeliest tokens: a true token that is not among them counts as probability 0."""
CHARACTERS = 6000
"""Maximum characters of a text that are sent."""
_LEAST_CHARACTERS = 400
_ATTEMPTS = 4
_SECONDS = 300.0
_MAX_ANSWER = 64 << 20
_TRANSIENT = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_MAX_MESSAGE = 300


class CompletionsError(MLEBenchError):
    """The server cannot be reached, refuses the request, or returns no probabilities for the text's own tokens."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Rejects redirects, because urllib would send the API key to any host that a response names."""

    def redirect_request(self, *_: Any) -> None: ...


class _RefusedError(Exception):
    """The server rejected a request as invalid."""


@dataclass
class CompletionsServer:
    """A server at ``url``, such as ``http://localhost:8000/v1``, with an optional API ``key``."""

    url: str
    model: str
    key: str = ""
    pause: Callable[[float], None] = time.sleep
    _format: str = field(default="", init=False)

    def probabilities(self, text: str) -> list[float]:
        """Return the probability (0 to 1) of each token at the start of a text, given the tokens before it.

        The first token is skipped. A token outside the ``TOP`` likeliest counts as 0. If the server does not report
        which tokens are likeliest, the reported probability counts. Raises CompletionsError.
        """
        text = text[:CHARACTERS]
        while True:
            try:
                return self._request(text)
            except _RefusedError as refused:
                # The text may be longer than the model's context.
                if len(text) // 2 < _LEAST_CHARACTERS or not _is_about_length(str(refused)):
                    raise CompletionsError(f"the server at {self.url} rejects {self.model}: {refused}") from refused
                text = text[: len(text) // 2]

    def _request(self, text: str) -> list[float]:
        refused: _RefusedError | None = None
        for name in [self._format] if self._format else list(_FORMATS):
            parameters, read = _FORMATS[name]
            body = {"model": self.model, "prompt": text, "max_tokens": 1, "temperature": 0, **parameters}
            try:
                found = read(self._post(body), text)
            except _RefusedError as error:
                if _is_about_length(str(error)):
                    raise
                refused = refused or error
                continue
            if found:
                self._format = name
                return found
        if refused is not None:
            raise refused
        raise CompletionsError(
            f"the server at {self.url} returns no probabilities of the text's tokens for {self.model}: it must support "
            "`echo` with `logprobs`, or vLLM's `prompt_logprobs`, of the completions API"
        )

    def _post(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {self.key}"} if self.key else {})}
        request = urllib.request.Request(
            f"{self.url.rstrip('/')}/completions", json.dumps(body).encode(), headers, method="POST"
        )
        problem = ""
        for attempt in range(_ATTEMPTS):
            if attempt:
                self.pause(2.0**attempt)
            try:
                with urllib.request.build_opener(_NoRedirects).open(request, timeout=_SECONDS) as answer:
                    data = answer.read(_MAX_ANSWER + 1)
            except urllib.error.HTTPError as error:
                message = ""
                with suppress(OSError, http.client.HTTPException), error:
                    message = error_text(error.read(1 << 16))
                if error.code in (400, 422):
                    raise _RefusedError(message or f"status {error.code}") from None
                if 300 <= error.code < 400:
                    message = "redirects are not followed"
                problem = f"returned status {error.code}" + (f": {message}" if message else "")
                if error.code not in _TRANSIENT:
                    break
                continue
            except (OSError, http.client.HTTPException) as error:
                problem = f"cannot be reached: {getattr(error, 'reason', None) or error or type(error).__name__}"
                continue
            with suppress(ValueError):
                if len(data) <= _MAX_ANSWER and isinstance(found := loads(data), dict):
                    return found
            problem = "did not return a response of the completions API; does the URL end in /v1?"
            break
        raise CompletionsError(f"the server at {self.url} {problem}")


def _from_echo(answer: Mapping[str, Any], text: str) -> list[float]:
    """Return the probabilities in an ``echo`` response; empty if it contains only generated text."""
    logprobs = as_object(_choice(answer).get("logprobs"))
    tokens, logprobs_found = _list(logprobs.get("tokens")), _list(logprobs.get("token_logprobs"))
    tops = _list(logprobs.get("top_logprobs"))
    found, length = [], 0
    for index, (token, logprob) in enumerate(zip(tokens, logprobs_found, strict=False)):
        if length >= len(text):
            break  # the generated text begins here
        if index == 0 and logprob is not None and not text.startswith(str(token)):
            return []  # no echo
        length += len(str(token))
        if not index or not _is_number(logprob):
            continue
        top = as_object(tops[index]) if index < len(tops) else {}
        likelier = sum(_is_number(other) and other > logprob for other in top.values())
        found.append(math.exp(min(0.0, logprob)) if likelier < TOP else 0.0)
    return found if len(found) > 1 else []


def _from_prompt_logprobs(answer: Mapping[str, Any], _: str) -> list[float]:
    """Return the probabilities in ``prompt_logprobs``. Each entry lists the true token first, with its rank."""
    entries = _list(_choice(answer).get("prompt_logprobs") or answer.get("prompt_logprobs"))
    found = []
    for entry in entries[1:]:
        true_token = as_object(next(iter(as_object(entry).values()), None))
        if not _is_number(logprob := true_token.get("logprob")):
            continue
        rank = true_token.get("rank")
        found.append(math.exp(min(0.0, logprob)) if not _is_number(rank) or rank <= TOP else 0.0)
    return found


_FORMATS: Mapping[str, tuple[Mapping[str, Any], Callable[[Mapping[str, Any], str], list[float]]]] = {
    "echo": ({"echo": True, "logprobs": TOP}, _from_echo),
    "prompt_logprobs": ({"prompt_logprobs": TOP}, _from_prompt_logprobs),
}


def _choice(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    return as_object(next(iter(_list(answer.get("choices"))), None))


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else []


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)


def _is_about_length(text: str) -> bool:
    return any(word in text.lower() for word in ("context", "too long", "maximum length", "max_model_len", "too many"))


def error_text(body: bytes) -> str:
    """Return the message of an error response on one line; empty if it is a web page."""
    text = body.decode("utf-8", "replace").strip()
    if text.startswith("<"):
        return ""
    with suppress(ValueError):
        found = loads(text)
        error = found.get("error", found) if isinstance(found, dict) else found
        text = str(error.get("message", error) if isinstance(error, dict) else error)
    return " ".join(text.split())[:_MAX_MESSAGE]
