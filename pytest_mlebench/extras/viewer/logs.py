"""A log in parts: a page shows some lines, and loads those before and after as the reader scrolls."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_mlebench.extras.viewer.folder import opened, read
from pytest_mlebench.extras.viewer.steps import Hit
from pytest_mlebench.extras.viewer.text import ERRORS, Line, lines_of
from pytest_mlebench.io.units import one_line
from pytest_mlebench.records.record import RUN_LOG

PART = 64 << 10
"""Bytes of a part, more or less: it begins and ends with a line, where these are not longer than that."""
FOUND = 300
MAX_SEARCHED = 256 << 20
_AROUND = 100
_BLOCK = 1 << 20


@dataclass(frozen=True)
class Part:
    """Lines of a log from byte ``start`` to ``end``, of ``size`` in all."""

    start: int
    end: int
    size: int
    lines: Sequence[Line]


def part(group_dir: Path, run: str, *, start: int | None = None, end: int | None = None) -> Part:
    """The lines from ``start`` on, those before ``end``, or without either those at the end. Raises Refused."""
    with opened(group_dir, run, RUN_LOG) as descriptor:
        size = os.fstat(descriptor).st_size
        if start is None:
            end = size if end is None else min(end, size)
            start = max(0, end - PART)
            content = os.pread(descriptor, end - start, start)
            if start and (first := content.find(b"\n")) >= 0 and first + 1 < len(content):
                start, content = start + first + 1, content[first + 1 :]
        else:
            start = max(0, min(start, size))
            content = os.pread(descriptor, PART, start)
            if start + len(content) < size and (last := content.rfind(b"\n")) >= 0:
                content = content[: last + 1]
    return Part(start, start + len(content), size, list(lines_of(content, start)))


def around(group_dir: Path, run: str, place: int) -> Part:
    """A part that has the line with this byte. Raises Refused."""
    before, _ = read(group_dir, run, RUN_LOG, start=max(0, place - PART // 2), size=min(place, PART // 2))
    first = before.find(b"\n")
    begin = place - len(before) + (first + 1 if first >= 0 and place > PART // 2 else 0)
    return part(group_dir, run, start=begin)


def find(group_dir: Path, run: str, words: str | None) -> tuple[list[Hit], bool]:
    """Lines with this text, whatever its case, or for None lines that tell of failures; ``number`` is their first byte.

    And whether there are more. Raises Refused.
    """
    needles = ERRORS if words is None else (words.encode("utf-8", "replace").lower(),)
    hits: list[Hit] = []
    with opened(group_dir, run, RUN_LOG) as descriptor:
        place = 0
        while place < MAX_SEARCHED and (block := os.pread(descriptor, _BLOCK, place)):
            if len(block) == _BLOCK and (last := block.rfind(b"\n")) >= 0:
                block = block[: last + 1]
            lowered = block.lower()
            found = sorted({at for needle in needles for at in _each(lowered, needle)})
            done = -1
            for at in found:
                if at < done:
                    continue  # in the same line as the one before
                if len(hits) >= FOUND:
                    return hits, True
                begin, end = block.rfind(b"\n", 0, at) + 1, block.find(b"\n", at)
                done = end = len(block) if end < 0 else end
                length = max(len(needle) for needle in needles if lowered.startswith(needle, at))
                hits.append(_hit(block, place, begin, at, min(at + length, end), end))
            place += len(block)
    return hits, False


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
