"""Asks a model through a separate gateway, with keys, prices, a budget and a ledger like those of agents."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

from pytest_mlebench.errors import UsageError
from pytest_mlebench.extras.audit.completions import error_text
from pytest_mlebench.io.values import loads
from pytest_mlebench.llm.api import Provider, Question
from pytest_mlebench.llm.gateway import Gateway
from pytest_mlebench.llm.providers import call_content

_SECONDS = 900.0
_MAX_TOKENS = 8000
"""Maximum output tokens of an answer."""
_MAX_REPLY = 64 << 10


class CallRefused(Exception):
    """The gateway or the provider refused the call. The message is the one it returned."""


class Model:
    """A model behind a gateway. Several threads can use it at once."""

    def __init__(self, gateway: Gateway, provider: Provider, name: str) -> None:
        self._gateway = gateway
        self._provider = provider
        self._name = name
        self._by_schema = True
        """Whether requests include a JSON schema. Some servers with OpenAI's API do not support one."""
        self._lock = Lock()
        self._sockets: set[socket.socket] = set()
        self._ended = False

    def ask(self, system: str, user: str, schema: Mapping[str, Any]) -> Any:
        """Return the model's answer as a JSON object; None if it is not valid JSON. Raises CallRefused or OSError."""
        with_schema = self._by_schema
        question = Question(
            model=self._name,
            system=system,
            user=user,
            schema=schema,
            max_tokens=_MAX_TOKENS,
            output_limit=self._provider.output_limit,
            with_schema=with_schema,
        )
        path, body = self._provider.api.question(question)
        status, content = self._post(f"/{self._provider.name}{path}", json.dumps(body).encode())
        if status == 400 and with_schema and b"response_format" in content:
            self._by_schema = False
            return self.ask(system, user, schema)
        if status >= 300:
            raise CallRefused(error_text(content) or f"status {status}")
        return self._object(path, content)

    def _post(self, path: str, content: bytes) -> tuple[int, bytes]:
        headers = {
            "Authorization": f"Bearer {self._gateway.token}",
            "Content-Type": "application/json",
            "anthropic-version": "2023-06-01",
        }
        # The gateway is on this machine, so no proxy is used.
        with closing(HTTPConnection(urlsplit(self._gateway.url).netloc, timeout=_SECONDS)) as connection:
            connection.connect()
            connected = connection.sock
            with self._lock:
                if self._ended:
                    raise OSError("the call was cancelled")
                self._sockets.add(connected)
            try:
                connection.request("POST", path, content, headers)
                answer = connection.getresponse()
                return answer.status, answer.read()
            except HTTPException as error:
                raise OSError(f"the gateway did not answer: {error!r}") from error
            finally:
                with self._lock:
                    self._sockets.discard(connected)

    def cancel(self) -> None:
        """Cancel all running and future calls: they raise OSError at once."""
        with self._lock:
            self._ended = True
            for connected in self._sockets:
                with suppress(OSError):
                    connected.shutdown(socket.SHUT_RDWR)

    def _object(self, path: str, content: bytes) -> Any:
        with suppress(ValueError):
            answer = call_content(self._provider.api.name, {"path": path, "response": loads(content)}).answer
            if answer is not None and answer.calls:
                return dict(answer.calls[0].arguments)
            text = "" if answer is None else answer.text[:_MAX_REPLY]
            return loads(text[text.find("{") : text.rfind("}") + 1], depth=10)
        return None


def named_model(name: str, providers: Mapping[str, Provider]) -> tuple[Provider, str]:
    """Return the provider and model of ``PROVIDER/MODEL``. Raises UsageError if either is invalid, or lacks a key."""
    provider_name, _, model = name.partition("/")
    if provider_name not in providers or not model:
        known = ", ".join(sorted(providers))
        raise UsageError(f"--judge: {name!r} must be PROVIDER/MODEL; providers are {known} (--llm-providers adds more)")
    provider = providers[provider_name].located()
    if provider.keys and not provider.key():
        raise UsageError(f"--judge: {provider_name} needs a key; set {' or '.join(provider.keys)}")
    provider.check_key()
    return provider, model
