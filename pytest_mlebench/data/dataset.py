"""One competition's data in the store, and copies of it whose file metadata reveals nothing.

Archives often store files class by class. Unpacking keeps that order in the files' times and inode numbers, in their
directory entries and in their blocks on the disk. So does linking the unpacked files. An agent can read all of these,
even on a read-only mount. So each file gets a new inode, in a random order that is drawn when names and contents are
final, and is never stored. All files get the same times. Such a folder is called *level*.

Hard links and clones (reflinks) of the unpacked files would not help: they share inodes or blocks with files in the
old order, and removing the raw data later would change the links' times in that order. But files can be moved instead
of copied if they were unpacked in a random order into one folder (see ``unpack_zip``). The raw data must then be
removed before times are set. This saves a second copy on the disk. A mix of moved and copied files would be
distinguishable, so either all files in the subfolders of ``public`` are moved, or none.

Digests identify prepared files by their bytes, or by content if the bytes depend on a library's version or the clock.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import zlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

from pytest_mlebench.authoring.archives import open_tar, open_zip, unpack_7z
from pytest_mlebench.catalog.competition import MAX_TEXT_BYTES, Competition, read_text
from pytest_mlebench.errors import CompetitionError, DataError, reason
from pytest_mlebench.io import files, locks
from pytest_mlebench.io.files import shuffled
from pytest_mlebench.io.units import format_size
from pytest_mlebench.io.values import as_object

if TYPE_CHECKING:
    import pandas as pd

READ_ONLY = 0o444
TIME_NS = 946_684_800 * 10**9
"""Access and modification time of all prepared files and folders: the beginning of 2000, UTC."""
_WORKERS = 4
_BATCH = 1000
_BLOCK = 1 << 24


def replace_by_level(folder: Path, scratch: Path, mixed_raw: Path | None = None) -> bool:
    """Replace a folder with a level copy, durably; the original is moved to ``scratch``, on the same disk.

    ``mixed_raw`` is raw data that was unpacked in a random order. Links to it may be moved instead of copied. Returns
    True if they were; the folder is then level only after the raw data is removed and ``set_times`` is called.
    """
    new = scratch / f"level-{folder.name}"
    has_moved = level(folder, new, mixed_raw)
    files.sync(new)
    files.exchange(new, folder)
    return has_moved


def level(source: Path, target: Path, mixed_raw: Path | None = None) -> bool:
    """Copy a folder to ``target``, which must not exist, and keep only names and contents.

    Files become read-only. Symbolic links stay links. Extended attributes, owners and holes are not copied.
    ``mixed_raw`` and the return value are those of ``replace_by_level``. Raises OSError.
    """
    folders, names = _walk(source)
    moved = set[str]() if mixed_raw is None else _all_linked(source, names, mixed_raw)
    target.mkdir()
    for name in shuffled(folders):
        (target / name).mkdir(parents=True, exist_ok=True)
    for name in shuffled(moved):
        (source / name).rename(target / name)
    with ThreadPoolExecutor(_WORKERS) as pool:
        todo = iter(shuffled(set(names) - moved))
        while batch := list(islice(todo, _BATCH)):  # an error or Ctrl-C stops it after a batch
            for _ in pool.map(_copy, (f"{source}/{name}" for name in batch), (f"{target}/{name}" for name in batch)):
                pass
    if not moved:
        _set_times_of_folders(target, folders)
    return bool(moved)


def _all_linked(source: Path, names: list[str], raw: Path) -> set[str]:
    """Return the files in subfolders if each is the only hard link to a raw file; else an empty set."""
    nested = {name for name in names if "/" in name}
    raw_inodes = {
        entry.inode() for entry in files.entries_below(raw, ignore_errors=False) if entry.is_file(follow_symlinks=False)
    }
    device = raw.stat().st_dev
    for name in nested:
        status = (source / name).lstat()
        if status.st_ino not in raw_inodes or status.st_nlink != 2 or status.st_dev != device:
            return set()
    return nested


def set_times(folder: Path) -> None:
    """Set the times of all files and folders in a folder, in random order, and make files read-only. Raises OSError."""
    folders, names = _walk(folder)
    for name in shuffled(names):
        level_file(folder / name)
    _set_times_of_folders(folder, folders)


def level_file(path: Path) -> None:
    """Set a file's times and mode. Raises OSError."""
    if not path.is_symlink():
        path.chmod(READ_ONLY)
    os.utime(path, ns=(TIME_NS, TIME_NS), follow_symlinks=False)


def is_level(folder: Path) -> bool:
    """Return whether a folder is level, and no entry was added or removed directly in it since.

    Folders from other programs, earlier versions and plain copies have other times. Raises OSError.
    """
    return folder.stat().st_mtime_ns == TIME_NS


def keep_level(folder: Path) -> None:
    """Reset a folder's own times after a file in it was replaced by one with the right times. Raises OSError."""
    os.utime(folder, ns=(TIME_NS, TIME_NS))


def _walk(folder: Path) -> tuple[list[str], list[str]]:
    """Return the relative paths of all subfolders of a folder, and of all other entries."""
    folders: list[str] = []
    others: list[str] = []
    for entry in files.entries_below(folder, ignore_errors=False):
        paths = folders if entry.is_dir(follow_symlinks=False) else others
        paths.append(os.path.relpath(entry.path, folder))
    return folders, others


def _copy(old: str, new: str) -> None:
    if os.path.islink(old):  # noqa: PTH114  (there may be a million files)
        os.symlink(os.readlink(old), new)  # noqa: PTH115, PTH211
    else:
        with open(old, "rb") as source, open(new, "xb") as target:  # noqa: PTH123
            while os.sendfile(target.fileno(), source.fileno(), None, _BLOCK):  # sendfile never clones blocks
                pass
        os.chmod(new, READ_ONLY)  # noqa: PTH101
    os.utime(new, ns=(TIME_NS, TIME_NS), follow_symlinks=False)


def _set_times_of_folders(top: Path, folders: list[str]) -> None:
    for name in shuffled(folders):  # setting one folder's times does not change another's
        os.utime(top / name, ns=(TIME_NS, TIME_NS))
    os.utime(top, ns=(TIME_NS, TIME_NS))


ENVIRONMENT_VARIABLE = "MLEBENCH_DATA_DIR"
DESCRIPTIONS = ("bundled", "kaggle")
Description = Literal["bundled", "kaggle"]
OBFUSCATED = "obfuscated"
"""The description that hides the competition's name. Runs can choose it; it is never stored (see ``runs.run``)."""
OTHER = "other"


def default_data_dir() -> Path:
    """Return ``$MLEBENCH_DATA_DIR``, or else ``mlebench`` in the cache folder. Raises DataError if there is no home.

    >>> os.environ["MLEBENCH_DATA_DIR"] = "/srv/mlebench"
    >>> default_data_dir()
    PosixPath('/srv/mlebench')
    """
    if configured := os.environ.get(ENVIRONMENT_VARIABLE):
        return Path(configured)
    return _cache_dir() / "mlebench"


def _cache_dir() -> Path:
    if cache := os.environ.get("XDG_CACHE_HOME"):
        return Path(cache)
    try:
        return Path.home() / ".cache"
    except RuntimeError as error:
        raise DataError(f"found no home folder for data: set HOME, {ENVIRONMENT_VARIABLE} or --data-dir") from error


def mle_bench_data_dir() -> Path:
    """Return MLE-bench's default data folder. Raises DataError if there is no home."""
    return _cache_dir() / "mle-bench" / "data"


@dataclass(frozen=True)
class Dataset:
    """One competition's data in the store, in MLE-bench's layout: ``raw/``, ``prepared/public``, ``prepared/private``.

    Only ``public`` may be shown to an agent. A version that corrects the competition has a folder of its own, such as
    ``prepared-v2``.

    >>> from pytest_mlebench import DataStore, default_catalogue
    >>> dataset = DataStore().prepare(default_catalogue()["smoke-diabetes"])
    >>> sorted(path.name for path in dataset.public.iterdir())
    ['description.md', 'sample_submission.csv', 'test.csv', 'train.csv']
    >>> dataset.answers.name
    'test.csv'
    """

    competition: Competition
    folder: Path

    @property
    def raw(self) -> Path:
        return self.folder / "raw"

    @property
    def prepared(self) -> Path:
        return self.folder / f"prepared{self._suffix}"

    @property
    def mismatch(self) -> Path:
        """The folder for prepared data that differs from the reference."""
        return self.folder / f"prepared{self._suffix}.mismatch"

    @property
    def _suffix(self) -> str:
        return f"-{self.competition.version}" if self.competition.is_corrected else ""

    @property
    def public(self) -> Path:
        return self.prepared / "public"

    @property
    def private(self) -> Path:
        return self.prepared / "private"

    @property
    def answers(self) -> Path:
        return self.prepared / self.competition.answers

    @property
    def perfect_submission(self) -> Path:
        return self.prepared / self.competition.perfect_submission

    @property
    def sample_submission(self) -> Path:
        return self.prepared / self.competition.sample_submission

    @property
    def required(self) -> tuple[Path, ...]:
        """The files that prepared data must contain."""
        return self.answers, self.perfect_submission, self.sample_submission

    @property
    def is_prepared(self) -> bool:
        return files.is_dir(self.public) and files.is_dir(self.private)

    @property
    def is_level(self) -> bool:
        """Whether the files' times, inodes and order reveal nothing about the raw data (see ``data.dataset``).

        Data from earlier versions or other programs may reveal answers. False if nothing is prepared.
        """
        return self.is_prepared and is_level(self.private) and is_level(self.public)

    @property
    def has_moved_files(self) -> bool:
        """Whether public files were moved from raw data, and their times are not set yet (see ``data.dataset``).

        The state records the inode of their folder, because a copy of it may have another order.
        """
        return self.is_prepared and self.state.get("moved") == self.public.stat().st_ino

    @property
    def kernels(self) -> Path:
        """The competition's public notebooks, with which the extra ``audit`` compares agents' code."""
        return self.folder / "kernels"

    @property
    def archive(self) -> Path:
        """The downloaded archive, until it is unpacked."""
        return self.folder / f"{self.competition.id}.zip"

    @property
    def partial_archive(self) -> Path:
        return self.folder / f"{self.competition.id}.zip.part"

    @property
    def has_raw(self) -> bool:
        """Whether there is raw data; an empty folder does not count."""
        return files.has_entries(self.raw)

    @property
    def listing(self) -> Path:
        """The file that records the prepared files' names and sizes at the time of preparation."""
        return self.folder / f"files{self._suffix}.jsonl.gz"

    @property
    def own_paths(self) -> set[Path]:
        """The paths that belong to this version only."""
        return {self.prepared, self.mismatch, self.listing, self.pulling, self.state_file, self.twin_record}

    @property
    def pulling(self) -> Path:
        """The folder for prepared data that is being pulled, until all of it has arrived."""
        return self.folder / f".pulling{self._suffix}"

    @property
    def source(self) -> str:
        """The URL that the prepared data was pulled from; empty if it was prepared here."""
        source = self.state.get("source")
        return source if isinstance(source, str) else ""

    @property
    def lock_file(self) -> Path:
        """The lock file that a process holds while it changes the folder (see ``locks.hold_lock``)."""
        return self.folder / ".lock"

    @property
    def is_verified(self) -> bool | None:
        """Whether the checksums matched in the last comparison; None if they were never compared."""
        verified = self.state.get("verified")
        return verified if isinstance(verified, bool) else None

    @property
    def is_synthetic(self) -> bool:
        """Whether the prepared data was generated by the competition's ``synthetic.py``."""
        return self.state.get("synthetic") is True

    @property
    def twin_record(self) -> Path:
        """The file with a twin's seed, size, rejected worlds and medals. Agents must not see it."""
        return self.folder / f"twin{self._suffix}.json"

    @property
    def twin(self) -> Mapping[str, Any]:
        """For a twin: the key of its seed, its size and, with ``--twin-per-seed``, the run's seed. Otherwise empty."""
        return as_object(self.state.get("twin"))

    @property
    def description(self) -> str | None:
        """Which ``description.md`` agents read: ``bundled``, ``kaggle``, or ``other``; None if nothing is prepared.

        ``other`` means that another program, such as MLE-bench, prepared the data.
        """
        source = self.state.get("description")
        if source in DESCRIPTIONS:
            return str(source)
        if not self.is_prepared:
            return None
        try:
            shown = files.regular_bytes(self.public / "description.md", MAX_TEXT_BYTES)
            ours = read_text(self.competition.description).encode() == shown
        except (OSError, ValueError, CompetitionError):
            ours = False
        return "bundled" if ours else OTHER

    @property
    def state(self) -> dict[str, Any]:
        """The recorded properties of the data: ``verified``, ``description``, ``fingerprint``, size in ``bytes``, …"""
        try:
            return as_object(json.loads(self.state_file.read_text(encoding="utf-8")))
        except (OSError, ValueError):
            return {}

    def note(self, **changes: Any) -> None:
        """Update values of the state, durably. Raises OSError."""
        files.write_text(self.state_file, json.dumps({**self.state, **changes}) + "\n")

    @property
    def state_file(self) -> Path:
        return self.folder / f"state{self._suffix}.json"


_MAX_PARQUET_VALUES, _MAX_PARQUET_BYTES = 1 << 25, 1 << 30
_PARQUET_ROWS = 1 << 12
Digest = str | dict[str, Any]
"""An MD5 in hexadecimal, or the digests of an archive's members or of a parquet file's parts."""


def md5(source: Path | bytes | IO[bytes]) -> str:
    """Return the MD5 of a file (read in blocks) or of bytes, in hexadecimal."""
    if isinstance(source, bytes):
        return hashlib.md5(source, usedforsecurity=False).hexdigest()
    if isinstance(source, Path):
        with source.open("rb") as file:
            return md5(file)
    new = partial(hashlib.md5, usedforsecurity=False)
    return hashlib.file_digest(source, new).hexdigest()  # type: ignore[arg-type]  # IO[bytes] lacks `readinto`


def digest(path: Path) -> Digest:
    """Return the MD5 of a file; for an archive, its members' digests; for parquet, those of columns and rows.

    Raises DataError if an archive or a parquet file is damaged.
    """
    name = path.name
    if name.endswith(".zip"):
        with open_zip(path) as archive:
            return {info.filename: md5(archive.open(info)) for info in archive.infolist() if not info.is_dir()}
    if name.endswith((".tar", ".tar.gz", ".tgz")):
        with open_tar(path) as tar:
            members = [info for info in tar if info.isfile()]
            return {info.name: md5(file) for info in members if (file := tar.extractfile(info))}
    if name.endswith(".7z"):
        with files.scratch() as folder:
            unpack_7z(path, Path(folder))
            return dict(listing(Path(folder)))
    if name.endswith(".parquet"):
        try:
            table = read_parquet(path)
        except (OSError, ValueError) as error:
            raise DataError(f"{path} is damaged: {reason(error)}") from error
        columns = repr([str(column) for column in table.columns])
        return {"columns": md5(columns.encode()), "rows": md5(table.to_csv().encode())}
    return md5(path)


def read_parquet(source: Path | IO[bytes]) -> pd.DataFrame:
    """Read a parquet file that is not much smaller than its table: a few bytes can mean billions of equal values.

    Raises DataError if it has too many values or bytes, and otherwise as pandas.
    """
    import pandas as pd
    from pyarrow import parquet

    about = parquet.read_metadata(source)
    groups = [about.row_group(index) for index in range(about.num_row_groups)]
    chunks = [group.column(index) for group in groups for index in range(group.num_columns)]
    if max(sum(chunk.num_values for chunk in chunks), about.num_rows * about.num_columns) > _MAX_PARQUET_VALUES:
        raise DataError(f"{source} is not read: it has more than {_MAX_PARQUET_VALUES:,} values")
    if any(size > _MAX_PARQUET_BYTES for size in _parquet_sizes(source, about, chunks)):
        raise DataError(f"{source} is not read: it takes more than {format_size(_MAX_PARQUET_BYTES)}")
    return pd.read_parquet(source)


def _parquet_sizes(source: Path | IO[bytes], about: Any, chunks: list[Any]) -> Iterator[int]:
    """Yield how many bytes a parquet file takes at least, each time with more of it unpacked."""
    from pyarrow import parquet

    yield sum(chunk.total_uncompressed_size for chunk in chunks)
    columns = {column.path: column for column in map(about.schema.column, range(about.num_columns))}
    yield sum(chunk.num_values * max(columns[chunk.path_in_schema].length, 0) for chunk in chunks)
    texts = {path for path, column in columns.items() if column.physical_type == "BYTE_ARRAY"}
    # Arrow keeps equal texts once, except in these encodings. There, no text is longer than all stored parts together.
    by_parts = [
        chunk
        for chunk in chunks
        if chunk.path_in_schema in texts and any(encoding.startswith("DELTA_") for encoding in chunk.encodings)
    ]
    longest = max((chunk.total_uncompressed_size for chunk in by_parts), default=0)
    rows = max(1, min(_PARQUET_ROWS, _MAX_PARQUET_BYTES // (longest + 1)))
    once = texts - {chunk.path_in_schema for chunk in by_parts}
    total = 0
    with parquet.ParquetFile(source, read_dictionary=sorted(once)) as file:
        for batch in file.iter_batches(rows, columns=sorted(texts)):
            yield (total := total + sum(map(_text_bytes, batch.columns)))


def _text_bytes(array: Any) -> int:
    """The bytes of all texts in an Arrow array, in which equal ones may be stored once."""
    import pyarrow as pa
    from pyarrow import compute

    if isinstance(array, pa.DictionaryArray):
        return compute.sum(compute.binary_length(array.dictionary).take(array.indices)).as_py() or 0
    if pa.types.is_nested(array.type):
        parts = array.flatten()
        return sum(map(_text_bytes, parts if isinstance(parts, list) else [parts]))
    return int(array.nbytes)


def listing(folder: Path) -> dict[str, Digest]:
    """Return the digest of every file below a folder by its relative path, sorted."""
    return {path.relative_to(folder).as_posix(): digest(path) for path in sorted(folder.rglob("*")) if path.is_file()}


def differences(
    expected: Mapping[str, Any],
    found: Mapping[str, Any],
    where: str = "",
    change: Callable[[Any, Any], str] = ": expected {}, found {}".format,
) -> list[str]:
    """Describe the differences between two listings of the folder ``where``, one sentence per file."""
    prefix = where and f"{where}/"
    return [
        *(f"{prefix}{name} is missing" for name in sorted(expected.keys() - found.keys())),
        *(f"{prefix}{name} should not be there" for name in sorted(found.keys() - expected.keys())),
        *(
            f"{prefix}{name}{change(expected[name], found[name])}"
            for name in sorted(expected.keys() & found.keys())
            if expected[name] != found[name]
        ),
    ]


SIDES = ("public", "private")
DESCRIPTION = "public/description.md"
"""Left out of listings, because it may be replaced (see ``DataStore.prepare``)."""


def checksum_errors(dataset: Dataset) -> list[str]:
    """Describe how prepared files differ from the competition's checksums; empty if they match or there are none."""
    expected = _checksums(dataset)
    found = {name: md5(path) for name in expected if (path := dataset.prepared / name).is_file()}
    return differences(expected, found)


def listing_errors(dataset: Dataset) -> list[str]:
    """Describe how names and sizes of files without a checksum differ from the listing, if there is one."""
    try:
        with gzip.open(dataset.listing, "rt", encoding="utf-8") as lines:
            expected = dict(map(json.loads, lines))
    except FileNotFoundError:
        return []
    except (OSError, EOFError, ValueError, TypeError, zlib.error) as error:
        return [f"{dataset.listing.name} is damaged: {error}"]
    found = dict(prepared_files(dataset.prepared))
    for name in _checksums(dataset):
        expected.pop(name, None)
        found.pop(name, None)
    return differences(
        expected,
        found,
        change=lambda old, new: f" has changed: expected {format_size(old)}, found {format_size(new)}",
    )


def fingerprint(dataset: Dataset) -> dict[str, str]:
    """Return the digests that identify prepared data in the records of runs.

    They are computed when data is prepared. For data from another program, this function computes them, and stores
    them if the user has write access to the folder.
    """
    known = dataset.state.get("fingerprint")
    if isinstance(known, dict):
        return known
    computed = make_fingerprint(dataset)
    with suppress(OSError, locks.LockHeld), locks.hold_lock(dataset.lock_file, "fingerprints", dataset.competition.id):
        dataset.note(fingerprint=computed)
    return computed


def make_fingerprint(dataset: Dataset) -> dict[str, str]:
    """Compute a digest of the public files' names and sizes, and one of the answers."""
    public = sorted(entry for entry in prepared_files(dataset.prepared) if entry[0].startswith("public/"))
    return {"public_names_and_sizes": md5(json.dumps(public).encode()), "answers": md5(dataset.answers)}


def write_listing(prepared: Path, target: Path) -> int:
    """Write the names and sizes of all prepared files as gzipped JSON lines; returns their total size in bytes."""
    total = 0
    with gzip.open(target, "wt", encoding="utf-8", compresslevel=1) as lines:
        for entry in prepared_files(prepared):
            lines.write(json.dumps(entry) + "\n")
            total += entry[1]
    return total


def prepared_files(prepared: Path) -> Iterator[tuple[str, int]]:
    """Yield the relative path and size in bytes of each prepared file except the description."""
    for folder, _, names in os.walk(prepared):
        inside = Path(folder).relative_to(prepared).as_posix()
        for name in names:
            if (path := f"{inside}/{name}") != DESCRIPTION:
                yield path, os.lstat(os.path.join(folder, name)).st_size  # noqa: PTH118  (there may be a million files)


def _checksums(dataset: Dataset) -> dict[str, str]:
    checksums = dataset.competition.checksums
    return {f"{side}/{name}": value for side in SIDES for name, value in (checksums.get(side) or {}).items()}
