"""Kaggle's own client, with the user's credentials and time limits, and with errors that name their cause.

This is the client's lower layer, ``kagglesdk``, which makes every request of the ``kaggle`` package and chooses the
server (``KAGGLE_API_ENVIRONMENT``). The upper layer is not used: importing it logs in, it prints to stdout, and its
requests have no time limit.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import requests
from kagglesdk import KaggleClient
from requests.adapters import HTTPAdapter
from urllib3.exceptions import InvalidHeader, NameResolutionError, ReadTimeoutError
from urllib3.util.retry import Retry

from pytest_mlebench._version import __version__
from pytest_mlebench.data.download.retry import RetryPolicy, TransientError
from pytest_mlebench.data.download.transfer import RangeError
from pytest_mlebench.errors import DataError

_CONNECT_SECONDS = 30.0
_TRANSIENT = {408, 425, 429, 500, 502, 503, 504}


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """A user's credentials for Kaggle: an access token, or a user name with an API key."""

    source: str
    """Where they were found, for messages."""
    token: str | None = field(default=None, repr=False)
    username: str | None = None
    key: str | None = field(default=None, repr=False)


class RefusedError(DataError):
    """Kaggle refused a request: ``status`` is that of HTTP, ``message`` is Kaggle's own."""

    def __init__(self, status: int, message: str, advice: str = "", what: str = "") -> None:
        super().__init__(f"{what and f'{what}: '}Kaggle answered {status}: {message}{advice and f'; {advice}'}")
        self.status = status
        self.message = message


@contextmanager
def connected(
    credentials: Credentials | None, policy: RetryPolicy, headers: Mapping[str, str | None] | None = None
) -> Iterator[KaggleClient]:
    """The client; inside the block, network failures are TransientErrors and refusals are RefusedErrors.

    ``headers`` are sent with every request, also with those that a redirect leads to.
    """
    known = credentials or Credentials(source="")
    agent = f"pytest-mlebench/{__version__}"
    with KaggleClient(username=known.username, password=known.key, api_token=known.token, user_agent=agent) as client:
        session = client.http_client()._session  # the client has no other way to set time limits and headers
        session.headers.update(headers or {})
        for scheme in ("http://", "https://"):
            session.mount(scheme, _TimeLimit(policy.stall))
        try:
            yield client
        except requests.RequestException as error:
            raise _translated(error, policy) from error
        except json.JSONDecodeError as error:
            raise DataError(
                "Kaggle's client does not understand the answer; does a proxy or a login page answer in Kaggle's place?"
            ) from error


class _TimeLimit(HTTPAdapter):
    """Gives up a connection without data for ``stall`` seconds."""

    def __init__(self, stall: float) -> None:
        super().__init__()
        self.stall = stall

    def send(self, *args: Any, **options: Any) -> requests.Response:
        return super().send(*args, **{**options, "timeout": (_CONNECT_SECONDS, self.stall)})


def _translated(error: requests.RequestException, policy: RetryPolicy) -> Exception:
    # The errors' own texts are left out: they may hold signed links, which are secrets.
    if error.response is not None:
        return _refused(error.response)
    request = error.request
    host = (urlsplit(request.url or "").hostname if request is not None else None) or "Kaggle"
    causes = list(_causes(error))

    def is_a(*kinds: type[BaseException]) -> bool:
        return any(isinstance(cause, kinds) for cause in causes)

    if is_a(requests.exceptions.SSLError) and "CERTIFICATE" in str(error):
        return DataError(
            f"the TLS certificate of {host} is not trusted; if a proxy inspects the connection, let "
            "REQUESTS_CA_BUNDLE name its certificate"
        )
    if is_a(requests.exceptions.SSLError):
        return TransientError(f"the TLS connection to {host} failed")
    if is_a(requests.exceptions.ProxyError):
        return TransientError(f"the proxy does not connect to {host} (see HTTPS_PROXY and HTTP_PROXY)")
    if is_a(NameResolutionError):
        return TransientError(
            f"the name {host} cannot be looked up: this machine is offline, or must use a proxy (HTTPS_PROXY)"
        )
    if is_a(requests.ConnectTimeout):
        return TransientError(f"{host} did not answer within {_CONNECT_SECONDS:g} s")
    if is_a(requests.Timeout, ReadTimeoutError):
        return TransientError(f"nothing arrived from {host} for {policy.stall:g} s")
    if is_a(ConnectionRefusedError):
        return TransientError(f"{host} refused the connection")
    if is_a(requests.ConnectionError, requests.exceptions.ChunkedEncodingError):
        return TransientError(f"the connection to {host} failed or was cut")
    return DataError(f"the request to {host} failed: {type(error).__name__}")


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error and those that it comes from, as requests and urllib3 keep them."""
    seen: set[int] = set()
    waiting: list[BaseException] = [error]
    while waiting:
        cause = waiting.pop()
        if id(cause) in seen:
            continue
        seen.add(id(cause))
        yield cause
        behind = (*cause.args, getattr(cause, "reason", None), cause.__cause__, cause.__context__)
        waiting += [other for other in behind if isinstance(other, BaseException)]


def _refused(response: requests.Response) -> TransientError | RefusedError:
    status, message = response.status_code, response.reason or ""
    try:
        body = response.json()
        message = str(body["message"])
        status = status if status >= 400 else int(body["code"])
    except (requests.RequestException, ValueError, LookupError, TypeError):
        pass
    if status == 416:
        return RangeError("the file has changed on the server; the download starts anew")
    # A signed link, which a redirect leads to, may have expired; the next attempt gets a new one.
    if status in _TRANSIENT or response.history:
        return TransientError(f"Kaggle answered {status}", _retry_after(response))
    return RefusedError(status, message)


def _retry_after(response: requests.Response) -> float | None:
    header = response.headers.get("Retry-After")
    try:
        return Retry().parse_retry_after(header) if header else None
    except InvalidHeader:
        return None
