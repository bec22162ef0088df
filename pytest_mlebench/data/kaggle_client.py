"""Kaggle's own client, with the user's credentials, time limits, and its errors in words.

It is the client's lower layer, ``kagglesdk``: it makes every request of the ``kaggle`` package and chooses the server
(``KAGGLE_API_ENVIRONMENT``). The upper layer is left alone: to import it is to log in, it prints to stdout, and its
requests wait for ever.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests
from kagglesdk import KaggleClient, KaggleCredentials, get_access_token_from_env
from requests.adapters import HTTPAdapter
from urllib3.exceptions import InvalidHeader, ReadTimeoutError
from urllib3.util.retry import Retry

from pytest_mlebench import __version__
from pytest_mlebench.data.retry import Patience, TransientError
from pytest_mlebench.data.transfer import RangeError
from pytest_mlebench.errors import DataError

SETTINGS = "https://www.kaggle.com/settings/api"
_CONNECT_SECONDS = 30.0
_TRANSIENT = {408, 425, 429, 500, 502, 503, 504}


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """What a user shows to Kaggle: an access token, or a user name with an API key."""

    source: str
    """Where they were found, for messages."""
    token: str | None = field(default=None, repr=False)
    username: str | None = None
    key: str | None = field(default=None, repr=False)


class RefusedError(DataError):
    """Kaggle answered, and said no: ``status`` is that of HTTP, ``message`` is Kaggle's own."""

    def __init__(self, status: int, message: str, advice: str = "", what: str = "") -> None:
        super().__init__(f"{what and f'{what}: '}Kaggle answered {status}: {message}{advice and f'; {advice}'}")
        self.status = status
        self.message = message


def find_credentials(patience: Patience) -> Credentials:
    """The user's credentials, looked for where Kaggle's client does and in its order; not yet tried.

    An access token (``KAGGLE_API_TOKEN``, ``~/.kaggle/access_token``), an API key (``KAGGLE_USERNAME`` and
    ``KAGGLE_KEY``, ``kaggle.json``), a login (``kaggle auth login``). Raises DataError that says how to get some.
    """
    try:
        token, source = get_access_token_from_env()
    except (OSError, UnicodeDecodeError) as error:  # whose texts may hold the token
        raise DataError(f"Kaggle's access token cannot be read; get a new one at {SETTINGS}") from error
    if token:
        source = "~/.kaggle/access_token" if source == "access_token" else f"${source}"
        return Credentials(source=f"the access token in {source}", token=token)
    found = _api_key() or _login(patience)
    if found is None:
        raise DataError(
            f"no Kaggle credentials: get a token at {SETTINGS} and put it into ~/.kaggle/access_token "
            f"or $KAGGLE_API_TOKEN (or a kaggle.json into {_config_folder()}, or run `kaggle auth login`)"
        )
    return found


def _api_key() -> Credentials | None:
    path = _config_folder() / "kaggle.json"
    try:
        values: Mapping[str, Any] = dict(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        values = {}
    except (OSError, ValueError, TypeError) as error:
        raise DataError(f"Kaggle credentials {path} cannot be read: {error}; get new ones at {SETTINGS}") from error
    username = os.environ.get("KAGGLE_USERNAME") or values.get("username")
    key = os.environ.get("KAGGLE_KEY") or values.get("key")
    if not username or not key:
        return None
    source = "$KAGGLE_KEY" if os.environ.get("KAGGLE_KEY") else str(path)
    return Credentials(source=f"the API key in {source}, user {username}", username=str(username), key=str(key))


def _config_folder() -> Path:
    if configured := os.environ.get("KAGGLE_CONFIG_DIR"):
        return Path(configured)
    usual = Path.home() / ".kaggle"
    return usual if usual.is_dir() else Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "kaggle"


def _login(patience: Patience) -> Credentials | None:
    path = KaggleCredentials.DEFAULT_CREDENTIALS_FILE
    try:
        with connected(None, patience) as client:
            login = KaggleCredentials.load(client)
            token = login and login.get_access_token()  # asks Kaggle for a new one when the last has run out
    except RefusedError as error:
        raise DataError(f"Kaggle refuses the login in {path}; run `kaggle auth login` again") from error
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise DataError(f"the login in {path} cannot be used: {error}; run `kaggle auth login` again") from error
    return Credentials(source=f"the login in {path}", token=token) if token else None


@contextmanager
def connected(
    credentials: Credentials | None, patience: Patience, headers: Mapping[str, str | None] | None = None
) -> Iterator[KaggleClient]:
    """The client; in the block, trouble with the network is a TransientError, and a refusal a RefusedError.

    ``headers`` go with every request, also with those that a redirect leads to.
    """
    known = credentials or Credentials(source="")
    agent = f"pytest-mlebench/{__version__}"
    with KaggleClient(username=known.username, password=known.key, api_token=known.token, user_agent=agent) as client:
        session = client.http_client()._session  # the client has no other way to set time limits and headers
        session.headers.update(headers or {})
        for scheme in ("http://", "https://"):
            session.mount(scheme, _TimeLimit(patience.stall))
        try:
            yield client
        except requests.RequestException as error:
            raise _in_words(error, patience) from error
        except json.JSONDecodeError as error:
            raise DataError("Kaggle's answer is not what its client understands; is there a proxy between?") from error


class _TimeLimit(HTTPAdapter):
    """Gives up a connection on which nothing comes for so many seconds."""

    def __init__(self, stall: float) -> None:
        super().__init__()
        self.stall = stall

    def send(self, *args: Any, **options: Any) -> requests.Response:
        return super().send(*args, **{**options, "timeout": (_CONNECT_SECONDS, self.stall)})


def _in_words(error: requests.RequestException, patience: Patience) -> Exception:
    # The errors' own texts are left out: they may hold signed links, which are secrets.
    if error.response is not None:
        return _answer(error.response)
    request = error.request
    host = (urlsplit(request.url or "").hostname if request is not None else None) or "Kaggle"
    if isinstance(error, requests.Timeout) or isinstance(error.args and error.args[0], ReadTimeoutError):
        return TransientError(f"nothing came from {host} for {patience.stall:g} s")
    if isinstance(error, requests.exceptions.SSLError) and "CERTIFICATE" in str(error):
        return DataError(
            f"the certificate of {host} is not trusted; is there a proxy that REQUESTS_CA_BUNDLE must name?"
        )
    if isinstance(error, requests.ConnectionError | requests.exceptions.ChunkedEncodingError):
        return TransientError(f"the connection to {host} failed or was cut")
    return DataError(f"the exchange with {host} failed: {type(error).__name__}")


def _answer(response: requests.Response) -> TransientError | RefusedError:
    status, message = response.status_code, response.reason or ""
    try:
        body = response.json()
        message = str(body["message"])
        status = status if status >= 400 else int(body["code"])
    except (requests.RequestException, ValueError, LookupError, TypeError):
        pass
    if status == 416:
        return RangeError("the file has changed on the server, it is downloaded anew")
    # A signed link (which a redirect led to) may have run out; the next attempt gets a new one.
    if status in _TRANSIENT or response.history:
        return TransientError(f"Kaggle answered {status}", _retry_after(response))
    return RefusedError(status, message)


def _retry_after(response: requests.Response) -> float | None:
    header = response.headers.get("Retry-After")
    try:
        return Retry().parse_retry_after(header) if header else None
    except InvalidHeader:
        return None
