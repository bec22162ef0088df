"""Keeps secrets out of records: everything that an agent can influence passes through here before it is recorded.

Also writes the agent's output to ``run.log``: bounded, without secrets, readable while the agent runs.
"""

from __future__ import annotations

import base64
import bz2
import io
import json
import lzma
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote, quote_plus, unquote

from pytest_mlebench.agents.registry import MIN_SECRET
from pytest_mlebench.io.files import open_regular
from pytest_mlebench.io.units import pluralize
from pytest_mlebench.records.outcome import Connection, Validation

MASK = "***"
_SECRET_NAME = re.compile(
    r"KEY|TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|AUTH(?!ORS?(_|$))|COOKIE|SESSION|PRIVATE|SIGNATURE|DSN|WEBHOOK|(^|_)PAT($|_)",
    re.IGNORECASE,
)
_HARMLESS_NAME = re.compile(
    r"PATH|PWD|OLDPWD|HOME|HOSTNAME|USER|LOGNAME|SHELL|TERM|LANG|LANGUAGE|TZ|_|SHLVL|(LC|XDG|DBUS|PYTEST|PYTHON)_(?!.*(KEY|TOKEN|SECRET|PASSW)).*"
    r"|PYTHON[A-Z]*|.*_(PATH|DIR|HOME|SHA|SOCK|FILE)|VIRTUAL_ENV|CI|GITHUB_(SHA|REF|RUN_ID|REPOSITORY|WORKFLOW).*"
)
_LOOKS_RANDOM = re.compile(r"(?=.*[A-Za-z])(?=.*[0-9])[A-Za-z0-9_+=.~-]{16,}")
_LOGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/:@\s]*:([^/\s]+)@")
_BLOCK = 1 << 20
_MAX_VERDICT, _MAX_HOST, _MAX_METHOD, _MAX_REASON = 1000, 255, 20, 500
_INPUT = 1 << 16
_MAX_DIRECTORY = 8 << 20
"""Maximum bytes of a zip archive's list of members."""
_MEMORY = 128 << 20
"""Maximum memory to decompress LZMA data; level 9 of xz needs 65 MiB."""
_MEMBER = 4096
"""What a search's budget is charged for each member and stream of an archive, in addition to its bytes."""
_PACKED: dict[bytes, Callable[[], Any]] = {
    b"\x1f\x8b": partial(zlib.decompressobj, 16 + zlib.MAX_WBITS),
    b"BZh": bz2.BZ2Decompressor,
    b"\xfd7zXZ\0": partial(lzma.LZMADecompressor, memlimit=_MEMORY),
}
_METHODS: dict[int, Callable[[], Any]] = {
    zipfile.ZIP_DEFLATED: partial(zlib.decompressobj, -zlib.MAX_WBITS),
    zipfile.ZIP_BZIP2: bz2.BZ2Decompressor,
    zipfile.ZIP_LZMA: partial(lzma.LZMADecompressor, lzma.FORMAT_ALONE, memlimit=_MEMORY),
}


def bounded(text: str, length: int) -> str:
    """Truncate a text to ``length`` characters, and make it safe to store and print as UTF-8."""
    text = text[: length + 1].encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= length else text[: length - 1] + "…"


class Redactor:
    """Masks secrets, in plain text and in encodings that a program might use by accident or on purpose.

    These are base64 (both alphabets, at any offset), hexadecimal, URL encoding, JSON, UTF-16 and reversed. Overlapping
    secrets are masked together. Values shorter than ``MIN_SECRET`` are ignored: they would match by chance. An archive
    is searched up to ``unpacked_bytes`` and ``members``, and all archives together up to ``total_bytes``.
    """

    def __init__(
        self,
        secrets: Iterable[str] = (),
        *,
        unpacked_bytes: int = 256 << 20,
        members: int = 10_000,
        total_bytes: int = 4 << 30,
    ) -> None:
        self._bounds = unpacked_bytes, members
        self._budget = _Budget(total_bytes)
        long = sorted({secret for secret in secrets if len(secret) >= MIN_SECRET})
        self._needles = sorted({form for secret in long for form in _forms(secret)})
        self.overlap = max((len(needle) for needle in self._needles), default=1) - 1
        """How many bytes at the end of a block may be the start of a secret that continues in the next."""

    def spans(self, data: bytes | bytearray) -> list[tuple[int, int]]:
        """Return the positions of secrets, in order. Overlapping ones are joined."""
        found = []
        for needle in self._needles:
            at = data.find(needle)
            while at >= 0:
                found.append((at, at + len(needle)))
                at = data.find(needle, at + 1)
        joined: list[tuple[int, int]] = []
        for start, end in sorted(found):
            if joined and start < joined[-1][1]:
                joined[-1] = joined[-1][0], max(end, joined[-1][1])
            else:
                joined.append((start, end))
        return joined

    def bytes(self, data: bytes) -> bytes:
        parts, last = [], 0
        for start, end in self.spans(data):
            parts += [data[last:start], MASK.encode()]
            last = end
        return b"".join([*parts, data[last:]]) if last else data

    def text(self, text: str, length: int | None = None) -> str:
        """Return the text with secrets masked, truncated to ``length`` characters."""
        masked = self.bytes(text.encode("utf-8", "backslashreplace")).decode("utf-8", "replace")
        return masked if length is None else bounded(masked, length)

    def file(self, path: Path) -> bool:
        """Mask a file in place, whatever its size. Returns False for an archive with a secret: it must be removed."""
        with path.open("r+b") as file:
            return self.open_file(file)

    def open_file(self, file: IO[Any]) -> bool:
        """Mask a file that is open for reading and writing. Returns False for an archive with a secret."""
        if not self._needles:
            return True
        start = 0
        while block := _read_at(file, start, _BLOCK + self.overlap):
            for first, end in self.spans(block):
                file.seek(start + first)
                file.write(b"*" * (end - first))  # of the same length, so that nothing else moves
            start += _BLOCK
        return not any(self.spans(block) for block in _unpacked(file, self.overlap, self._budget, *self._bounds))

    @property
    def notes(self) -> tuple[str, ...]:
        """A note for a run's record if the search of archives that were kept did not reach their end."""
        if not (count := self._budget.unfinished):
            return ()
        return (f"{pluralize(count, 'archive')} not searched to the end for secrets: large, damaged or encrypted",)


def environment_secrets(environment: Mapping[str, str] = os.environ) -> set[str]:
    """Return values of variables that may be secrets: by name, by appearance, or as a password in a URL.

    An agent in the local sandbox can read them even if it does not request them.
    """
    passwords = {password for value in environment.values() for password in _LOGIN.findall(value)}
    found = passwords | set(map(unquote, passwords))
    for name, value in environment.items():
        if has_secret_name(name) or (_LOOKS_RANDOM.fullmatch(value) and not _HARMLESS_NAME.fullmatch(name)):
            found |= {value, *value.splitlines()}
    return found


def has_secret_name(name: str) -> bool:
    """Return whether a variable of this name may be a secret, whatever its value."""
    return _SECRET_NAME.search(name) is not None and _HARMLESS_NAME.fullmatch(name) is None


def validations(history: Iterable[tuple[float, str]], redactor: Redactor) -> tuple[Validation, ...]:
    """Return the submission checker's verdicts for a record, masked because they quote the agent's file."""
    return tuple(Validation(at=round(at, 3), verdict=redactor.text(verdict, _MAX_VERDICT)) for at, verdict in history)


def connections(made: Iterable[Connection], redactor: Redactor) -> tuple[Connection, ...]:
    """Return the proxy's connections for a record, masked because the agent wrote the hosts and reasons."""
    return tuple(
        replace(
            connection,
            host=redactor.text(connection.host, _MAX_HOST),
            method=redactor.text(connection.method, _MAX_METHOD),
            reason=redactor.text(connection.reason, _MAX_REASON),
        )
        for connection in made
    )


def _read_at(file: IO[Any], position: int, size: int) -> Any:
    file.seek(position)
    return file.read(size)


def _forms(secret: str) -> Iterator[bytes]:
    plain = secret.encode("utf-8", "surrogateescape")  # environment variables may have any bytes
    for value in (plain, plain[::-1]):
        yield value
        yield value.hex().encode()
        yield value.hex().upper().encode()
        for shift in range(3):  # what a secret looks like in base64 depends on where it begins
            encoded = base64.b64encode(bytes(shift) + value)
            first = (shift * 8 + 5) // 6
            core = encoded[first : (shift + len(value)) * 8 // 6]
            yield core
            yield core.translate(bytes.maketrans(b"+/", b"-_"))
    yield secret.encode("utf-16-le", "surrogatepass")
    yield secret.encode("utf-16-be", "surrogatepass")
    for safe in ("", "/"):
        yield quote(plain, safe=safe).encode()
        yield quote_plus(plain, safe=safe).encode()
    spelled = {secret}
    for _ in range(2):  # in JSON, and in JSON within JSON, such as a tool's arguments
        spelled |= {json.dumps(text, ensure_ascii=ascii)[1:-1] for text in spelled for ascii in (True, False)}
    yield from (text.encode("utf-8", "surrogateescape") for text in spelled)


@dataclass
class _Budget:
    """What the search of archives may still read and unpack, and how many archives it did not search to the end."""

    left: int
    unfinished: int = 0

    def take(self, size: int) -> None:
        """Charge bytes, or a member. Raises ValueError if nothing is left."""
        if self.left <= 0:
            raise ValueError("the archives are too large to be searched")
        self.left -= size


def _unpacked(file: IO[Any], overlap: int, budget: _Budget, left: int, members: int) -> Iterator[bytes]:
    """Yield the contents of a compressed file or a zip archive's members, in overlapping blocks, up to the limits."""
    try:
        magic = _read_at(file, 0, 6)
        file.seek(0)
        source = _Source(file, 2 * left, budget)
        new = next((new for prefix, new in _PACKED.items() if magic.startswith(prefix)), None)
        if new is not None:
            yield from _blocks(_decompressed(source, new, members, budget), left, overlap)
        elif magic[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
            with zipfile.ZipFile(source) as archive:
                for number, member in enumerate(archive.infolist()):
                    if number >= members:
                        raise ValueError("the archive has too many members to be searched")
                    budget.take(_MEMBER)
                    yield member.filename.encode("utf-8", "replace")
                    with archive.open(_as_stored(member)) as stream:
                        for block in _blocks(_content(stream, member.compress_type, budget), left, overlap):
                            left -= len(block)
                            yield block
    except (OSError, EOFError, ValueError, RuntimeError, MemoryError, zlib.error, lzma.LZMAError, zipfile.BadZipFile):
        budget.unfinished += 1  # damaged, encrypted or huge: a secret in it is not read by accident


class _Source(io.RawIOBase):
    """A file that ends the search once ``left`` bytes are read, or if ``zipfile`` asks for a huge directory at once."""

    def __init__(self, file: IO[Any], left: int, budget: _Budget) -> None:
        self._file, self._left, self._budget = file, left, budget

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def read(self, size: int = -1, /) -> bytes:
        if size > _MAX_DIRECTORY or self._left <= 0:
            raise ValueError("the archive is too large to be searched")
        data: bytes = self._file.read(size if size >= 0 else _MAX_DIRECTORY)
        self._left -= len(data)
        self._budget.take(len(data))
        return data


def _as_stored(member: zipfile.ZipInfo) -> zipfile.ZipInfo:
    """A description of a member that yields its compressed bytes: ``zipfile`` decompresses some without a bound."""
    stored = copy(member)
    stored.compress_type, stored.file_size = zipfile.ZIP_STORED, member.compress_size
    del stored.CRC
    return stored


def _content(stream: IO[bytes], method: int, budget: _Budget) -> Iterator[bytes]:
    """Yield a member's content in blocks, from its compressed bytes; nothing if it is not compressed.

    Raises ValueError if its compression is unknown.
    """
    start = b""
    if method == zipfile.ZIP_LZMA:  # it begins with a version and the size of the properties
        properties = stream.read(int.from_bytes(stream.read(4)[2:], "little"))
        start = properties + b"\xff" * 8  # an unknown size
    if method in _METHODS:
        yield from _decompressed(stream, _METHODS[method], 1, budget, start)
    elif method != zipfile.ZIP_STORED:
        raise ValueError("a member is compressed by an unknown method")


def _decompressed(
    source: IO[bytes] | _Source, new: Callable[[], Any], streams: int, budget: _Budget, data: bytes = b""
) -> Iterator[bytes]:
    """Decompress consecutive streams, a block at a time. Raises ValueError if there are more."""
    for _ in range(streams):
        budget.take(_MEMBER)
        decompressor = new()
        while not decompressor.eof:
            if not data and getattr(decompressor, "needs_input", True):
                data = source.read(_INPUT)
            block = decompressor.decompress(data, _BLOCK)
            if not data and not block:
                return
            budget.take(len(block))
            yield block
            data = getattr(decompressor, "unconsumed_tail", b"")
        data = decompressor.unused_data
    if data or source.read(1):
        raise ValueError("there are too many streams to be searched")


def _blocks(contents: Iterator[bytes], limit: int, overlap: int) -> Iterator[bytes]:
    """Join each block with the end of the one before. Raises ValueError if there is more than ``limit`` bytes."""
    last = b""
    for block in contents:
        if limit <= 0 and block:
            raise ValueError("the archive is too large to be searched")
        limit -= len(block)
        yield (last := last + block)
        last = last[-overlap:] if overlap else b""


_HEAD_SHARE = 4
_MAX_SPAN = 1 << 20
"""Longest span of overlapping secrets to wait for: a secret could repeat endlessly."""
TAIL_SUFFIX = ".tail"
"""Suffix of the file with a log's end, while the log is written and too large to be kept whole."""


class LogWriter:
    """Appends bytes to a file until it is full, then keeps the newest in a second file; ``close`` joins the two.

    A quarter of ``max_bytes`` is for the head of the output, the rest for its tail. Secrets are masked, even if they
    are split between two writes.
    """

    def __init__(self, path: Path, max_bytes: int, redactor: Redactor | None = None) -> None:
        self._path = path
        self._tail_path = path.with_name(path.name + TAIL_SUFFIX)
        self._head_left = max(1, max_bytes // _HEAD_SHARE)
        self._tail_bytes = max(1, max_bytes - self._head_left)
        self._redactor = redactor or Redactor()
        self._pending = b""
        self._head = path.open("wb", buffering=0)
        self._tail = bytearray()
        self._dropped = 0
        self._unwritten = 0

    def write(self, data: bytes) -> None:
        self._pending += data
        ready = len(self._pending) - self._redactor.overlap
        for start, end in self._redactor.spans(self._pending):
            if start < ready < end:  # it may continue in the next block
                ready = start
                if end - start > _MAX_SPAN:
                    self._store(self._redactor.bytes(self._pending[:end]))
                    self._pending, ready = self._pending[end:], 0
                break
        if ready > 0:
            self._store(self._redactor.bytes(self._pending[:ready]))
            self._pending = self._pending[ready:]

    def close(self) -> None:
        """Write the rest, which completes the file. Can be called again."""
        if self._head.closed:
            return
        self._store(self._redactor.bytes(self._pending))
        self._pending = b""
        self._trim()
        if self._dropped:
            self._head.write(b"\n[... %d bytes left out ...]\n" % self._dropped)
        self._head.write(bytes(self._tail))
        self._head.close()
        self._tail_path.unlink(missing_ok=True)

    def _store(self, data: bytes) -> None:
        now, later = data[: self._head_left], data[self._head_left :]
        if now:
            self._head.write(now)
            self._head_left -= len(now)
        if later:
            self._tail += later
            self._unwritten += len(later)
            if len(self._tail) > 2 * self._tail_bytes:
                self._trim()
            if self._unwritten >= min(self._tail_bytes, 1 << 20):  # to show progress without writing each line
                self._show_tail()

    def _show_tail(self) -> None:
        self._unwritten = 0
        new = self._tail_path.with_suffix(".new")
        new.write_bytes(self._tail[-self._tail_bytes :])
        new.replace(self._tail_path)

    def _trim(self) -> None:
        excess = len(self._tail) - self._tail_bytes
        if excess > 0:
            del self._tail[:excess]
            self._dropped += excess


def tail(path: Path, lines: int = 30, max_bytes: int = 1 << 14) -> str:
    """Return the last lines of a log, for a message; empty if there is no log, or a link in its place."""
    try:
        with open_regular(path, follow_links=False) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - max_bytes))
            text = file.read().decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""
    return "\n".join(text.splitlines()[-lines:])
