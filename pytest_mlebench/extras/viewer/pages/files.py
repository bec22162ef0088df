"""The page of the files that a run left."""

from __future__ import annotations

import csv
import io
import mimetypes
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from markupsafe import escape
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from pytest_mlebench.extras.viewer.folder import MAX_ENTRIES, FolderFile, listing
from pytest_mlebench.extras.viewer.guard import FILE_POLICY
from pytest_mlebench.extras.viewer.site import RunPlace, Site
from pytest_mlebench.extras.viewer.text import CODE_SUFFIXES, code
from pytest_mlebench.io.files import NotReadable, opened
from pytest_mlebench.io.units import one_line, plain
from pytest_mlebench.records.record import COLLECTED, FILES, RUN_LOG, SUBMISSION
from pytest_mlebench.runs.files import FilesError, open_files

_FILE_SHOWN = 256 << 10
_TABLE_ROWS, _TABLE_COLUMNS = 100, 60
_CHUNK = 256 << 10
_RANGE = re.compile(r"bytes=(\d{1,18})?-(\d{1,18})?")


def files(site: Site, request: Request) -> Response:
    run = site.place(request)
    record = run.record
    path = request.path_params.get("path", "")
    entries, more = _entries(run.folder / run.run_id)
    if not path:
        names = [entry.path for entry in entries]
        path = next((name for name in (SUBMISSION, RUN_LOG) if name in names), "")
    return site.page(
        request,
        "files.html",
        **site.run_context(run, "files"),
        entries=entries,
        more=more,
        path=path,
        shown=_shown(run, path) if path else None,
        report=record.report if record is not None and path == SUBMISSION else None,
        checks=record.sandbox.validations[-20:] if record is not None and path == SUBMISSION else (),
    )


def raw(site: Site, request: Request) -> Response:
    """Return a file, or a range of it, as a download, whatever its type. Raises NotReadable."""
    run, path = site.place(request), request.path_params["path"]
    with _opened(run, path) as (_, size):
        start, end, status = 0, size, 200
    asked = request.headers.get("range")
    name = re.sub(r"[^\w. ()-]", "_", plain(path.rpartition("/")[2]), flags=re.ASCII) or "file"
    headers = {
        "Accept-Ranges": "bytes",
        "Content-Security-Policy": FILE_POLICY,
        "Content-Disposition": f'attachment; filename="{name}"',
    }
    if asked is not None and (match := _RANGE.fullmatch(asked.strip())) and (match[1] or match[2]):
        if match[1]:
            start, end = int(match[1]), min(size, int(match[2]) + 1 if match[2] else size)
        else:
            start = max(0, size - int(match[2]))
        if start >= end:
            return PlainTextResponse("no such range\n", 416, {"Content-Range": f"bytes */{size}"})
        status = 206
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    headers["Content-Length"] = str(end - start)
    kind = "text/plain; charset=utf-8" if mimetypes.guess_type(name)[0] is not None else "application/octet-stream"
    if request.method == "HEAD":
        return Response(status_code=status, headers=headers, media_type=kind)

    def content() -> Iterator[bytes]:
        left = end - start
        with _opened(run, path) as (file, _):
            file.seek(start)
            while left > 0 and (block := file.read(min(_CHUNK, left))):
                yield block
                left -= len(block)

    return StreamingResponse(content(), status, headers, kind)


@contextmanager
def _opened(run: RunPlace, path: str) -> Iterator[tuple[IO[bytes], int]]:
    """Open a file of a run's archive or folder, and yield it with its size. Raises NotReadable."""
    run_dir = run.folder / run.run_id
    if path.split("/")[0] not in COLLECTED or path == SUBMISSION or not (run_dir / FILES).exists():
        with (
            opened(run.folder, run.run_id, *path.split("/")) as descriptor,
            open(descriptor, "rb", closefd=False) as file,
        ):
            yield file, os.fstat(descriptor).st_size
        return
    try:
        with open_files(run_dir) as files:
            if (found := files.get(path)) is None:
                raise NotReadable("there is no such file")
            with files.open(path) as packed:
                yield packed, found.size
    except FilesError as error:
        raise NotReadable(str(error)) from error


def _shown(run: RunPlace, path: str) -> dict[str, Any]:
    with _opened(run, path) as (file, size):
        content = file.read(_FILE_SHOWN)
    shown: dict[str, Any] = {"size": size, "left_out": max(0, size - len(content)), "kind": "text"}
    if b"\0" in content[:8192]:
        return {**shown, "kind": "binary"}
    text = content.decode("utf-8", "replace")
    if is_table(path):
        return {**shown, "kind": "table", **head_of_table(path, text)}
    is_code = path.lower().endswith(CODE_SUFFIXES)
    lines = text.split("\n")
    cut = "\n".join(line if len(line) < 5000 else f"{line[:5000]}… ({len(line) - 5000:,} more)" for line in lines)
    return {**shown, "html": code(cut) if is_code else escape(plain(cut)), "lines": len(lines)}


def _entries(run_dir: Path) -> tuple[Sequence[FolderFile], bool]:
    """Return the files of a run directory and its archive, and whether there are more."""
    entries, more = listing(run_dir)
    if not (run_dir / FILES).exists():
        return entries, more
    others = [entry for entry in entries if entry.path != FILES]
    try:
        with open_files(run_dir) as files:
            archived = [FolderFile(file.path, file.size) for file in files.below()]
    except FilesError as error:
        archived = [FolderFile(FILES, 0, str(error))]
    return [*archived[:MAX_ENTRIES], *others], more or len(archived) > MAX_ENTRIES


def is_table(path: str) -> bool:
    return path.lower().endswith((".csv", ".tsv"))


def head_of_table(path: str, text: str, most: int = _TABLE_ROWS) -> dict[str, Any]:
    """Return the first rows of a table, as Python's CSV reader parses them."""
    separator = "\t" if path.lower().endswith(".tsv") else ","
    rows: list[list[str]] = []
    with suppress(csv.Error):
        for row in csv.reader(io.StringIO(text), delimiter=separator):
            rows.append([one_line(cell[:200]) for cell in row[:_TABLE_COLUMNS]])
            if len(rows) > most:
                break
    return {"heads": rows[0] if rows else [], "rows": rows[1:], "total": text.count("\n")}
