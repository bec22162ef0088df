"""Answers that are no page: files, attachments, events; and what an address asks for."""

from __future__ import annotations

import mimetypes
import os
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse

from pytest_mlebench.extras.viewer.folder import Refused, opened
from pytest_mlebench.extras.viewer.guard import FILE_POLICY
from pytest_mlebench.io.units import plain
from pytest_mlebench.runs.files import open_files

_CHUNK = 256 << 10


def events(events: AsyncIterator[str]) -> StreamingResponse:
    return StreamingResponse(events, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


def attachment(text: str, name: str) -> Response:
    ascii_name = name.encode("ascii", "replace").decode().replace('"', "'").replace("?", "-")
    return HTMLResponse(
        text,
        headers={"Content-Disposition": f'attachment; filename="{ascii_name}"', "Content-Security-Policy": FILE_POLICY},
    )


_RANGE = re.compile(r"bytes=(\d{1,18})?-(\d{1,18})?")


def download(request: Request, folder: Path, names: Sequence[str]) -> Response:
    """A file as it is, or a range of it; whatever it is, a browser only saves it. Raises Refused."""
    with opened(folder, *names) as descriptor:
        size = os.fstat(descriptor).st_size
    start, end, status = 0, size, 200
    asked = request.headers.get("range")
    headers = {"Accept-Ranges": "bytes", "Content-Security-Policy": FILE_POLICY}
    if asked is not None and (match := _RANGE.fullmatch(asked.strip())) and (match[1] or match[2]):
        if match[1]:
            start, end = int(match[1]), min(size, int(match[2]) + 1 if match[2] else size)
        else:
            start = max(0, size - int(match[2]))
        if start >= end:
            return PlainTextResponse("no such range\n", 416, {"Content-Range": f"bytes */{size}"})
        status = 206
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    kind = _describe(headers, names[-1], end - start)
    if request.method == "HEAD":
        return Response(status_code=status, headers=headers, media_type=kind)

    def content() -> Iterator[bytes]:
        with opened(folder, *names) as descriptor:
            place = start
            while place < end and (block := os.pread(descriptor, min(_CHUNK, end - place), place)):
                yield block
                place += len(block)

    return StreamingResponse(content(), status, headers, kind)


def download_left(request: Request, run_dir: Path, path: str) -> Response:
    """A file of a run's archive, as a browser saves it. Raises Refused, and FilesError."""
    with open_files(run_dir) as files:
        found = files.get(path)
    if found is None:
        raise Refused("there is no such file")
    headers = {"Content-Security-Policy": FILE_POLICY}
    kind = _describe(headers, path.rpartition("/")[2], found.size)
    if request.method == "HEAD":
        return Response(headers=headers, media_type=kind)

    def content() -> Iterator[bytes]:
        with open_files(run_dir) as files, files.open(path) as file:
            while block := file.read(_CHUNK):
                yield block

    return StreamingResponse(content(), 200, headers, kind)


def _describe(headers: dict[str, str], name: str, size: int) -> str:
    """Add what makes a browser save a file under a plain name; returns its media type, as which it is harmless."""
    name = re.sub(r"[^\w. ()-]", "_", plain(name), flags=re.ASCII) or "file"
    headers["Content-Disposition"] = f'attachment; filename="{name}"'
    headers["Content-Length"] = str(size)
    return "text/plain; charset=utf-8" if mimetypes.guess_type(name)[0] is not None else "application/octet-stream"


def whole_number(text: str | None, least: int, most: int) -> int:
    """A whole number of an address, within bounds; the least where it is none."""
    if text is None or not text.isascii() or not text.isdecimal() or len(text) > 18:
        return least
    return max(least, min(most, int(text)))


def timestamp(text: str) -> float | None:
    with suppress(ValueError, OverflowError):
        return datetime.fromisoformat(text).timestamp()
    return None
