"""One competition's data in the store, and copies of it whose metadata tells nothing.

Archives often store files class by class. Unpacking keeps that order in the files' times and inode numbers, in their
directory entries and in their blocks on the disk, and so does linking the unpacked files. An agent can read all of
these, even on a read-only mount. So each file gets a new inode, in a random order that is drawn when names and
contents are final, and is never stored. All files get the same times.

Hard links and clones (reflinks) of the unpacked files would not help: they share inodes or blocks with files in the
old order, and removing the raw data later would change the links' times in that order. But files that were unpacked
in a random order into one folder (see ``unpack_zip``), and that leave the raw data before times are set, can be moved
instead of copied. This saves a second copy on the disk. A mix of moved and copied files would be distinguishable, so
either all files in a side's folders are moved, or none.

Digests of prepared data: by bytes, and by content where the bytes depend on a library's version or the clock.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Any, Literal

from pytest_mlebench.catalog.competition import Competition
from pytest_mlebench.errors import DataError
from pytest_mlebench.io import files, locks
from pytest_mlebench.io.files import shuffled
from pytest_mlebench.io.units import format_size
from pytest_mlebench.io.values import as_object

READ_ONLY = 0o444
TIME_NS = 946_684_800 * 10**9
"""Access and modification of all prepared files and folders: the beginning of 2000, UTC."""
_WORKERS = 4
_BATCH = 1000
_BLOCK = 1 << 24


def replace_by_level(folder: Path, scratch: Path, mixed_raw: Path | None = None) -> bool:
    """Replace a folder by a level copy of it, durably; what it was stays in ``scratch``, on the same disk.

    ``mixed_raw`` is raw data that was unpacked in a random order. Links to it may be moved; returns whether they were.
    Then the folder is not level until its raw data is removed, and ``set_times`` is called.
    """
    new = scratch / f"level-{folder.name}"
    has_moved = level(folder, new, mixed_raw)
    files.sync(new)
    files.exchange(new, folder)
    return has_moved


def level(source: Path, target: Path, mixed_raw: Path | None = None) -> bool:
    """Copy a folder to ``target``, which does not exist yet, so that nothing but names and contents remains.

    Files become read-only. Symbolic links stay links. Extended attributes, owners and holes are not copied.
    ``mixed_raw``, and what is returned, are as in ``replace_by_level``. Raises OSError.
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
        while batch := list(islice(todo, _BATCH)):  # an error ends it soon, and so does Ctrl-C
            for _ in pool.map(_copy, (f"{source}/{name}" for name in batch), (f"{target}/{name}" for name in batch)):
                pass
    if not moved:
        _set_times_of_folders(target, folders)
    return bool(moved)


def _all_linked(source: Path, files: list[str], raw: Path) -> set[str]:
    """The files in folders, if each of them is the only link to a file of the raw data; else none."""
    inside = {name for name in files if "/" in name}
    known = {entry.inode() for entry in _entries(str(raw)) if entry.is_file(follow_symlinks=False)}
    device = raw.stat().st_dev
    for name in inside:
        about = (source / name).lstat()
        if about.st_ino not in known or about.st_nlink != 2 or about.st_dev != device:
            return set()
    return inside


def set_times(folder: Path) -> None:
    """Set the times of a folder's files and folders, in a random order; makes files read-only. Raises OSError."""
    folders, files = _walk(folder)
    for name in shuffled(files):
        level_file(folder / name)
    _set_times_of_folders(folder, folders)


def level_file(path: Path) -> None:
    """Set a file's times and mode. Raises OSError."""
    if not path.is_symlink():
        path.chmod(READ_ONLY)
    os.utime(path, ns=(TIME_NS, TIME_NS), follow_symlinks=False)


def is_level(folder: Path) -> bool:
    """Whether ``level`` or ``set_times`` made a folder, and nothing was added or removed at its top since then.

    Other programs, earlier versions of this one and plain copies leave other times. Raises OSError.
    """
    return folder.stat().st_mtime_ns == TIME_NS


def keep_level(folder: Path) -> None:
    """Set a folder's own times again after a file in it was replaced by one with the right times. Raises OSError."""
    os.utime(folder, ns=(TIME_NS, TIME_NS))


def _walk(folder: Path) -> tuple[list[str], list[str]]:
    """The relative paths of all folders below one, and of everything else."""
    folders: list[str] = []
    files: list[str] = []
    for entry in _entries(str(folder)):
        inside = folders if entry.is_dir(follow_symlinks=False) else files
        inside.append(os.path.relpath(entry.path, folder))
    return folders, files


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as found:
        for entry in found:
            yield entry
            if entry.is_dir(follow_symlinks=False):
                yield from _entries(entry.path)


def _copy(old: str, new: str) -> None:
    if os.path.islink(old):  # noqa: PTH114  (there may be a million)
        os.symlink(os.readlink(old), new)  # noqa: PTH115, PTH211
    else:
        with open(old, "rb") as source, open(new, "xb") as target:  # noqa: PTH123
            while os.sendfile(target.fileno(), source.fileno(), None, _BLOCK):  # which clones nothing
                pass
        os.chmod(new, READ_ONLY)  # noqa: PTH101
    os.utime(new, ns=(TIME_NS, TIME_NS), follow_symlinks=False)


def _set_times_of_folders(top: Path, folders: list[str]) -> None:
    for name in shuffled(folders):  # setting times changes no other folder's
        os.utime(top / name, ns=(TIME_NS, TIME_NS))
    os.utime(top, ns=(TIME_NS, TIME_NS))


ENVIRONMENT_VARIABLE = "MLEBENCH_DATA_DIR"
DESCRIPTIONS = ("bundled", "kaggle")
Description = Literal["bundled", "kaggle"]
OBFUSCATED = "obfuscated"
"""The description that hides the competition's name. A run may choose it; the store has none (see ``runs.run``)."""
OTHER = "other"


def default_data_dir() -> Path:
    """``$MLEBENCH_DATA_DIR``, else ``mlebench`` in the user's cache folder. Raises DataError if there is no home.

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
        raise DataError(f"no home folder is known for data: set HOME, {ENVIRONMENT_VARIABLE} or --data-dir") from error


def mle_bench_data_dir() -> Path:
    """Where MLE-bench keeps its data by default. Raises DataError if there is no home."""
    return _cache_dir() / "mle-bench" / "data"


@dataclass(frozen=True)
class Dataset:
    """One competition's data in the store, in MLE-bench's layout: ``raw/``, ``prepared/public``, ``prepared/private``.

    Only ``public`` may be shown to an agent. A version that corrects the competition has its data beside that:
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
        """Where prepared data is kept that differs from the reference."""
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
        """The files that all data of a competition has."""
        return self.answers, self.perfect_submission, self.sample_submission

    @property
    def is_prepared(self) -> bool:
        return files.is_dir(self.public) and files.is_dir(self.private)

    @property
    def is_level(self) -> bool:
        """Whether the files' times, inodes and order tell nothing of what they were made from (see ``data.dataset``).

        That of earlier versions, and of other programs, may tell answers. False where nothing is prepared.
        """
        return self.is_prepared and is_level(self.private) and is_level(self.public)

    @property
    def has_moved_files(self) -> bool:
        """Whether public files were moved from raw data, and their times are still to be set (see ``data.dataset``).

        The state has the inode of their folder, since a copy of it may be in another order.
        """
        return self.is_prepared and self.state.get("moved") == self.public.stat().st_ino

    @property
    def kernels(self) -> Path:
        """The competition's public notebooks, which plagiarism is looked for in (see the extra ``audit``)."""
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
        """A file with the names and sizes that the prepared files had when they were prepared."""
        return self.folder / f"files{self._suffix}.jsonl.gz"

    @property
    def own_paths(self) -> set[Path]:
        """What belongs to this version's prepared data."""
        return {self.prepared, self.mismatch, self.listing, self.pulling, self.state_file, self.twin_record}

    @property
    def pulling(self) -> Path:
        """What has arrived of prepared data that is pulled from elsewhere, until all of it is here."""
        return self.folder / f".pulling{self._suffix}"

    @property
    def source(self) -> str:
        """The URL that the prepared data was pulled from; empty if it was prepared here."""
        source = self.state.get("source")
        return source if isinstance(source, str) else ""

    @property
    def lock_file(self) -> Path:
        """The lock file that every change of the folder holds (see ``locks.hold_lock``)."""
        return self.folder / ".lock"

    @property
    def is_verified(self) -> bool | None:
        """Whether the checksums matched when they were last compared; None if they never were."""
        verified = self.state.get("verified")
        return verified if isinstance(verified, bool) else None

    @property
    def is_synthetic(self) -> bool:
        """Whether the prepared data was made by the competition's ``synthetic.py``."""
        return self.state.get("synthetic") is True

    @property
    def twin_record(self) -> Path:
        """How a twin was made: seed, size, refused worlds, medals. For the harness alone."""
        return self.folder / f"twin{self._suffix}.json"

    @property
    def twin(self) -> Mapping[str, Any]:
        """Of a twin: the key of its seed, its size and, with ``--twin-per-seed``, the run's seed; else empty."""
        return as_object(self.state.get("twin"))

    @property
    def description(self) -> str | None:
        """Whose ``description.md`` agents read: ``bundled``, ``kaggle``, or ``other``; None if nothing is prepared.

        ``other`` is that of another program that prepared the data, as MLE-bench.
        """
        source = self.state.get("description")
        if source in DESCRIPTIONS:
            return str(source)
        if not self.is_prepared:
            return None
        try:
            ours = self.competition.description.read_bytes() == (self.public / "description.md").read_bytes()
        except OSError:
            ours = False
        return "bundled" if ours else OTHER

    @property
    def state(self) -> dict[str, Any]:
        """What is known of the prepared data: ``verified``, ``description``, ``fingerprint``, size in ``bytes``, …"""
        try:
            return as_object(json.loads(self.state_file.read_text(encoding="utf-8")))
        except (OSError, ValueError):
            return {}

    def note(self, **changes: Any) -> None:
        """Change values of the state, durably. Raises OSError."""
        files.write_text(self.state_file, json.dumps({**self.state, **changes}) + "\n")

    @property
    def state_file(self) -> Path:
        return self.folder / f"state{self._suffix}.json"


Digest = str | dict[str, Any]
"""An md5 in hexadecimal, or for an archive or a parquet file its members' digests."""


def md5(source: Path | bytes | IO[bytes]) -> str:
    """md5 of a file (read in blocks) or of bytes, in hexadecimal."""
    if isinstance(source, bytes):
        return hashlib.md5(source, usedforsecurity=False).hexdigest()
    if isinstance(source, Path):
        with source.open("rb") as file:
            return md5(file)
    new = partial(hashlib.md5, usedforsecurity=False)
    return hashlib.file_digest(source, new).hexdigest()  # type: ignore[arg-type]  # IO[bytes] does not say `readinto`


def digest(path: Path) -> Digest:
    """The md5 of a file; for zip, tar and 7z archives those of their members, for parquet that of columns and rows."""
    name = path.name
    if name.endswith(".zip"):
        with zipfile.ZipFile(path) as archive:
            return {info.filename: md5(archive.open(info)) for info in archive.infolist() if not info.is_dir()}
    if name.endswith((".tar", ".tar.gz", ".tgz")):
        with tarfile.open(path) as tar:
            members = [info for info in tar if info.isfile()]
            return {info.name: md5(file) for info in members if (file := tar.extractfile(info))}
    if name.endswith(".7z"):
        import py7zr

        with tempfile.TemporaryDirectory() as folder, py7zr.SevenZipFile(path) as seven:
            seven.extractall(folder)
            return dict(listing(Path(folder)))
    if name.endswith(".parquet"):
        import pandas as pd

        table = pd.read_parquet(path)
        columns = repr([str(column) for column in table.columns])
        return {"columns": md5(columns.encode()), "rows": md5(table.to_csv().encode())}
    return md5(path)


def listing(folder: Path) -> dict[str, Digest]:
    """The digest of every file below a folder, by its path relative to it, sorted."""
    return {path.relative_to(folder).as_posix(): digest(path) for path in sorted(folder.rglob("*")) if path.is_file()}


def differences(
    expected: Mapping[str, Any],
    found: Mapping[str, Any],
    where: str = "",
    change: Callable[[Any, Any], str] = ": expected {}, found {}".format,
) -> list[str]:
    """The differences between two listings of the folder ``where``, one sentence per file."""
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
"""Not listed, as it may be replaced (see ``DataStore.prepare``)."""


def checksum_errors(dataset: Dataset) -> list[str]:
    """How the prepared files differ from the competition's checksums; empty if they match or there are none."""
    expected = _checksums(dataset)
    found = {name: digest(path) for name in expected if (path := dataset.prepared / name).is_file()}
    return differences(expected, found)


def listing_errors(dataset: Dataset) -> list[str]:
    """How the prepared files' names and sizes differ from the listing; empty if they match or there is none.

    Files with a checksum are left out.
    """
    try:
        with gzip.open(dataset.listing, "rt", encoding="utf-8") as lines:
            expected = dict(map(json.loads, lines))
    except FileNotFoundError:
        return []
    except (OSError, EOFError, ValueError) as error:
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
    """What distinguishes prepared data from other data of the competition, as runs record it.

    It is made when data is prepared. For data that another program prepared, it is made here, and kept if this user
    may write to its folder.
    """
    known = dataset.state.get("fingerprint")
    if isinstance(known, dict):
        return known
    made = make_fingerprint(dataset)
    with suppress(OSError, locks.LockHeld), locks.hold_lock(dataset.lock_file, "fingerprints", dataset.competition.id):
        dataset.note(fingerprint=made)
    return made


def make_fingerprint(dataset: Dataset) -> dict[str, str]:
    """Digests of the names and sizes of the public files, and of the answers."""
    public = sorted(entry for entry in prepared_files(dataset.prepared) if entry[0].startswith("public/"))
    return {"public_names_and_sizes": md5(json.dumps(public).encode()), "answers": md5(dataset.answers)}


def write_listing(prepared: Path, target: Path) -> int:
    """List names and sizes of all prepared files in a file of compressed JSON lines; returns their total size."""
    total = 0
    with gzip.open(target, "wt", encoding="utf-8", compresslevel=1) as lines:
        for entry in prepared_files(prepared):
            lines.write(json.dumps(entry) + "\n")
            total += entry[1]
    return total


def prepared_files(prepared: Path) -> Iterator[tuple[str, int]]:
    """Relative path and size of each prepared file but the description."""
    for folder, _, names in os.walk(prepared):
        inside = Path(folder).relative_to(prepared).as_posix()
        for name in names:
            if (path := f"{inside}/{name}") != DESCRIPTION:
                yield path, os.lstat(os.path.join(folder, name)).st_size  # noqa: PTH118  (there may be a million)


def _checksums(dataset: Dataset) -> dict[str, Digest]:
    sides = {side: dataset.competition.checksums.get(side) or {} for side in SIDES}
    return dict(_flatten(sides, dataset.prepared))


def _flatten(tree: Mapping[str, Any], prepared: Path, prefix: str = "") -> Iterator[tuple[str, Digest]]:
    for name, value in tree.items():
        path = prefix + name
        if isinstance(value, Mapping) and not (prepared / path).is_file():  # an archive's mapping is of its members
            yield from _flatten(value, prepared, f"{path}/")
        else:
            yield path, value
