"""URLs of prepared data: which are accepted, and how they are shown."""

from __future__ import annotations

import os
import re
from urllib.parse import urlsplit

from pytest_mlebench.io.extensions import extensions

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
