"""The page of a run's log. It shows some lines, and loads those before and after them as the reader scrolls."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from pytest_mlebench.extras.viewer.folder import read, size_of
from pytest_mlebench.extras.viewer.live import log_state
from pytest_mlebench.extras.viewer.site import Site, events, whole_number
from pytest_mlebench.extras.viewer.steps import Hit
from pytest_mlebench.extras.viewer.text import ERRORS, Line, lines_of
from pytest_mlebench.io.files import opened
from pytest_mlebench.io.units import one_line
from pytest_mlebench.records.record import RUN_LOG

_PART = 64 << 10
"""Approximate bytes of a part. It begins and ends at line ends, unless a line is longer."""
_FOUND = 300
_MAX_SEARCHED = 256 << 20
_AROUND = 100
_BLOCK = 1 << 20


def log(site: Site, request: Request) -> Response:
    run = site.place(request)
    query = request.query_params
    words, last = query.get("q", "")[:200], query.get("at") == "error"
    found, hits, more, shown, place = size_of(run.folder, run.run_id, RUN_LOG), None, False, None, -1
    if found:
        place = whole_number(query.get("at"), -1, found)
        if "errors" in query or last:
            hits, more = _find(run.folder, run.run_id, None, last=last)
            if last and hits:
                place = hits[-1].number
        elif words:
            hits, more = _find(run.folder, run.run_id, words)
        shown = _part(run.folder, run.run_id) if place < 0 else _around(run.folder, run.run_id, place)
    return site.page(
        request,
        "log.html",
        **site.run_context(run, "log"),
        part=shown,
        place=place,
        hits=hits,
        more=more,
        last=last,
        words=words,
        errors="errors" in query,
        live=run.record is None,
    )


def log_part(site: Site, request: Request) -> Response:
    run = site.place(request)
    query = request.query_params
    start = whole_number(query["start"], 0, 1 << 62) if "start" in query else None
    end = whole_number(query["end"], 0, 1 << 62) if "end" in query else None
    shown = _part(run.folder, run.run_id, start=start, end=end)
    return HTMLResponse(site.environment.get_template("log_part.html").render(part=shown, place=-1))


async def log_events(site: Site, request: Request) -> Response:
    run = site.place(request)
    return events(lambda: log_state(run.folder, run.run_id))


@dataclass(frozen=True)
class LogPart:
    """Lines of a log from byte ``start`` to ``end``. ``size`` is the size of the log."""

    start: int
    end: int
    size: int
    lines: Sequence[Line]


def _part(group_dir: Path, run: str, *, start: int | None = None, end: int | None = None) -> LogPart:
    """Return the lines from ``start`` on, or before ``end``, or at the end of the log. Raises NotReadable."""
    with opened(group_dir, run, RUN_LOG) as descriptor:
        size = os.fstat(descriptor).st_size
        if start is None:
            end = size if end is None else min(end, size)
            start = max(0, end - _PART)
            content = os.pread(descriptor, end - start, start)
            if start and (first := content.find(b"\n")) >= 0 and first + 1 < len(content):
                start, content = start + first + 1, content[first + 1 :]
        else:
            start = max(0, min(start, size))
            content = os.pread(descriptor, _PART, start)
            if start + len(content) < size and (last := content.rfind(b"\n")) >= 0:
                content = content[: last + 1]
    return LogPart(start, start + len(content), size, list(lines_of(content, start)))


def _around(group_dir: Path, run: str, place: int) -> LogPart:
    """Return a part with the line that contains this byte. Raises NotReadable."""
    before, _ = read(group_dir, run, RUN_LOG, start=max(0, place - _PART // 2), size=min(place, _PART // 2))
    first = before.find(b"\n")
    begin = place - len(before) + (first + 1 if first >= 0 and place > _PART // 2 else 0)
    return _part(group_dir, run, start=begin)


def _find(group_dir: Path, run: str, words: str | None, *, last: bool = False) -> tuple[list[Hit], bool]:
    """Return the first or ``last`` lines with this text, ignoring case, or for None lines about failures.

    ``number`` of a hit is the first byte of its line. Also return whether there are more. Raises NotReadable.
    """
    needles = ERRORS if words is None else (words.encode("utf-8", "replace").lower(),)
    hits: list[Hit] = []
    with opened(group_dir, run, RUN_LOG) as descriptor:
        for place, block in (_blocks_from_the_end if last else _blocks)(descriptor):
            lowered = block.lower()
            lines: dict[int, int] = {}
            for at in sorted({at for needle in needles for at in _each(lowered, needle)}):
                lines.setdefault(block.rfind(b"\n", 0, at) + 1, at)
            for begin, at in reversed(lines.items()) if last else lines.items():
                if len(hits) >= _FOUND:
                    return hits[::-1] if last else hits, True
                end = block.find(b"\n", at)
                end = len(block) if end < 0 else end
                length = max(len(needle) for needle in needles if lowered.startswith(needle, at))
                hits.append(_hit(block, place, begin, at, min(at + length, end), end))
    return hits[::-1] if last else hits, False


def _blocks(descriptor: int) -> Iterator[tuple[int, bytes]]:
    """Yield parts of a log with their first byte. They begin and end at line ends, unless a line is longer."""
    place = 0
    while place < _MAX_SEARCHED and (block := os.pread(descriptor, _BLOCK, place)):
        if len(block) == _BLOCK and (last := block.rfind(b"\n")) >= 0:
            block = block[: last + 1]
        yield place, block
        place += len(block)


def _blocks_from_the_end(descriptor: int) -> Iterator[tuple[int, bytes]]:
    end = os.fstat(descriptor).st_size
    least = max(0, end - _MAX_SEARCHED)
    while end > least:
        start = max(least, end - _BLOCK)
        block = os.pread(descriptor, end - start, start)
        if start and 0 < (first := block.find(b"\n") + 1) < len(block):
            start, block = start + first, block[first:]
        yield start, block
        end = start


def _each(content: bytes, needle: bytes) -> Iterator[int]:
    at = content.find(needle)
    while at >= 0:
        yield at
        line = content.find(b"\n", at)
        at = content.find(needle, line) if line >= 0 else -1


def _hit(block: bytes, place: int, begin: int, at: int, stop: int, end: int) -> Hit:
    def text(start: int, stop: int) -> str:
        return one_line(block[start:stop].decode("utf-8", "replace"))

    before = text(max(begin, at - _AROUND), at)
    return Hit(place + begin, before, text(at, min(stop, at + _AROUND)), text(stop, min(end, stop + _AROUND)))
