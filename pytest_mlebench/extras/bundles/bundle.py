"""A bundle: a run group packed into one file, so that others can verify it.

It is a tar archive compressed with Zstandard. It contains ``index.json``, optionally ``index.json.sig`` (an SSH
signature of the index), and then each distinct file content once, as ``blobs/<SHA-256>``. The index maps paths to
contents, and lists what was left out. Its own SHA-256 is the bundle's digest, which thus covers every byte.

Bundles are untrusted input. Only regular members in this order are accepted, each with the size and digest in the
index, and only up to a total size. Paths come from the index alone. They are relative, and are written as new files in
a new folder.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pytest_mlebench._version import __version__
from pytest_mlebench.errors import DataError, UsageError, reason
from pytest_mlebench.io.compression import CompressionParameter, DecompressionParameter, ZstdError, ZstdFile
from pytest_mlebench.io.files import digest_of
from pytest_mlebench.io.units import first, format_size
from pytest_mlebench.io.values import json_decoder, json_text, loads, parse
from pytest_mlebench.llm.ledger import BODIES, CALLS
from pytest_mlebench.llm.ledger import FOLDER as LLM
from pytest_mlebench.llm.trajectory import TRAJECTORY
from pytest_mlebench.records import record
from pytest_mlebench.results.findings import FINDINGS, PAIRS, PAIRS_PAGE
from pytest_mlebench.runs.files import FilesError, check_files, copy_files
from pytest_mlebench.runs.guard import CONFTEST, protect
from pytest_mlebench.sandbox.collection import FOLDER as SNAPSHOTS

FORMAT = "pytest-mlebench bundle"
VERSION = 1
MADE_BY = f"pytest-mlebench {__version__}"
SUFFIX = ".tar.zst"
INDEX, SIGNATURE, BLOBS = "index.json", "index.json.sig", "blobs/"
TABLES = "tables.json"
"""File that is added to those of the group: the tables and statistics that its maker saw."""
MISSING_RUNS = "planned runs without a record"
ODD_NAMES = "files with names that other systems do not bear"
OTHER_FILES = "other files"
REPRODUCED, REPRODUCED_LOG = "reproduced.json", "reproduced.log"
"""In a run directory: the result of ``mlebench reproduce``, and the output of a program that did not run."""
MAX_INDEX_BYTES = 64 << 20
MAX_FILES = 200_000
MAX_BYTES = 256 << 30
"""Default maximum size of an unpacked bundle."""
_MAX_SIZES = {record.RUNNING: 1 << 20, REPRODUCED: 1 << 20, record.RECORD: 16 << 20}
_MAX_JSON_BYTES, _MAX_BRACKETS = 64 << 20, 4_000_000
"""Maximum size of a JSON file, and number of its objects and lists: parsed, each takes up to 90 bytes of memory."""
_MAX_BRACKETS_OF_FILE = 5
"""Maximum brackets of the index for each file that it may list. Those in the names of files count too."""
_FOLDER_BYTES = 4096
"""What a folder counts for the maximum size."""
_MAX_PATH, _MAX_NAME, _MAX_DEPTH = 2048, 255, 60
_WINDOW_LOG = 27
"""Base-2 logarithm of the bytes of memory that decompressing a bundle may use."""
_CHUNK = 1 << 20
_LEVEL = 6
_MAX_PADDING = 1 << 20
_SHOWN = 10
JUDGE = "judge"
"""Folder of a run group with the votes of an audit's judge."""
_IN_GROUP = (record.MANIFEST, record.METADATA, record.EVENTS, FINDINGS, TABLES)
_PREFIXES = ("grading_report", "regraded-", "familiarity-")
_VOTES = "votes.jsonl"
_IN_JUDGE = (_VOTES, CALLS, BODIES)
_IN_RUN = (
    *(record.RECORD, record.RUNNING, record.RUN_LOG, record.SUBMISSION, record.FILES),
    *(TRAJECTORY, CALLS, BODIES, REPRODUCED, REPRODUCED_LOG),
)
_SNAPSHOT = re.compile(rf"{SNAPSHOTS}/[0-9]{{4,9}}\.csv")
_FOLDERS = {"submission": "submissions", SNAPSHOTS: "snapshots", LLM: "ledgers", "code": "code", "logs": "logs"}
"""Kind of the files in each folder of a run."""
_FILES = {TRAJECTORY: "trajectories", BODIES: "recordings"} | dict.fromkeys(
    (record.RUN_LOG, REPRODUCED, REPRODUCED_LOG), "logs"
)
"""Kind of other files of a run. Files without a kind are in every bundle."""
_IN_FILES = {_FOLDERS[name] for name in record.COLLECTED}
"""Kinds of the files in the archive of a run."""
_NEVER = (record.LOCK, record.WORKERS, record.REPORT, record.JOBS, PAIRS, PAIRS_PAGE, CONFTEST, "__pycache__")
"""Files and folders that matter only to the maker, are generated from the rest, or have other people's notebooks."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        duplicate = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"it has the duplicate key {duplicate[:100]!r}")
    return values


UNIQUE_KEYS = json_decoder(object_pairs_hook=_unique)
"""JSON decoder that rejects duplicate keys, since other programs may use another of their values."""

KINDS: Mapping[str, str] = {
    "submissions": "the files in submission/",
    "snapshots": "copies of the submissions during the runs",
    "ledgers": "the lists of model calls, without their content",
    "recordings": "the content of model calls",
    "trajectories": "the steps of each run",
    "code": "the code that agents left",
    "logs": "the logs and output of agents",
}
"""Kinds of files that a bundle can leave out."""


@dataclass(frozen=True, kw_only=True)
class BundledFile:
    """One file: its path in the group's folder, its size in bytes, and the SHA-256 of its content."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """Files that a bundle does not contain: how many, their bytes, and why."""

    what: str
    files: int
    size: int
    why: str


@dataclass(frozen=True, kw_only=True)
class BundleIndex:
    """The index of a bundle."""

    format: str
    version: int
    made_by: str
    made_at: str
    run_group: str
    files: tuple[BundledFile, ...]
    left_out: tuple[LeftOut, ...] = ()

    @property
    def size(self) -> int:
        """Total bytes of all files."""
        return sum(entry.size for entry in self.files)


@dataclass(frozen=True)
class Bundle:
    """A bundle that was unpacked into ``folder``. ``digest`` is the SHA-256 of ``content``."""

    index: BundleIndex
    digest: str
    content: bytes
    """The bytes of the index, as it was signed."""
    signature: bytes | None
    folder: Path

    def lacks(self, kind: str) -> bool:
        """Return whether files of a kind were left out by choice."""
        return any(entry.what == kind for entry in self.index.left_out)


def kind_of(path: str) -> str:
    """Return the kind (see ``KINDS``) of a group's file; empty for files that every bundle contains."""
    inside = path.partition("/")[2]
    return _FILES.get(inside) or _FOLDERS.get(inside.partition("/")[0], "")


def write_bundle(
    group_dir: Path,
    target: Path,
    *,
    leave_out: Collection[str] = (),
    extra: Mapping[str, bytes] | None = None,
    missing_runs: int = 0,
    key: Path | None = None,
    check: Callable[[Bundle], Sequence[str]] = lambda bundle: (),
) -> Bundle:
    """Pack a group's folder into the file ``target``, completely or not at all.

    ``leave_out`` names kinds of files (see ``KINDS``), ``extra`` has files that are not in the folder. ``missing_runs``
    is the number of planned runs without a record, for the index. ``key`` is an SSH key that signs the index. ``check``
    returns reasons not to pack the group. Raises UsageError or OSError.
    """
    if target.exists() and not target.is_file():  # renaming a file to it would replace a device such as /dev/null
        raise UsageError(f"{target} cannot be written: it exists, and is not a file")
    with TemporaryDirectory(prefix="mlebench-bundle-") as scratch:
        found, omitted = _survey(group_dir, frozenset(leave_out), frozenset(extra or ()), Path(scratch))
        if missing_runs:
            omitted += (LeftOut(what=MISSING_RUNS, files=missing_runs, size=0, why="they have not ended"),)
        for name, content in sorted((extra or {}).items()):
            found.append((name, Path(scratch, f"extra-{len(found)}")))
            found[-1][1].write_bytes(content)
        return _write(group_dir, target, found, omitted, key, check)


def _write(
    group_dir: Path,
    target: Path,
    found: Sequence[tuple[str, Path]],
    omitted: tuple[LeftOut, ...],
    key: Path | None,
    check: Callable[[Bundle], Sequence[str]],
) -> Bundle:
    files = tuple(
        BundledFile(path=name, size=source.stat().st_size, sha256=digest_of(source)) for name, source in found
    )
    index = BundleIndex(
        format=FORMAT,
        version=VERSION,
        made_by=MADE_BY,
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        run_group=group_dir.resolve().name,
        files=files,
        left_out=omitted,
    )
    content = json_text(asdict(index)).encode()
    if len(content) > MAX_INDEX_BYTES:
        raise UsageError(f"{group_dir} has too many files for a bundle: {len(files)}")
    try:
        _check_index(index, max_bytes=sys.maxsize)
    except ValueError as error:
        raise UsageError(f"{group_dir} was not packed: {error}") from error
    signature = None if key is None else sign(content, key)
    bundle = Bundle(index, hashlib.sha256(content).hexdigest(), content, signature, group_dir)
    partial = target.with_name(f".{target.name}.part")
    options: dict[int, int] = {
        CompressionParameter.compression_level: _LEVEL,
        CompressionParameter.nb_workers: os.cpu_count() or 1,
    }
    try:
        partial.open("wb").close()  # fails early if the target cannot be written
        if objections := check(bundle):
            shown = "\n  ".join(first(objections, _SHOWN))
            raise UsageError(f"{group_dir} was not packed, since `mlebench verify` would reject the bundle:\n  {shown}")
        with partial.open("wb") as file, ZstdFile(file, "w", options=options) as out:
            _add(out, INDEX, [content], len(content))
            if signature is not None:
                _add(out, SIGNATURE, [signature], len(signature))
            written = set()
            for entry, (_, source) in zip(files, found, strict=True):
                if entry.sha256 not in written:
                    written.add(entry.sha256)
                    if _add(out, BLOBS + entry.sha256, _chunks(source), entry.size) != entry.sha256:
                        raise UsageError(f"{source} changed while it was packed: {_WAIT}")
            out.write(bytes(2 * tarfile.BLOCKSIZE))
        partial.replace(target)
    except OSError as error:
        raise UsageError(f"{target} cannot be written: {reason(error)}") from error
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
    return bundle


def _survey(
    group_dir: Path, leave_out: frozenset[str], reserved: frozenset[str], scratch: Path
) -> tuple[list[tuple[str, Path]], tuple[LeftOut, ...]]:
    """Return the files to pack, by path, and those that are left out."""
    kept: list[tuple[str, Path]] = []
    omitted: dict[tuple[str, str], list[int]] = {}
    for folder, folders, names in os.walk(group_dir, onerror=_refuse):
        folders.sort()
        for name in sorted(names) + [name for name in folders if (Path(folder) / name).is_symlink()]:
            path = Path(folder) / name
            inside = path.relative_to(group_dir).as_posix()
            status = path.lstat()
            kind = kind_of(inside)
            if inside.partition("/")[0] in _NEVER:
                continue
            if not stat.S_ISREG(status.st_mode):
                why = ("links and special files", "they are not regular files")
            elif kind in leave_out:
                why = (kind, "by --leave-out")
            elif not _is_safe(inside) or inside in reserved:
                why = (ODD_NAMES, "their names are not plain text")
            elif not is_known(inside):
                why = (OTHER_FILES, "no session or command writes files of this name")
            elif status.st_size > _MAX_BRACKETS and _is_parsed(inside) and _has_many_brackets(path):
                if kind != "trajectories":
                    raise UsageError(f"{path} cannot be packed: it has more than {_MAX_BRACKETS:,} objects and lists")
                why = (kind, f"more than {_MAX_BRACKETS:,} objects and lists")
            elif inside.split("/")[1:] == [record.FILES] and leave_out & _IN_FILES:
                archive = _without(path.parent, leave_out, scratch / str(len(kept)), omitted)
                kept += [] if archive is None else [(inside, archive)]
                continue
            else:
                kept.append((inside, path))
                continue
            omitted.setdefault(why, []).append(status.st_size)
    left_out = [LeftOut(what=what, files=len(own), size=sum(own), why=why) for (what, why), own in omitted.items()]
    return kept, tuple(left_out)


def _is_parsed(path: str) -> bool:
    """Return whether this is a file of JSON whose objects and lists are limited."""
    is_json = path.endswith(".json") and not _is_unpacked(path)
    return path == f"{JUDGE}/{_VOTES}" or (is_json and is_known(path))


def _brackets(content: bytes) -> int:
    return content.count(b"[") + content.count(b"{")


def _has_many_brackets(path: Path) -> bool:
    return sum(map(_brackets, _chunks(path))) > _MAX_BRACKETS


def _refuse(error: OSError) -> None:
    raise UsageError(f"{error.filename} cannot be packed: {reason(error)}") from error


def _without(
    run_dir: Path, leave_out: frozenset[str], folder: Path, omitted: dict[tuple[str, str], list[int]]
) -> Path | None:
    """Write a run's archive without some kinds of files, and add these to ``omitted``; None if no file is left.

    Raises DataError.
    """
    kept = [name for name in record.COLLECTED if _FOLDERS[name] not in leave_out]
    for file in copy_files(run_dir, folder, kept):
        kind = _FOLDERS[file.path.partition("/")[0]]
        omitted.setdefault((kind, "by --leave-out"), []).append(file.size)
    archive = folder / record.FILES
    return archive if archive.exists() else None


_WAIT = "wait until the group's sessions have ended"


def _chunks(source: Path) -> Iterator[bytes]:
    try:
        with source.open("rb") as file:
            while chunk := file.read(_CHUNK):
                yield chunk
    except OSError as error:
        raise UsageError(f"{source} cannot be read: {reason(error)}") from error


def _add(out: Any, name: str, chunks: Iterable[bytes], size: int) -> str:
    """Write the first ``size`` bytes of ``chunks`` as a member. Returns their SHA-256."""
    header = tarfile.TarInfo(name)
    header.size, header.mode = size, 0o644
    # A plain header holds sizes up to 8 GiB. Larger files get GNU's binary sizes, which every tar program reads.
    out.write(header.tobuf(tarfile.GNU_FORMAT))
    found, left = hashlib.sha256(), size
    for chunk in chunks:
        found.update(chunk[:left])
        out.write(chunk[:left])
        left -= len(chunk[:left])
    if left:
        raise UsageError(f"a file became shorter while it was packed: {_WAIT}")
    out.write(bytes(-size % tarfile.BLOCKSIZE))
    return found.hexdigest()


def _is_safe(path: str) -> bool:
    """Return whether this is a relative path of a file that every system interprets in the same way."""
    parts = path.split("/")
    return (
        len(path) <= _MAX_PATH
        and len(parts) <= _MAX_DEPTH
        and "\\" not in path
        and path.isprintable()  # lone surrogates, which cannot be encoded, are not
        and all(0 < len(part.encode()) <= _MAX_NAME and part not in (".", "..") for part in parts)
    )


def read_bundle(source: Path, parent: Path, *, max_bytes: int = MAX_BYTES) -> Bundle:
    """Unpack a bundle into a new folder below ``parent``, named after the group. Each file is verified by size and
    digest.

    Raises OSError, or DataError if the file is not a bundle, or is truncated or changed.
    """
    try:
        with ZstdFile(source, options={DecompressionParameter.window_log_max: _WINDOW_LOG}) as stream:
            return _unpack(_Members(stream), parent, max_bytes)
    except (ZstdError, EOFError) as error:
        raise DataError(f"{source} is not a bundle: it is not compressed with Zstandard, or is truncated") from error
    except ValueError as error:
        raise DataError(f"{source} is not a bundle, or was changed: {reason(error)}") from error


def unpack(source: Path, parent: Path, *, max_bytes: int = MAX_BYTES) -> Path:
    """Write the run group of a bundle to a new folder below ``parent``, completely or not at all; return that folder.

    Only files that sessions and commands write are kept, and what agents left is kept in archives, so that a bundle
    cannot plant files that a program would read. Its audit and its judge's votes are not kept, since a later audit
    would take them for those of this machine's user. Raises UsageError if the folder exists, DataError if the bundle
    has no run group, and the errors of ``read_bundle``.
    """
    try:
        parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".unbundle-", dir=parent) as scratch:
            bundle = read_bundle(source, Path(scratch), max_bytes=max_bytes)
            target = parent / bundle.folder.name
            if target.exists() or target.is_symlink():
                raise UsageError(f"{target} exists: name another folder with --to, or rename that run group")
            _keep_run_group(bundle, Path(scratch), source)
            protect(bundle.folder)
            bundle.folder.rename(target)
    except FilesError as error:  # a run's archive is not one that sessions write
        raise DataError(f"{source}: {str(error).replace(f'{bundle.folder}/', '')}") from error
    except OSError as error:
        raise UsageError(f"{parent} cannot be written: {reason(error)}") from error
    return target


def _keep_run_group(bundle: Bundle, scratch: Path, source: Path) -> None:
    """Remove all other files, and archive those that agents of earlier versions left in folders."""
    known = [entry.path for entry in bundle.index.files if is_known(entry.path)]
    if record.MANIFEST not in known and not any(path.split("/")[1:] == [record.RECORD] for path in known):
        raise DataError(f"{source} has no run group: it contains neither {record.MANIFEST} nor the record of a run")
    for number, name in enumerate(sorted({path.partition("/")[0] for path in known if "/" in path})):
        run_dir, archived = bundle.folder / name, scratch / f".files-{number}"
        check_files(run_dir)
        if not (run_dir / record.FILES).exists():
            copy_files(run_dir, archived, record.COLLECTED)
            if (archived / record.FILES).exists():
                (archived / record.FILES).rename(run_dir / record.FILES)
    for entry in bundle.index.files:
        if not is_known(entry.path) or _is_unpacked(entry.path) or entry.path.partition("/")[0] in (FINDINGS, JUDGE):
            path = bundle.folder / entry.path
            path.unlink()
            with suppress(OSError):  # folders that are not empty stay
                for folder in path.parents:
                    folder.rmdir()


def is_known(path: str) -> bool:
    """Return whether sessions or commands of this package, or its earlier versions, write group files of this name."""
    top, _, inside = path.partition("/")
    if not inside:
        return top in _IN_GROUP or (top.endswith(".json") and top.startswith(_PREFIXES))
    if top == JUDGE:
        return inside in _IN_JUDGE
    return not top.startswith(".") and (
        inside in _IN_RUN or _SNAPSHOT.fullmatch(inside) is not None or _is_unpacked(path)
    )


def _is_unpacked(path: str) -> bool:
    """Return whether this is a file that an agent of an earlier version left in a folder, and not in an archive."""
    inside = path.partition("/")[2]
    folder, _, name = inside.partition("/")
    return folder in record.COLLECTED and bool(name) and inside != record.SUBMISSION


def is_bundle(path: Path) -> bool:
    """Return whether a file begins like a bundle."""
    try:
        with path.open("rb") as file:
            return file.read(4) == b"\x28\xb5\x2f\xfd"
    except OSError:
        return False


def check_is_bundle(path: Path) -> None:
    """Raise UsageError unless this is a bundle, by how it begins."""
    if not path.exists():
        raise UsageError(f"file not found: {path}")
    if not path.is_file() or not is_bundle(path):  # a pipe could not be opened twice
        raise UsageError(f"{path} is not a bundle: create one with `mlebench bundle`")


def _unpack(members: _Members, parent: Path, max_bytes: int) -> Bundle:
    name, size = members.next() or ("", 0)
    if name != INDEX or size > MAX_INDEX_BYTES:
        raise ValueError(f"its first member is not an {INDEX}")
    content = members.read(size)
    if _brackets(content) > _MAX_BRACKETS_OF_FILE * MAX_FILES:
        raise ValueError("its index has too many objects and lists")
    values = loads(content, decoder=UNIQUE_KEYS)
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise ValueError(f"its index is not that of a {FORMAT}")
    if values.get("version") != VERSION:
        raise ValueError(f"it has version {values.get('version')!r} of the format, but this program reads {VERSION}")
    index = parse(BundleIndex, values)
    _check_index(index, max_bytes)
    paths: dict[str, list[str]] = {}
    sizes: dict[str, int] = {}
    for entry in index.files:
        paths.setdefault(entry.sha256, []).append(entry.path)
        if sizes.setdefault(entry.sha256, entry.size) != entry.size:
            raise ValueError(f"{entry.path} has the digest of a file of another size")
    if index.size > (free := shutil.disk_usage(parent).free):
        raise DataError(f"it unpacks to {format_size(index.size)}, but {parent} has {format_size(free)} left")
    folder = parent / index.run_group
    folder.mkdir()
    signature: bytes | None = None
    while (member := members.next()) is not None:
        name, size = member
        if name == SIGNATURE and signature is None and size <= MAX_SIGNATURE_BYTES:
            signature = members.read(size)
            continue
        digest = name.removeprefix(BLOBS)
        if not name.startswith(BLOBS) or digest not in paths:
            raise ValueError(f"its member {name[:100]!r} is not in the index, or is a duplicate")
        if size != sizes[digest]:
            raise ValueError(f"{paths[digest][0]} has {size} bytes and not {sizes[digest]}")
        try:
            _extract(members, folder, paths.pop(digest), size, digest)
        except FileExistsError as error:  # the names differ only in case or Unicode form
            raise DataError(f"two paths of the bundle are the same file on this system: {error.filename}") from error
    members.end()
    if paths:
        missing = min(names[0] for names in paths.values())
        raise ValueError(f"{missing} is missing, along with {len(paths) - 1} other contents")
    return Bundle(index, hashlib.sha256(content).hexdigest(), content, signature, folder)


def _check_index(index: BundleIndex, max_bytes: int) -> None:
    if not _is_safe(index.run_group) or "/" in index.run_group:
        raise ValueError(f"{index.run_group[:100]!r} is not the name of a run group")
    if len(index.files) > MAX_FILES:
        raise ValueError(f"it has {len(index.files)} files, but at most {MAX_FILES} are allowed")
    known: set[str] = set()
    for entry in index.files:
        if not _is_safe(entry.path):
            raise ValueError(f"its index has the path {entry.path[:100]!r}, which is not within a run group")
        if entry.path in known:
            raise ValueError(f"its index has the duplicate path {entry.path}")
        if len(entry.sha256) != 64 or not set(entry.sha256) <= set("0123456789abcdef"):
            raise ValueError(f"its index has no valid SHA-256 for {entry.path}")
        _, _, inside = entry.path.partition("/")  # files that commands parse as a whole must be small
        is_top_json = not inside and entry.path.endswith(".json")
        if entry.size > (most := _MAX_JSON_BYTES if is_top_json else _MAX_SIZES.get(inside, MAX_BYTES)):
            raise ValueError(f"{entry.path} has {format_size(entry.size)}, but at most {format_size(most)} are allowed")
        known.add(entry.path)
    folders = {str(folder) for path in known for folder in Path(path).parents}
    if both := folders & known:
        raise ValueError(f"its index has {min(both)} as both a file and a folder")
    size = index.size + _FOLDER_BYTES * (len(folders) - 1)  # the group's own folder is among them
    if any(entry.size < 0 for entry in index.files) or size > max_bytes:
        raise ValueError(f"it unpacks to {format_size(size)}, but at most {format_size(max_bytes)} are allowed")


def _extract(members: _Members, folder: Path, paths: list[str], size: int, digest: str) -> None:
    one, *others = [folder / path for path in paths]
    one.parent.mkdir(parents=True, exist_ok=True)
    found, left, brackets = hashlib.sha256(), size, 0
    is_parsed = any(map(_is_parsed, paths))
    with one.open("xb") as file:
        while left:
            chunk = members.read(min(left, _CHUNK))
            brackets += _brackets(chunk)
            if is_parsed and brackets > _MAX_BRACKETS:
                raise ValueError(f"{paths[0]} has more than {_MAX_BRACKETS:,} objects and lists")
            found.update(chunk)
            file.write(chunk)
            left -= len(chunk)
    if found.hexdigest() != digest:
        raise ValueError(f"{paths[0]} does not match the index: its SHA-256 differs")
    for other in others:
        other.parent.mkdir(parents=True, exist_ok=True)
        with one.open("rb") as reader, other.open("xb") as file:
            shutil.copyfileobj(reader, file)


class _Members:
    """Reads the regular members of a tar stream in order. Raises ValueError for anything else."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._padding = 0

    def next(self) -> tuple[str, int] | None:
        """Return the name and size of the next member, before its content; None at the end."""
        if self._padding:
            self._exactly(tarfile.BLOCKSIZE - self._padding)
            self._padding = 0
        block = self._exactly(tarfile.BLOCKSIZE)
        if not block.strip(b"\0"):
            return None
        try:
            header = tarfile.TarInfo.frombuf(block, "utf-8", "strict")
        except (tarfile.HeaderError, UnicodeDecodeError) as error:
            raise ValueError(f"it is not a tar archive: {error}") from error
        if header.type != tarfile.REGTYPE or header.size < 0:
            raise ValueError(f"its member {header.name[:100]!r} is not a regular file")
        return header.name, header.size

    def end(self) -> None:
        """Raise ValueError if data follows the end of the archive, which other programs might read."""
        left = _MAX_PADDING
        while block := self._stream.read(tarfile.BLOCKSIZE):
            left -= len(block)
            if left < 0 or block.strip(b"\0"):
                raise ValueError("data follows its end")

    def read(self, size: int) -> bytes:
        """Return bytes of the current member. ``next`` skips the padding after it."""
        self._padding = (self._padding + size) % tarfile.BLOCKSIZE
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        parts, left = [], size
        while left:
            part = self._stream.read(min(left, _CHUNK))
            if not part:
                raise ValueError("it is truncated")
            parts.append(part)
            left -= len(part)
        return b"".join(parts)


NAMESPACE = "mlebench-bundle"
MAX_SIGNATURE_BYTES = 1 << 16
_SECONDS = 60


def sign(content: bytes, key: Path) -> bytes:
    """Return the signature of content with a private key, or with a public key whose private key an SSH agent holds.

    Asks for a passphrase on the terminal. Raises UsageError.
    """
    if not key.is_file():
        raise UsageError(f"--sign: key not found: {key}")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "index"
        file.write_bytes(content)
        done = _ssh_keygen("-Y", "sign", "-f", str(key), "-n", NAMESPACE, str(file), asks=True)
        signature = file.with_name("index.sig")
        if done.returncode or not signature.is_file():
            raise UsageError(f"--sign: {key} cannot sign: {_line(done.stderr)}")
        return signature.read_bytes()


def check(content: bytes, signature: bytes, allowed_signers: Path | None) -> tuple[bool, str]:
    """Return whether a signature is valid, and by whom or why not. Raises UsageError.

    ``allowed_signers`` is a file of those who may have signed (see ssh-keygen(1)).
    """
    if allowed_signers is not None and not allowed_signers.is_file():
        raise UsageError(f"--allowed-signers: file not found: {allowed_signers}")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "index.sig"
        file.write_bytes(signature)
        common = ("-n", NAMESPACE, "-s", str(file))
        done = _ssh_keygen("-Y", "check-novalidate", *common, content=content)
        if done.returncode:
            return False, f"the signature does not match the index: {_line(done.stderr or done.stdout)}"
        key = re.search(r"SHA256:\S+", done.stdout.decode("utf-8", "replace"))
        fingerprint = key[0] if key else "an unknown key"
        if allowed_signers is None:
            return True, f"good, by the key {fingerprint}; --allowed-signers shows whose it is"
        found = _ssh_keygen("-Y", "find-principals", "-s", str(file), "-f", str(allowed_signers))
        for signer in found.stdout.decode("utf-8", "replace").splitlines():
            arguments = ("-Y", "verify", "-f", str(allowed_signers), "-I", signer, *common)
            if not _ssh_keygen(*arguments, content=content).returncode:
                return True, f"good, by {signer} ({fingerprint})"
        return False, f"the key {fingerprint} is not among the allowed signers of {allowed_signers}"


def _ssh_keygen(
    *arguments: str, content: bytes | None = None, asks: bool = False
) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            ["ssh-keygen", *arguments],
            input=content,
            stdin=None if content is not None or asks else subprocess.DEVNULL,
            capture_output=True,
            timeout=None if asks else _SECONDS,
            check=False,
        )
    except FileNotFoundError as error:
        raise UsageError("ssh-keygen is not installed: signatures need OpenSSH 8.2 or later") from error
    except subprocess.TimeoutExpired as error:
        raise UsageError(f"ssh-keygen did not finish within {_SECONDS} s") from error


def _line(text: bytes) -> str:
    lines = text.decode("utf-8", "replace").strip().splitlines()
    return lines[-1][:300] if lines else "ssh-keygen gave no reason"
