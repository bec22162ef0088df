"""Where prepared data is pulled from and pushed to: URLs, and the contract of what other distributions provide."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from pytest_mlebench.catalog import Competition
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.data.verification import SIDES
from pytest_mlebench.errors import DataError
from pytest_mlebench.io.extensions import extensions, load_extension
from pytest_mlebench.io.progress import Reporter

if TYPE_CHECKING:
    from pytest_mlebench.data.download.contract import RetryPolicy


VARIABLE = "MLEBENCH_DATA_SOURCE"
SOURCES = "mlebench.data_sources"
"""Entry points of sources by the scheme of their URLs: functions ``(url, retry policy) -> Source``."""
EXTRAS = {"s3": "s3", "gs": "gcs", "file": "", "https": "", "http": ""}
"""The extra of this package that each scheme needs."""
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_USER = re.compile(r"(?<=://)[^/@\s]*@")


def check(text: str) -> str:
    """The URL without slashes at its end. Raises ValueError for one that is not accepted."""
    shown = redacted(text)
    try:
        url = urlsplit(text)
        host = url.hostname
    except ValueError as error:
        raise ValueError(f"{shown!r} is no URL: {error}") from error
    if url.scheme not in {*EXTRAS, *extensions(SOURCES)} or not text.startswith(f"{url.scheme}://"):
        raise ValueError(f"{shown!r} is no URL of s3://, gs://, https:// or file://; write a folder as file:///data")
    if url.query or url.fragment:
        raise ValueError(f"{shown.split('?')[0].split('#')[0]!r}: a URL of data is a folder's, without ? and #")
    if url.scheme == "file" and (host or not url.path.startswith("/")):
        raise ValueError(f"{shown!r}: write a folder with three slashes and its whole path, as file:///data")
    if url.scheme != "file" and not host:
        raise ValueError(f"{shown!r} names no {'bucket' if url.scheme in ('s3', 'gs') else 'host'}")
    if url.scheme == "http" and host not in _LOOPBACK:
        raise ValueError(
            f"{shown!r}: data is not taken over http://, which anybody on the way can change; use https://"
        )
    return text.rstrip("/")


def redacted(url: str) -> str:
    """A URL, or a text with URLs, without user names and passwords."""
    return _USER.sub("***@", url)


def with_password(url: str) -> str:
    """A URL that a record or a plan has redacted, with the user and password of ``$MLEBENCH_DATA_SOURCE``."""
    known = os.environ.get(VARIABLE, "").strip().rstrip("/")
    return known if "***@" in url and redacted(known) == url else url


class NotPushed(DataError):
    """A source has no data of the competition."""


class Head(Protocol):
    """What a source says of a competition's data: bytes in all, whose description it has, and a digest that only the
    same files have."""

    @property
    def size(self) -> int: ...
    @property
    def description(self) -> str | None: ...
    @property
    def digest(self) -> str: ...


class Source(Protocol):
    """A place that holds prepared data. Methods raise DataError that names the URL without its password."""

    url: str
    """Without a user and password."""

    def head(self, competition: Competition, reporter: Reporter) -> Head:
        """What there is of a competition; raises NotPushed where there is nothing."""

    def bytes_there(self, work: Path) -> int:
        """How many bytes an earlier call of ``pull`` has left in its folder."""

    def pull(
        self,
        competition: Competition,
        head: Head,
        work: Path,
        reporter: Reporter,
        only: Collection[str] = SIDES,
    ) -> Path:
        """Pull all files into ``work``, or ``only`` some: parts and single files, as ``public/description.md``. Returns
        the folder in it that has ``public`` and ``private``."""

    def push(self, dataset: Dataset, *, replace: bool, reporter: Reporter) -> int:
        """Write what is missing, and return how many files that were."""


def open_source(url: str, policy: RetryPolicy | None = None) -> Source:
    """The source of a URL; raises DataError where no installed distribution reads such URLs, UsageError for a wrong
    one. ``policy`` says how often requests are tried again."""
    scheme = url.partition("://")[0]
    create: Callable[[str, RetryPolicy | None], Source] | None = load_extension(SOURCES, scheme)
    if create is None:
        raise DataError(f"{redacted(url)}: no installed package reads data from {scheme}://")
    return create(url, policy)
