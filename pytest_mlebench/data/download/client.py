"""Kaggle's own client with the user's credentials and timeouts, and resumable transfers."""

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
"""Requests the file with these headers, and does not read the response's body. Raises the errors of ``connected``."""

_BLOCK = 1 << 16  # small, because a block is lost if the connection breaks while it is received


class RangeError(TransientError):
    """The file on the server is not the one that was partially downloaded."""


class PartialFile:
    """A partial download at ``path``, with a note next to it that identifies the complete file, for resuming.

    ``size``: bytes so far; ``total``: bytes of the complete file, if known; ``validator``: the value of If-Range, a
    strong ETag or else the Last-Modified date; ``server_md5``: the server's MD5 of the file in hexadecimal, or "".
    Raises DataError if the file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._notes = path.with_name(f"{path.name}.json")
        self._reset()

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

    def _reset(self) -> None:
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
            self._count(block)
        return self.total is None or self.size <= self.total

    def _count(self, block: bytes | memoryview) -> None:
        self._md5.update(block)
        self.size += len(block)

    def restart(self) -> None:
        os.ftruncate(self._file, 0)
        self._notes.unlink(missing_ok=True)
        self._reset()

    def start(self, headers: Mapping[str, str]) -> None:
        """Restart with the file that these response headers describe."""
        self.restart()
        length = headers.get("Content-Length", "")
        self.total = int(length) if length.isdigit() else None
        etag = headers.get("ETag", "")
        self.validator = etag if etag and not etag.startswith("W/") else headers.get("Last-Modified", "")
        # Google's `crc32c=…, md5=…`: cloud.google.com/storage/docs/xml-api/reference-headers
        google = re.search(r"\bmd5=([A-Za-z0-9+/]{22}==)", headers.get("x-goog-hash", ""))
        self.server_md5 = base64.b64decode(google[1]).hex() if google else ""
        try:
            self._notes.write_text(
                json.dumps({"total": self.total, "validator": self.validator, "md5": self.server_md5}), encoding="utf-8"
            )
        except OSError as error:
            raise self._write_error(error) from error

    def append(self, block: bytes) -> None:
        rest = memoryview(block)
        while rest:
            try:
                written = os.write(self._file, rest)
            except OSError as error:
                raise self._write_error(error) from error
            self._count(rest[:written])
            rest = rest[written:]

    def _write_error(self, error: OSError) -> DataError:
        missing = "" if self.total is None else f" with {format_size(self.total - self.size)} left to download"
        return DataError(f"{self.path}: {error.strerror}{missing}. The partial download is kept: call again to resume")

    def become(self, target: Path) -> None:
        """Rename the file, after syncing it to disk."""
        os.fsync(self._file)
        self.path.replace(target)
        self._notes.unlink(missing_ok=True)


def transfer(request: Request, part: PartialFile, policy: RetryPolicy, subject: str, reporter: Reporter) -> None:
    """Download the rest of a file; reports its progress and every wait.

    Temporary failures are retried. If the file has changed on the server, or the server ignores Range, the download
    restarts. Raises DataError that begins with ``subject``.
    """
    count = ByteCounter(reporter, subject, "downloading")
    count(part.size, part.total)
    if part.size != part.total:
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
                raise RangeError("the file has changed on the server; the download restarts")
            for block in response.iter_content(_BLOCK):
                part.append(block)
                count(part.size, part.total)
        if part.total is not None and part.size != part.total:
            kind = RangeError if part.size > part.total else TransientError
            raise kind(f"received {part.size} bytes instead of {part.total}")
    except RangeError:
        part.restart()
        raise


def _continues(part: PartialFile, headers: Mapping[str, str]) -> bool:
    match = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", headers.get("Content-Range", "").strip())
    if match is None or int(match[1]) != part.size:
        return False
    return match[2] == "*" or part.total is None or int(match[2]) == part.total


_CONNECT_SECONDS = 30.0
_TRANSIENT = {408, 425, 429, 500, 502, 503, 504}


@contextmanager
def connected(
    credentials: Credentials | None, policy: RetryPolicy, headers: Mapping[str, str | None] | None = None
) -> Iterator[KaggleClient]:
    """Open the client; in the ``with`` block, network failures raise TransientError and refusals RefusedError.

    ``headers`` are sent with every request, including redirected ones.
    """
    arguments = credentials.arguments if credentials else {}
    with KaggleClient(**arguments, user_agent=f"pytest-mlebench/{__version__}") as client:
        session = client.http_client()._session  # the client offers no other way to set timeouts and headers
        session.headers.update(headers or {})
        for scheme in ("http://", "https://"):
            session.mount(scheme, _TimeoutAdapter(policy.stall))
        try:
            yield client
        except requests.RequestException as error:
            raise _translated(error, policy) from error
        except json.JSONDecodeError as error:
            raise DataError(
                "Kaggle's client cannot parse the response; does a proxy or a login page answer instead of Kaggle?"
            ) from error


class _TimeoutAdapter(HTTPAdapter):
    """Closes connections that receive no data for ``stall`` seconds."""

    def __init__(self, stall: float) -> None:
        super().__init__()
        self.stall = stall

    def send(self, *args: Any, **options: Any) -> requests.Response:
        return super().send(*args, **{**options, "timeout": (_CONNECT_SECONDS, self.stall)})


def _translated(error: requests.RequestException, policy: RetryPolicy) -> Exception:
    # The messages of the original errors are left out: they may contain signed links, which are secrets.
    if error.response is not None:
        return _status_error(error.response)
    request = error.request
    host = (urlsplit(request.url or "").hostname if request is not None else None) or "Kaggle"
    causes = _causes(error)
    if any(isinstance(cause, requests.exceptions.SSLError) for cause in causes) and "CERTIFICATE" in str(error):
        return DataError(
            f"the TLS certificate of {host} is not trusted; if a proxy inspects the connection, let "
            "REQUESTS_CA_BUNDLE name its certificate"
        )
    offline = f"the host name {host} cannot be resolved: this machine is offline, or must use a proxy (HTTPS_PROXY)"
    stalled = f"received no data from {host} for {policy.stall:g} s"
    broken = f"the connection to {host} failed or was cut"
    failures: Mapping[type[BaseException], str] = {
        requests.exceptions.SSLError: f"the TLS connection to {host} failed",
        requests.exceptions.ProxyError: f"the proxy cannot connect to {host} (see HTTPS_PROXY and HTTP_PROXY)",
        NameResolutionError: offline,
        requests.ConnectTimeout: f"{host} did not answer within {_CONNECT_SECONDS:g} s",
        requests.Timeout: stalled,
        ReadTimeoutError: stalled,
        ConnectionRefusedError: f"{host} refused the connection",
        requests.ConnectionError: broken,
        requests.exceptions.ChunkedEncodingError: broken,
    }
    for kind, text in failures.items():
        if any(isinstance(cause, kind) for cause in causes):
            return TransientError(text)
    return DataError(f"the request to {host} failed: {type(error).__name__}")


def _causes(error: BaseException) -> list[BaseException]:
    """Return an error and its causes, as requests and urllib3 store them."""
    found = [error]
    for cause in found:
        causes = (*cause.args, getattr(cause, "reason", None), cause.__cause__, cause.__context__)
        found += [other for other in causes if isinstance(other, BaseException) and other not in found]
    return found


def _status_error(response: requests.Response) -> TransientError | RefusedError:
    status, message = response.status_code, response.reason or ""
    try:
        body = response.json()
        message = str(body["message"])
        status = status if status >= 400 else int(body["code"])
    except (requests.RequestException, ValueError, LookupError, TypeError):
        pass
    if status == 416:
        return RangeError("the file has changed on the server; the download restarts")
    # Redirects lead to signed links, which may have expired; the next attempt gets a new link.
    if status in _TRANSIENT or response.history:
        wait = None
        with suppress(InvalidHeader):
            wait = Retry().get_retry_after(response.raw)
        return TransientError(f"Kaggle answered {status}", wait)
    return RefusedError(status, message)


def find_credentials(policy: RetryPolicy) -> Credentials:
    """Find the user's credentials in the places, and in the order, of Kaggle's client. They are not tested.

    These are an access token (``KAGGLE_API_TOKEN``, ``~/.kaggle/access_token``), an API key (``KAGGLE_USERNAME`` and
    ``KAGGLE_KEY``, ``kaggle.json``), and a login (``kaggle auth login``). Raises DataError that says how to get them.
    """
    try:
        token, source = get_access_token_from_env()
    except (OSError, UnicodeDecodeError) as error:  # its message may contain the token
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
    home = Path(os.path.expanduser("~"))  # noqa: PTH111  (as Kaggle's client: Path.home fails if there is no home)
    usual = home / ".kaggle"
    return usual if usual.is_dir() else Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "kaggle"


def _login(policy: RetryPolicy) -> Credentials | None:
    path = KaggleCredentials.DEFAULT_CREDENTIALS_FILE
    try:
        with connected(None, policy) as client:
            login = KaggleCredentials.load(client)
            token = login and login.get_access_token()  # requests a new token if the last one has expired
    except RefusedError as error:
        raise DataError(f"Kaggle refuses the login in {path}; run `kaggle auth login` again") from error
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise DataError(f"the login in {path} cannot be used: {error}; run `kaggle auth login` again") from error
    return Credentials(source=f"the login in {path}", arguments={"api_token": token}) if token else None
