"""Kaggle's own client with the user's credentials and time limits, and transfers that resume."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import requests
from kagglesdk import KaggleClient, KaggleCredentials, get_access_token_from_env
from requests.adapters import HTTPAdapter
from urllib3.exceptions import InvalidHeader, NameResolutionError, ReadTimeoutError
from urllib3.util.retry import Retry

from pytest_mlebench._version import __version__
from pytest_mlebench.data.download.transfers import (
    SETTINGS,
    Credentials,
    RefusedError,
    RetryPolicy,
    TransientError,
    retry,
)
from pytest_mlebench.errors import DataError
from pytest_mlebench.io.progress import ByteCounter, Reporter
from pytest_mlebench.io.units import format_size

Request = Callable[[Mapping[str, str]], AbstractContextManager[requests.Response]]
"""Requests the file with these headers; the response's body is not yet read. Errors: see kaggle_client.connected."""

_BLOCK = 1 << 16  # small: the block being received is lost with the connection


class RangeError(TransientError):
    """The server has another file than the one whose rest was requested."""


class PartialFile:
    """A partial download at ``path``, with a note next to it that identifies the whole file, for resuming.

    ``size``: bytes so far; ``total``: bytes of the whole file, if known; ``validator``: what If-Range takes, a strong
    ETag or else the date of the last change; ``server_md5``: the file's MD5 from the server, in hexadecimal, or "".
    Raises DataError where the disk is full or cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._notes = path.with_name(f"{path.name}.json")
        self._forget()

    def __enter__(self) -> PartialFile:
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise DataError(f"{self.path} cannot be written: {error.strerror}") from error
        if not self._resume():
            self.restart()
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)

    @property
    def md5(self) -> str:
        return self._md5.hexdigest()

    @property
    def is_complete(self) -> bool:
        return self.size == self.total

    def _forget(self) -> None:
        self.size = 0
        self.total: int | None = None
        self.validator = self.server_md5 = ""
        self._md5 = hashlib.md5(usedforsecurity=False)

    def _resume(self) -> bool:
        try:
            notes = json.loads(self._notes.read_text(encoding="utf-8"))
            self.total, self.validator, self.server_md5 = notes["total"], notes["validator"], notes["md5"]
        except (OSError, ValueError, LookupError, TypeError):
            return False
        while block := os.read(self._file, 1 << 20):
            self._grow(block)
        return self.total is None or self.size <= self.total

    def _grow(self, block: bytes | memoryview) -> None:
        self._md5.update(block)
        self.size += len(block)

    def restart(self) -> None:
        os.ftruncate(self._file, 0)
        self._notes.unlink(missing_ok=True)
        self._forget()

    def start(self, headers: Mapping[str, str]) -> None:
        """Start anew with the file that these headers of a response describe."""
        self.restart()
        length = headers.get("Content-Length", "")
        self.total = int(length) if length.isdigit() else None
        etag = headers.get("ETag", "")
        self.validator = etag if etag and not etag.startswith("W/") else headers.get("Last-Modified", "")
        self.server_md5 = _server_md5(headers)
        try:
            self._notes.write_text(
                json.dumps({"total": self.total, "validator": self.validator, "md5": self.server_md5}), encoding="utf-8"
            )
        except OSError as error:
            raise self._full(error) from error

    def append(self, block: bytes) -> None:
        rest = memoryview(block)
        while rest:
            try:
                written = os.write(self._file, rest)
            except OSError as error:
                raise self._full(error) from error
            self._grow(rest[:written])
            rest = rest[written:]

    def _full(self, error: OSError) -> DataError:
        missing = "" if self.total is None else f" with {format_size(self.total - self.size)} still to come"
        return DataError(
            f"{self.path}: {error.strerror}{missing}. The part that has arrived is kept: call again to resume"
        )

    def become(self, target: Path) -> None:
        """Rename the file, after all of it is on the disk."""
        os.fsync(self._file)
        self.path.replace(target)
        self._notes.unlink(missing_ok=True)


def transfer(request: Request, part: PartialFile, policy: RetryPolicy, subject: str, reporter: Reporter) -> None:
    """Download the rest of a file; reports steps "downloading" and every wait.

    Failures that may pass are retried. If the server has another file by now, or ignores Range, the download starts
    anew. Raises DataError that begins with ``subject``.
    """
    count = ByteCounter(reporter, subject, "downloading")
    count(part.size, part.total)
    if not part.is_complete:
        retry(lambda: _continue(request, part, count), policy, subject, reporter, lambda: part.size)


def _continue(request: Request, part: PartialFile, count: ByteCounter) -> None:
    headers = {"Accept-Encoding": "identity"}
    if part.size:
        headers["Range"] = f"bytes={part.size}-"
        if part.validator:
            headers["If-Range"] = part.validator
    try:
        with request(headers) as response:
            if response.status_code != 206:
                part.start(response.headers)
            elif not _continues(part, response.headers):
                raise RangeError("the file has changed on the server; the download starts anew")
            for block in response.iter_content(_BLOCK):
                part.append(block)
                count(part.size, part.total)
        if part.total is not None and part.size > part.total:
            raise RangeError(f"{part.size} bytes arrived instead of {part.total}")
        if part.total is not None and part.size < part.total:
            raise TransientError(f"{part.size} bytes arrived instead of {part.total}")
    except RangeError:
        part.restart()
        raise


def _continues(part: PartialFile, headers: Mapping[str, str]) -> bool:
    place = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", headers.get("Content-Range", "").strip())
    if place is None or int(place[1]) != part.size:
        return False
    return place[2] == "*" or part.total is None or int(place[2]) == part.total


def _server_md5(headers: Mapping[str, str]) -> str:
    """From Google's ``x-goog-hash: crc32c=…, md5=…`` (https://cloud.google.com/storage/docs/xml-api/reference-headers)."""
    match = re.search(r"\bmd5=([A-Za-z0-9+/]{22}==)", headers.get("x-goog-hash", ""))
    return base64.b64decode(match[1]).hex() if match else ""


_CONNECT_SECONDS = 30.0
_TRANSIENT = {408, 425, 429, 500, 502, 503, 504}


@contextmanager
def connected(
    credentials: Credentials | None, policy: RetryPolicy, headers: Mapping[str, str | None] | None = None
) -> Iterator[KaggleClient]:
    """The client; inside the block, network failures are TransientErrors and refusals are RefusedErrors.

    ``headers`` are sent with every request, also with those that a redirect leads to.
    """
    arguments = credentials.arguments if credentials else {}
    with KaggleClient(**arguments, user_agent=f"pytest-mlebench/{__version__}") as client:
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
    if any(isinstance(cause, requests.exceptions.SSLError) for cause in causes) and "CERTIFICATE" in str(error):
        return DataError(
            f"the TLS certificate of {host} is not trusted; if a proxy inspects the connection, let "
            "REQUESTS_CA_BUNDLE name its certificate"
        )
    offline = f"the name {host} cannot be looked up: this machine is offline, or must use a proxy (HTTPS_PROXY)"
    stalled = f"nothing arrived from {host} for {policy.stall:g} s"
    cut = f"the connection to {host} failed or was cut"
    failures: Mapping[type[BaseException], str] = {
        requests.exceptions.SSLError: f"the TLS connection to {host} failed",
        requests.exceptions.ProxyError: f"the proxy does not connect to {host} (see HTTPS_PROXY and HTTP_PROXY)",
        NameResolutionError: offline,
        requests.ConnectTimeout: f"{host} did not answer within {_CONNECT_SECONDS:g} s",
        requests.Timeout: stalled,
        ReadTimeoutError: stalled,
        ConnectionRefusedError: f"{host} refused the connection",
        requests.ConnectionError: cut,
        requests.exceptions.ChunkedEncodingError: cut,
    }
    for kind, text in failures.items():
        if any(isinstance(cause, kind) for cause in causes):
            return TransientError(text)
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
        wait = None
        with suppress(InvalidHeader):
            wait = Retry().get_retry_after(response.raw)
        return TransientError(f"Kaggle answered {status}", wait)
    return RefusedError(status, message)


def find_credentials(policy: RetryPolicy) -> Credentials:
    """The user's credentials, looked for where, and in the order that, Kaggle's client does; not yet tried.

    An access token (``KAGGLE_API_TOKEN``, ``~/.kaggle/access_token``), an API key (``KAGGLE_USERNAME`` and
    ``KAGGLE_KEY``, ``kaggle.json``), a login (``kaggle auth login``). Raises DataError that says how to get some.
    """
    try:
        token, source = get_access_token_from_env()
    except (OSError, UnicodeDecodeError) as error:  # whose texts may hold the token
        raise DataError(f"Kaggle's access token cannot be read; get a new one at {SETTINGS}") from error
    if token:
        source = "~/.kaggle/access_token" if source == "access_token" else f"${source}"
        return Credentials(source=f"the access token in {source}", arguments={"api_token": token})
    found = _api_key() or _login(policy)
    if found is None:
        raise DataError(
            f"no Kaggle credentials: get a token at {SETTINGS} and put it into ~/.kaggle/access_token "
            f"or $KAGGLE_API_TOKEN (or put a kaggle.json into {_config_folder()}, or run `kaggle auth login`)"
        )
    return found


def _api_key() -> Credentials | None:
    path = Path("kaggle.json")
    try:
        path = _config_folder() / path
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
    arguments = {"username": str(username), "password": str(key)}
    return Credentials(source=f"the API key in {source}, user {username}", arguments=arguments)


def _config_folder() -> Path:
    if configured := os.environ.get("KAGGLE_CONFIG_DIR"):
        return Path(configured)
    usual = Path.home() / ".kaggle"
    return usual if usual.is_dir() else Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "kaggle"


def _login(policy: RetryPolicy) -> Credentials | None:
    path = KaggleCredentials.DEFAULT_CREDENTIALS_FILE
    try:
        with connected(None, policy) as client:
            login = KaggleCredentials.load(client)
            token = login and login.get_access_token()  # requests a new one when the last has expired
    except RefusedError as error:
        raise DataError(f"Kaggle refuses the login in {path}; run `kaggle auth login` again") from error
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise DataError(f"the login in {path} cannot be used: {error}; run `kaggle auth login` again") from error
    return Credentials(source=f"the login in {path}", arguments={"api_token": token}) if token else None
