"""Taking out of a container what an agent left: the engine's tar stream, read as if an enemy had written it."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator, Sequence
from itertools import chain

from pytest_mlebench.records.account import SUBMISSION
from pytest_mlebench.sandbox.collection import MAX_DEPTH, Collector

_BLOCK = 1 << 20
_SKIP = 4 << 30
"""So many bytes are read over, for what comes after a file that is too large."""

_MORE_ENTRIES = 1000
"""So many entries are looked at beyond the files and folders that are admitted: links and the like."""


class _TooMuch(Exception):
    """The stream is longer than anyone wants to read."""


class _Stream(io.RawIOBase):
    """The chunks as a file of at most ``budget`` bytes."""

    def __init__(self, chunks: Iterator[bytes], budget: int) -> None:
        self._chunks, self.budget = chunks, budget
        self._buffer = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        while len(self._buffer) < size and (chunk := next(self._chunks, b"")):
            self.budget -= len(chunk)
            if self.budget < 0:
                raise _TooMuch
            self._buffer += chunk
        block, self._buffer = self._buffer[:size], self._buffer[size:]
        return block


def collect_archive(chunks: Iterator[bytes], folder: str, collector: Collector) -> None:
    """Take the regular files of a tar stream, whose first folder is ``folder``; the collector notes what is left out.

    Raises DiskFull.
    """
    if not (begin := next(chunks, b"")):
        collector.note(f"{folder} (no folder)")
        return
    stream = _Stream(chain([begin], chunks), collector.max_bytes + collector.max_files * 2048 + _SKIP)
    last = folder
    try:
        with tarfile.open(fileobj=stream, mode="r|", bufsize=_BLOCK) as tar:
            for number, member in enumerate(tar):
                last = member.name
                if member.isreg() and member.size > stream.budget:
                    collector.note(f"{shown(last)} ({member.size:,} bytes), and all that follows it")
                    return
                if number > 2 * collector.max_files + _MORE_ENTRIES:
                    collector.note(f"{shown(last)}, and all that follows it")
                    return
                _member(tar, member, folder, collector)
    except _TooMuch:
        collector.note(f"all after {shown(last)} (more data than is read)")
    except tarfile.TarError as error:
        collector.note(f"all after {shown(last)} (the archive is damaged: {error})")


def collect_submission(chunks: Iterator[bytes], collector: Collector) -> None:
    """Take the submission, the one regular file of a tar stream; anything else is left. Raises DiskFull."""
    if not (begin := next(chunks, b"")):
        return
    try:
        with tarfile.open(fileobj=_Stream(chain([begin], chunks), _SKIP), mode="r|", bufsize=_BLOCK) as tar:
            member = tar.next()
            if member is not None and member.isreg() and collector.admit(SUBMISSION, member.size):
                _keep(tar, member, SUBMISSION.split("/"), collector)
    except (_TooMuch, tarfile.TarError):
        collector.note(f"{SUBMISSION} (the archive is damaged)")


def _member(tar: tarfile.TarFile, member: tarfile.TarInfo, folder: str, collector: Collector) -> None:
    name = shown(member.name)
    first, *parts = member.name.rstrip("/").split("/")
    if first != folder or any(part in ("", ".", "..") or "\0" in part for part in parts):
        collector.note(f"{name} (not a path below the folder)")
    elif len(parts) > MAX_DEPTH:
        collector.note(f"{name[:200]}… (folders too deep)")
    elif member.isdir():
        if parts:
            collector.admit_folder(name)
    elif not member.isreg() or not parts:
        collector.note(f"{name} ({'link' if member.issym() or member.islnk() else 'not a regular file'})")
    elif collector.admit(name, member.size):
        _keep(tar, member, [first, *parts], collector)


def _keep(tar: tarfile.TarFile, member: tarfile.TarInfo, parts: Sequence[str], collector: Collector) -> None:
    source = tar.extractfile(member)
    assert source is not None
    try:
        collector.keep(parts, source, member.size)
    except OSError as error:
        collector.note(f"{shown(member.name)} ({error.strerror})")


def shown(name: str) -> str:
    """A name that the agent chose, safe to print and to store."""
    return name.encode("utf-8", "backslashreplace").decode()
