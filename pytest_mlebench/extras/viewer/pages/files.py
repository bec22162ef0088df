"""The files that a run left."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from markupsafe import escape
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pytest_mlebench.extras.viewer.answers import download, download_left
from pytest_mlebench.extras.viewer.folder import MAX_ENTRIES, FolderFile, Refused, listing, read
from pytest_mlebench.extras.viewer.site import RUN_PATH, Site
from pytest_mlebench.extras.viewer.text import CODE_SUFFIXES, code
from pytest_mlebench.io.units import one_line, plain
from pytest_mlebench.records.record import COLLECTED, FILES, RUN_LOG, SUBMISSION
from pytest_mlebench.runs.files import FilesError, open_files

_FILE_SHOWN = 256 << 10
_TABLE_ROWS, _TABLE_COLUMNS = 100, 60


class FilePages:
    """The files of a run: a list, what they hold, and downloads."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def routes(self) -> list[Route]:
        return [
            Route(f"{RUN_PATH}/files", self.files),
            Route(f"{RUN_PATH}/files/{{path:path}}", self.files),
            Route(f"{RUN_PATH}/raw/{{path:path}}", self.raw),
        ]

    def files(self, request: Request) -> Response:
        group, run_id, folder = self.site.place(request)
        record = self.site.record(folder, run_id)
        path = request.path_params.get("path", "")
        entries, more = _entries(folder / run_id)
        if not path:
            names = [entry.path for entry in entries]
            path = next((name for name in (SUBMISSION, RUN_LOG) if name in names), "")
        shown = self._shown(folder, run_id, path) if path else None
        return self.site.page(
            request,
            "files.html",
            **self.site.run_context(request, group, run_id, record, "files"),
            entries=entries,
            more=more,
            path=path,
            shown=shown,
            report=record.report if record is not None and path == SUBMISSION else None,
            checks=record.sandbox.validations[-20:] if record is not None and path == SUBMISSION else (),
        )

    def raw(self, request: Request) -> Response:
        _, run_id, folder = self.site.place(request)
        path = request.path_params["path"]
        if _is_packed(folder / run_id, path):
            try:
                return download_left(request, folder / run_id, path)
            except FilesError as error:
                raise Refused(str(error)) from error
        return download(request, folder, [run_id, *path.split("/")])

    def _shown(self, folder: Path, run_id: str, path: str) -> dict[str, Any]:
        if _is_packed(folder / run_id, path):
            content, size = _read_packed(folder / run_id, path)
        else:
            content, size = read(folder, run_id, *path.split("/"), size=_FILE_SHOWN)
        shown: dict[str, Any] = {"size": size, "left_out": max(0, size - len(content)), "kind": "text"}
        if b"\0" in content[:8192]:
            return {**shown, "kind": "binary"}
        text = content.decode("utf-8", "replace")
        if path.lower().endswith((".csv", ".tsv")):
            return {**shown, "kind": "table", **_table(text, "\t" if path.lower().endswith(".tsv") else ",")}
        is_code = path.lower().endswith(CODE_SUFFIXES)
        lines = text[:_FILE_SHOWN].split("\n")
        cut = "\n".join(line if len(line) < 5000 else f"{line[:5000]}… ({len(line) - 5000:,} more)" for line in lines)
        return {**shown, "html": code(cut) if is_code else escape(plain(cut)), "lines": len(lines)}


def _is_packed(run_dir: Path, path: str) -> bool:
    """Whether a file is one of the run's archive."""
    return path.split("/")[0] in COLLECTED and path != SUBMISSION and (run_dir / FILES).exists()


def _read_packed(run_dir: Path, path: str) -> tuple[bytes, int]:
    try:
        with open_files(run_dir) as files:
            if (found := files.get(path)) is None:
                raise Refused("there is no such file")
            return files.read(path, _FILE_SHOWN), found.size
    except FilesError as error:
        raise Refused(str(error)) from error


def _entries(run_dir: Path) -> tuple[Sequence[FolderFile], bool]:
    """The files of a run directory, with those of its archive, and whether there are more."""
    entries, more = listing(run_dir)
    if not (run_dir / FILES).exists():
        return entries, more
    others = [entry for entry in entries if entry.path != FILES]
    try:
        with open_files(run_dir) as files:
            left = [FolderFile(file.path, file.size) for file in files.below()]
    except FilesError as error:
        left = [FolderFile(FILES, 0, str(error))]
    return [*left[:MAX_ENTRIES], *others], more or len(left) > MAX_ENTRIES


def _table(text: str, separator: str) -> dict[str, Any]:
    """The head of a table, as Python's reader of CSV takes it."""
    import csv
    import io

    rows: list[list[str]] = []
    with suppress(csv.Error):
        for row in csv.reader(io.StringIO(text), delimiter=separator):
            rows.append([one_line(cell[:200]) for cell in row[:_TABLE_COLUMNS]])
            if len(rows) > _TABLE_ROWS:
                break
    return {"heads": rows[0] if rows else [], "rows": rows[1:], "total": text.count("\n")}
