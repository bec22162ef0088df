"""Objects at a URL, through fsspec: read in ranges, written whole; what fails for a moment is tried again."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import Event
from typing import Any, TypeVar
from urllib.parse import quote

from pytest_mlebench.data.download.transfers import RetryPolicy, TransientError, retry
from pytest_mlebench.data.preparing import EXTRAS, check, redacted, with_password
from pytest_mlebench.errors import DataError, UsageError
from pytest_mlebench.io import files
from pytest_mlebench.io.progress import Reporter, silent

T = TypeVar("T")

BLOCK = 8 << 20
"""Bytes that one request asks for: what a connection that breaks can cost."""
_CHUNK = 16 << 20
"""Bytes of a part of an upload."""
_STREAM = 1 << 18
_NO_CREDENTIALS = {
    *("NoCredentialsError", "PartialCredentialsError", "ProfileNotFound", "NoAuthTokenError"),
    *("DefaultCredentialsError", "RefreshError", "TokenRetrievalError", "UnauthorizedSSOTokenError"),
}
_MAY_PASS = {408, 425, 429}
_FINAL = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR}


class Absent(DataError):
    """There is no such object."""


class Storage:
    """The objects below a URL. Names are relative to it. Several threads may use it at once.

    Methods raise DataError that names the URL without its password; ``reporter`` gets every wait. ``files_at_once`` is
    how many files are pulled or pushed side by side.
    """

    def __init__(self, url: str, policy: RetryPolicy | None = None, *, files_at_once: int = 16) -> None:
        try:
            own = check(with_password(url))
        except ValueError as error:
            raise UsageError(str(error)) from error
        self.url = redacted(own)
        self.scheme = own.partition("://")[0]
        self.files_at_once = files_at_once
        self._policy = policy or RetryPolicy()
        if "***@" in own:
            raise DataError(
                f"{own}: its user and password are in no record: give the whole URL in $MLEBENCH_DATA_SOURCE"
            )
        self._fs = _filesystem(own, self._policy)
        self._root = own if self.scheme in ("http", "https") else self._fs._strip_protocol(own)

    def where(self, name: str) -> str:
        """An object's URL as users read it."""
        return f"{self.url}/{name}"

    def read(self, name: str, limit: int, reporter: Reporter = silent) -> bytes:
        """A small object. Raises Absent, and DataError if it has more than ``limit`` bytes."""

        def get() -> bytes:
            found = bytearray()
            _, blocks = self.blocks(name, 0, limit + 1)
            for block in blocks:
                found += block
                if len(found) > limit:
                    raise DataError(f"{self.where(name)} is larger than it may be")
            return bytes(found)

        return self.retry(get, name, reporter)

    def blocks(self, name: str, start: int, size: int) -> tuple[int, Iterator[bytes]]:
        """An object's bytes from ``start`` up to ``size``, and where they start: at 0 if the store has no ranges.

        Nothing is tried again. Raises TransientError, Absent or DataError, also as one iterates. An object that is
        shorter gives fewer bytes.
        """
        if self.scheme not in ("http", "https"):
            return start, self._ranges(name, start, size)
        with _translated(self, name):
            headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={start}-"} if start else {})}
            file = self._fs.open(f"{self._root}/{quote(name)}", "rb", block_size=0, size=1, headers=headers)
        begin = start if file.r.status == 206 else 0
        return begin, self._stream(file, name, size - begin)

    def _ranges(self, name: str, start: int, size: int) -> Iterator[bytes]:
        for begin in range(start, size, BLOCK):
            end = min(begin + BLOCK, size)
            with _translated(self, name):
                block = self._fs.cat_file(f"{self._root}/{name}", start=begin, end=end)
            yield block
            if len(block) < end - begin:
                return

    def _stream(self, file: Any, name: str, left: int) -> Iterator[bytes]:
        with closing(file):
            while left > 0:
                with _translated(self, name):
                    block = file.read(min(_STREAM, left))
                if not block:
                    return
                left -= len(block)
                yield block

    def sizes(self, folder: str, reporter: Reporter = silent) -> dict[str, int]:
        """The sizes of all objects below a folder, by their names relative to it."""

        def find() -> dict[str, int]:
            root = f"{self._root}/{folder}"
            try:
                with _translated(self, folder):
                    found = self._fs.find(root, detail=True)
            except Absent:
                return {}
            return {path[len(root) + 1 :]: about["size"] for path, about in found.items() if path != root}

        return self.retry(find, folder, reporter)

    def upload(self, file: Path, name: str, reporter: Reporter = silent, stopped: Event | None = None) -> None:
        """Write a file as an object; a wait for another attempt ends with DataError as soon as ``stopped`` is set."""
        options = {"chunksize": _CHUNK} if self.scheme in ("s3", "gs") else {}
        if self.scheme == "s3":
            options["max_concurrency"] = 2  # files are written side by side already
        self._put(lambda target: self._fs.put_file(str(file), target, **options), name, reporter, stopped)

    def write(self, name: str, content: bytes, reporter: Reporter = silent) -> None:
        """Write a small object, at once or not at all."""

        def put(target: str) -> None:
            if self.scheme == "file":
                files.write_bytes(Path(target), content)
            else:
                self._fs.pipe_file(target, content)

        self._put(put, name, reporter)

    def _put(self, put: Callable[[str], None], name: str, reporter: Reporter, stopped: Event | None = None) -> None:
        def call() -> None:
            target = f"{self._root}/{name}"
            with _translated(self, name, writing=True):
                if self.scheme == "file":
                    Path(target).parent.mkdir(parents=True, exist_ok=True)
                put(target)

        self.retry(call, name, reporter, stopped=stopped)

    def remove(self, name: str, *, recursive: bool = False, reporter: Reporter = silent) -> None:
        """Remove an object, or all below a folder; what is not there is no error."""

        def drop() -> None:
            with suppress(Absent), _translated(self, name):
                self._fs.rm(f"{self._root}/{name}", recursive=recursive)

        self.retry(drop, name, reporter)

    def retry(
        self,
        call: Callable[[], T],
        name: str,
        reporter: Reporter,
        progress: Callable[[], int] = lambda: 0,
        stopped: Event | None = None,
    ) -> T:
        """Call what concerns an object until there is no TransientError (see ``retry``)."""
        return retry(call, self._policy, self.where(name), reporter, progress, stopped)


def _filesystem(url: str, policy: RetryPolicy) -> Any:
    scheme = url.partition("://")[0]
    for talks, level in (("botocore", logging.WARNING), ("aiobotocore", logging.WARNING), ("gcsfs", logging.ERROR)):
        logging.getLogger(talks).setLevel(level)  # of each credential that it finds, of what is experimental
    try:
        import fsspec

        options = {"skip_instance_cache": True, "use_listings_cache": False, **_options(scheme, policy)}
        if scheme != "gs":
            return fsspec.filesystem(scheme, **options)
        from gcsfs.core import GCSFileSystem  # fsspec's own choice asks for a bucket's kind, which few may see

        return GCSFileSystem(**options)
    except ImportError as error:
        package = f"pytest-mlebench[{EXTRAS[scheme]}]"
        raise UsageError(f"{scheme}:// needs packages that are not installed: pip install '{package}'") from error
    except Exception as error:  # credentials that cannot be read, for example
        raise DataError(f"{redacted(url)}: {_text(error)}") from error


def _options(scheme: str, policy: RetryPolicy) -> dict[str, Any]:
    """How long an answer may take; credentials and addresses are fsspec's own, from the environment."""
    if scheme == "s3":
        waits = {"connect_timeout": policy.stall, "read_timeout": policy.stall}
        return {"config_kwargs": {**waits, "max_pool_connections": 32}}
    if scheme == "file":
        return {}
    import aiohttp

    timeout = aiohttp.ClientTimeout(total=None, sock_connect=policy.stall, sock_read=policy.stall)
    if scheme == "gs":
        return {"requests_timeout": timeout}
    return {"client_kwargs": {"timeout": timeout, "auto_decompress": False, "trust_env": True}}


@contextmanager
def _translated(storage: Storage, name: str, *, writing: bool = False) -> Iterator[None]:
    """Turns what goes wrong at a store into TransientError, Absent or DataError."""
    try:
        yield
    except (DataError, TransientError):
        raise
    except Exception as error:
        raise _translation(storage, storage.where(name), error, writing=writing) from error


def _translation(storage: Storage, where: str, error: Exception, *, writing: bool) -> DataError | TransientError:
    status = getattr(error, "status", None) or getattr(error, "code", None)
    if isinstance(error, FileNotFoundError) or status == 404:
        if writing:
            return DataError(f"{where} cannot be written: is there such a bucket? ({_text(error)})")
        return Absent(f"{where} is not there")
    if type(error).__name__ in _NO_CREDENTIALS:
        return DataError(f"{where}: no valid credentials were found in the environment: {_text(error)}")
    forbidden = storage.scheme == "gs" and str(error).startswith("Forbidden")  # gcsfs has no other sign
    if isinstance(error, PermissionError) or status in (401, 403) or forbidden:
        return DataError(f"{where}: access is denied with the credentials of the environment")
    refused = isinstance(status, int) and 400 <= status < 500 and status not in _MAY_PASS
    if refused or storage.scheme == "file" or (isinstance(error, OSError) and error.errno in _FINAL):
        return DataError(f"{where}: {_text(error)}")
    if isinstance(error, TypeError | AttributeError | NotImplementedError | LookupError):
        return DataError(f"{where}: {type(error).__name__}: {_text(error)}")
    return TransientError(_text(error))


def _text(error: Exception) -> str:
    """An error in a line, without secrets of its URL."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return redacted(" ".join(text.split()))[:300] or type(error).__name__
