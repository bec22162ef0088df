"""Accesses objects at a URL through fsspec: reads in ranges, writes whole objects, retries transient errors."""

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
from pytest_mlebench.io.extensions import not_installed
from pytest_mlebench.io.progress import Reporter, silent

T = TypeVar("T")

BLOCK = 8 << 20
"""Bytes that one request reads. A broken connection loses at most this much."""
_CHUNK = 16 << 20
"""Bytes of one part of an upload."""
_STREAM = 1 << 18
_NO_CREDENTIALS = {
    *("NoCredentialsError", "PartialCredentialsError", "ProfileNotFound", "NoAuthTokenError"),
    *("DefaultCredentialsError", "RefreshError", "TokenRetrievalError", "UnauthorizedSSOTokenError"),
}
_TRANSIENT = {408, 425, 429}
_PERMANENT = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR}


class ObjectNotFound(DataError):
    """The object does not exist."""


class Storage:
    """The objects below a URL. Names are relative to it. Several threads may use it at once.

    Methods raise DataError with the URL, without its password. ``reporter`` is notified of every wait.
    ``files_at_once`` is the number of files that are pulled or pushed in parallel.
    """

    def __init__(self, url: str, policy: RetryPolicy | None = None, *, files_at_once: int = 16) -> None:
        try:
            full_url = check(with_password(url))
        except ValueError as error:
            raise UsageError(str(error)) from error
        self.url = redacted(full_url)
        self.scheme = full_url.partition("://")[0]
        self.files_at_once = files_at_once
        self._policy = policy or RetryPolicy()
        if "***@" in full_url:
            raise DataError(
                f"{full_url}: records contain no user and password: set $MLEBENCH_DATA_SOURCE to the full URL"
            )
        self._fs = _filesystem(full_url, self._policy)
        self._root = full_url if self.scheme in ("http", "https") else self._fs._strip_protocol(full_url)

    def where(self, name: str) -> str:
        """An object's URL for messages."""
        return f"{self.url}/{name}"

    def read(self, name: str, limit: int, reporter: Reporter = silent) -> bytes:
        """Read a small object. Raises ObjectNotFound, and DataError if it has more than ``limit`` bytes."""

        def get() -> bytes:
            found = bytearray()
            _, blocks = self.blocks(name, 0, limit + 1)
            for block in blocks:
                found += block
                if len(found) > limit:
                    raise DataError(f"{self.where(name)} is larger than {limit:,} bytes")
            return bytes(found)

        return self.retry(get, name, reporter)

    def blocks(self, name: str, start: int, size: int) -> tuple[int, Iterator[bytes]]:
        """Return the start, and an iterator of the bytes from there to ``size``. Without ranges, a store starts at 0.

        There are no retries. Raises TransientError, ObjectNotFound or DataError, also during iteration. A shorter
        object yields fewer bytes.
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
        """The sizes of all objects below a folder, by name relative to it."""

        def find() -> dict[str, int]:
            root = f"{self._root}/{folder}"
            try:
                with _translated(self, folder):
                    found = self._fs.find(root, detail=True)
            except ObjectNotFound:
                return {}
            return {path[len(root) + 1 :]: about["size"] for path, about in found.items() if path != root}

        return self.retry(find, folder, reporter)

    def upload(self, file: Path, name: str, reporter: Reporter = silent, stopped: Event | None = None) -> None:
        """Write a file as an object. A wait before a retry ends with DataError as soon as ``stopped`` is set."""
        options = {"chunksize": _CHUNK} if self.scheme in ("s3", "gs") else {}
        if self.scheme == "s3":
            options["max_concurrency"] = 2  # files are already written in parallel
        self._put(lambda target: self._fs.put_file(str(file), target, **options), name, reporter, stopped)

    def write(self, name: str, content: bytes, reporter: Reporter = silent) -> None:
        """Write a small object atomically."""

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
        """Remove an object, or all objects below a folder. Missing objects are ignored."""

        def drop() -> None:
            with suppress(ObjectNotFound), _translated(self, name):
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
        """Retry a call about an object while it raises TransientError (see ``transfers.retry``)."""
        return retry(call, self._policy, self.where(name), reporter, progress, stopped)


def _filesystem(url: str, policy: RetryPolicy) -> Any:
    scheme = url.partition("://")[0]
    for name, level in (("botocore", logging.WARNING), ("aiobotocore", logging.WARNING), ("gcsfs", logging.ERROR)):
        logging.getLogger(name).setLevel(level)  # they log each credential, or warn of experimental features
    try:
        import fsspec

        options = {"skip_instance_cache": True, "use_listings_cache": False, **_options(scheme, policy)}
        if scheme != "gs":
            return fsspec.filesystem(scheme, **options)
        from gcsfs.core import GCSFileSystem  # fsspec's default requests the bucket's type, which few may read

        return GCSFileSystem(**options)
    except ImportError as error:
        raise UsageError(not_installed(f"{scheme}://", EXTRAS[scheme])) from error
    except Exception as error:  # such as unreadable credentials
        raise DataError(f"{redacted(url)}: {_text(error)}") from error


def _options(scheme: str, policy: RetryPolicy) -> dict[str, Any]:
    """Timeouts of a store. fsspec takes credentials and addresses from the environment."""
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
    """Context manager: turn errors of a store into TransientError, ObjectNotFound or DataError."""
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
            return DataError(f"{where} cannot be written: does the bucket exist? ({_text(error)})")
        return ObjectNotFound(f"{where} does not exist")
    if type(error).__name__ in _NO_CREDENTIALS:
        return DataError(f"{where}: no valid credentials were found in the environment: {_text(error)}")
    is_forbidden = storage.scheme == "gs" and str(error).startswith("Forbidden")  # gcsfs gives no other sign
    if isinstance(error, PermissionError) or status in (401, 403) or is_forbidden:
        return DataError(f"{where}: access is denied with the credentials of the environment")
    is_permanent = isinstance(status, int) and 400 <= status < 500 and status not in _TRANSIENT
    if is_permanent or storage.scheme == "file" or (isinstance(error, OSError) and error.errno in _PERMANENT):
        return DataError(f"{where}: {_text(error)}")
    if isinstance(error, TypeError | AttributeError | NotImplementedError | LookupError):
        return DataError(f"{where}: {type(error).__name__}: {_text(error)}")
    return TransientError(_text(error))


def _text(error: Exception) -> str:
    """An error in one line, without secrets of its URL."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return redacted(" ".join(text.split()))[:300] or type(error).__name__
