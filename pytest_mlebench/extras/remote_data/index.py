"""The layout of prepared data at a URL, and the index that lists its files.

========================================  ============================================================================
``<id>/prepared/public/…``                the files that agents see, unchanged
``<id>/prepared/private/…``               the answers: access to them can be restricted by this prefix
``<id>/prepared.public.jsonl.gz``         name, size and SHA-256 of each public file, sorted by name
``<id>/prepared.private.jsonl.gz``        the same for the private files
``<id>/prepared.json``                    the head: identifies the data by the digests of both lists; written last
``<id>/prepared.pushing.json``            identifies the data that is being pushed; removed after the head is written
========================================  ============================================================================

Data of a version that corrects the competition has ``prepared-v2`` in place of ``prepared``. An index is untrusted
input: names must stay inside the folder, and all sizes are limited.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass

from pytest_mlebench.catalog import Competition
from pytest_mlebench.data.dataset import SIDES
from pytest_mlebench.io.files import is_name
from pytest_mlebench.io.values import as_object, loads, parse

FORMAT = 1
HEAD_BYTES = 1 << 16
LIST_BYTES = 1 << 30
"""Maximum bytes of a compressed list."""
_MAX_LINE_BYTES = 1 << 14
_MAX_FILES = 20_000_000
_MAX_BYTES = 1 << 50
_SHA256 = re.compile(r"[0-9a-f]{64}")


class IndexDamaged(ValueError):
    """An invalid index; the text has the reason."""


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file: its path below ``public`` or ``private``, its size in bytes, and its SHA-256 in hexadecimal."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class IndexPart:
    """The head's entry for the public or the private part. ``sha256`` is the digest of its uncompressed list."""

    files: int
    bytes: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class IndexHead:
    """Identifies the data. ``description`` and ``verified`` are those of the data set that was pushed."""

    id: str
    version: str
    parts: Mapping[str, IndexPart]
    description: str | None = None
    verified: bool | None = None

    @property
    def size(self) -> int:
        return sum(part.bytes for part in self.parts.values())

    @property
    def digest(self) -> str:
        """A SHA-256 of the names and contents of all files."""
        return hashlib.sha256("".join(self.parts[side].sha256 for side in SIDES).encode()).hexdigest()

    def to_json(self) -> bytes:
        return (json.dumps({"format": FORMAT, **asdict(self), "sha256": self.digest}, indent=1) + "\n").encode()


class Layout:
    """The names of a competition's objects at a URL."""

    def __init__(self, competition: Competition) -> None:
        suffix = f"-{competition.version}" if competition.is_corrected else ""
        self.folder = f"{competition.id}/prepared{suffix}"
        self.head = f"{self.folder}.json"
        self.pushing = f"{self.folder}.pushing.json"

    def list_of(self, side: str) -> str:
        return f"{self.folder}.{side}.jsonl.gz"

    def file(self, side: str, entry: ListedFile) -> str:
        return f"{self.folder}/{side}/{entry.name}"


def parse_head(text: bytes, competition: Competition) -> IndexHead:
    """Parse the head of a competition's data. Raises IndexDamaged."""
    try:
        values = as_object(loads(text))
        head = parse(IndexHead, values) if values.get("format") == FORMAT else None
    except ValueError as error:
        raise IndexDamaged("it is not an index of prepared data") from error
    if head is None:
        raise IndexDamaged("its format is unknown, perhaps from a later version of pytest-mlebench")
    if head.parts.keys() != {*SIDES}:
        raise IndexDamaged("it is not an index of prepared data")
    for part in head.parts.values():
        if not (0 <= part.files <= _MAX_FILES and 0 <= part.bytes <= _MAX_BYTES):
            raise IndexDamaged("its number of files or bytes is out of bounds")
        if not _SHA256.fullmatch(part.sha256):
            raise IndexDamaged("a digest is not a SHA-256")
    if (head.id, head.version) != (competition.id, competition.version):
        raise IndexDamaged(f"it belongs to {head.id[:100]} {head.version[:20]}")
    if values.get("sha256") != head.digest:
        raise IndexDamaged("its digest is wrong")
    return head


def write_list(entries: Iterable[ListedFile]) -> tuple[bytes, IndexPart]:
    """Return a part's compressed list, and its entry in the head."""
    digest, files, size = hashlib.sha256(), 0, 0
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=6, mtime=0) as packed:
        for entry in entries:
            line = json.dumps([entry.name, entry.size, entry.sha256]).encode() + b"\n"
            digest.update(line)
            packed.write(line)
            files, size = files + 1, size + entry.size
    return buffer.getvalue(), IndexPart(files=files, bytes=size, sha256=digest.hexdigest())


def read_list(packed: bytes, part: IndexPart) -> list[ListedFile]:
    """Parse a part's list. Raises IndexDamaged unless all its files can be written below a folder."""
    entries: list[ListedFile] = []
    prefixes: list[str] = []  # earlier names with which this one begins
    digest, total = hashlib.sha256(), 0
    for line in _lines(packed, part):
        digest.update(line)
        entry = _entry(line)
        if entries and entry.name <= entries[-1].name:
            raise IndexDamaged("its names are not sorted, or one is a duplicate")
        while prefixes and not entry.name.startswith(prefixes[-1]):
            prefixes.pop()
        if any(entry.name[len(prefix)] == "/" for prefix in prefixes):
            raise IndexDamaged(f"{entry.name[:200]!r} is in a folder with the name of a file")
        prefixes.append(entry.name)
        entries.append(entry)
        total += entry.size
        if len(entries) > part.files or total > part.bytes:
            raise IndexDamaged("it has more files or bytes than the head lists")
    if (len(entries), total, digest.hexdigest()) != (part.files, part.bytes, part.sha256):
        raise IndexDamaged("it does not match the head")
    return entries


def _lines(packed: bytes, part: IndexPart) -> Iterator[bytes]:
    bytes_left = part.files * _MAX_LINE_BYTES
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as unpacked:
            while line := unpacked.readline(_MAX_LINE_BYTES + 1):
                bytes_left -= len(line)
                if len(line) > _MAX_LINE_BYTES or not line.endswith(b"\n") or bytes_left < 0:
                    raise IndexDamaged("a line is too long, or there are too many")
                yield line
    except (OSError, EOFError, zlib.error) as error:
        raise IndexDamaged("it cannot be unpacked") from error


def _entry(line: bytes) -> ListedFile:
    try:
        name, size, sha256 = loads(line)
    except (ValueError, TypeError) as error:
        raise IndexDamaged("a line lacks a name, size or digest") from error
    if not isinstance(name, str) or not is_inside(name):
        raise IndexDamaged(f"{str(name)[:200]!r} is not the name of a file in the folder")
    if type(size) is not int or not 0 <= size <= _MAX_BYTES:
        raise IndexDamaged(f"the size of {name[:200]!r} is out of bounds")
    if not isinstance(sha256, str) or not _SHA256.fullmatch(sha256):
        raise IndexDamaged(f"the digest of {name[:200]!r} is not a SHA-256")
    return ListedFile(name, size, sha256)


def is_inside(name: str) -> bool:
    """Whether a relative path stays inside its folder, and is possible for a file."""
    parts = name.split("/")
    try:
        lengths = [len(part.encode()) for part in parts]
    except UnicodeEncodeError:
        return False
    return all(map(is_name, parts)) and max(lengths) <= 255 and sum(lengths) <= 2000
