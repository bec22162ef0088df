"""Trying again after failures that may pass, with growing delays."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import requests

from pytest_mlebench.data.download.retry import RetryPolicy, TransientError, retry
from pytest_mlebench.errors import DataError
from pytest_mlebench.io.progress import ByteCounter, Reporter
from pytest_mlebench.io.units import format_size

Request = Callable[[Mapping[str, str]], AbstractContextManager[requests.Response]]
"""Requests the file with these headers; the response's body is not yet read. Errors: see kaggle_client.connected."""

_BLOCK = 1 << 16  # small: the block being received is lost with the connection


class RangeError(TransientError):
    """The server has another file than the one whose rest was requested."""


class PartialFile:
    """A growing file at ``path``, and beside it a note of which file it is a part of, so that it can be resumed.

    ``size``: bytes that are there; ``total``: bytes that there will be, if known; ``server_md5``: the md5 of the whole
    file as the server gives it, in hexadecimal, or "". Raises DataError where the disk is full or cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        self.total: int | None = None
        self.validator = ""
        self.server_md5 = ""
        self._md5 = hashlib.md5(usedforsecurity=False)
        self._notes = path.with_name(f"{path.name}.json")

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
        """Discard the bytes that are there."""
        os.ftruncate(self._file, 0)
        self._notes.unlink(missing_ok=True)
        self.size, self.total, self.validator, self.server_md5 = 0, None, "", ""
        self._md5 = hashlib.md5(usedforsecurity=False)

    def start(self, headers: Mapping[str, str]) -> None:
        """Start anew with the file that these headers of a response describe."""
        self.restart()
        length = headers.get("Content-Length", "")
        self.total = int(length) if length.isdigit() else None
        self.validator = _validator(headers)
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


def _validator(headers: Mapping[str, str]) -> str:
    """What If-Range takes: a strong ETag, else the date of the last change."""
    etag = headers.get("ETag", "")
    return etag if etag and not etag.startswith("W/") else headers.get("Last-Modified", "")


def _server_md5(headers: Mapping[str, str]) -> str:
    """From Google's ``x-goog-hash: crc32c=…, md5=…`` (https://cloud.google.com/storage/docs/xml-api/reference-headers)."""
    match = re.search(r"\bmd5=([A-Za-z0-9+/]{22}==)", headers.get("x-goog-hash", ""))
    return base64.b64decode(match[1]).hex() if match else ""
