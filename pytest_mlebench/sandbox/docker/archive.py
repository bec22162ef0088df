"""Taking out of a container what an agent left: the engine's tar stream, read as if an enemy had written it."""

from __future__ import annotations

import errno
import io
import shutil
import tarfile
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from pytest_mlebench.errors import SandboxError
from pytest_mlebench.sandbox.collection import MAX_DEPTH, Collector

_BLOCK = 1 << 20
_SKIP = 4 << 30
"""So many bytes are read over, for what comes after a file that is too large."""

_MORE_ENTRIES = 1000
"""So many entries are looked at beyond the files and folders that are admitted: links and the like."""


class DiskFull(SandboxError):
    """This machine's disk, not the agent's, is full."""


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


def collect_archive(chunks: Iterator[bytes], target: Path, collector: Collector) -> None:
    """Write the regular files and folders of a tar stream below ``target``; the collector notes what is left out.

    The stream's first folder has the name of ``target`` and becomes it. Nothing is written outside it, whatever other
    names there are.
    """
    target.mkdir(parents=True, exist_ok=True)
    if not (begin := next(chunks, b"")):
        collector.note(f"{target.name} (no folder)")
        return
    stream = _Stream(chain([begin], chunks), collector.max_bytes + collector.max_files * 2048 + _SKIP)
    last = target.name
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
                _member(tar, member, target, collector)
    except _TooMuch:
        collector.note(f"all after {shown(last)} (more data than is read)")
    except tarfile.TarError as error:
        collector.note(f"all after {shown(last)} (the archive is damaged: {error})")


def collect_file(chunks: Iterator[bytes], target: Path, collector: Collector) -> None:
    """Write the one regular file of a tar stream to ``target``; anything else is left."""
    if not (begin := next(chunks, b"")):
        return
    try:
        with tarfile.open(fileobj=_Stream(chain([begin], chunks), _SKIP), mode="r|", bufsize=_BLOCK) as tar:
            member = tar.next()
            if member is not None and member.isreg() and collector.admit(target.name, member.size):
                source = tar.extractfile(member)
                assert source is not None
                with target.open("xb") as file:
                    shutil.copyfileobj(source, file, _BLOCK)
                collector.mask(target, target.name)
    except (_TooMuch, tarfile.TarError):
        target.unlink(missing_ok=True)
        collector.note(f"{target.name} (the archive is damaged)")


def _member(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path, collector: Collector) -> None:
    name = shown(member.name)
    first, *parts = member.name.rstrip("/").split("/")
    if first != target.name or any(part in ("", ".", "..") or "\0" in part for part in parts):
        collector.note(f"{name} (not a path below the folder)")
        return
    if len(parts) > MAX_DEPTH:
        collector.note(f"{name[:200]}… (folders too deep)")
        return
    path = target.joinpath(*map(collector.name, parts))
    try:
        if member.isdir():
            if parts and collector.admit_folder(name):
                path.mkdir(parents=True, exist_ok=True)
        elif not member.isreg() or not parts:
            collector.note(f"{name} ({'link' if member.issym() or member.islnk() else 'not a regular file'})")
        elif collector.admit(name, member.size):
            path.parent.mkdir(parents=True, exist_ok=True)
            source = tar.extractfile(member)
            assert source is not None
            with path.open("xb") as file:
                shutil.copyfileobj(source, file, _BLOCK)
            collector.mask(path, name)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise DiskFull(f"{target}: no space left on this machine for what the agent left") from error
        collector.note(f"{name} ({error.strerror})")


def shown(name: str) -> str:
    """A name that the agent chose, safe to print and to store."""
    return name.encode("utf-8", "backslashreplace").decode()
