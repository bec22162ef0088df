"""The data store's source for prepared data at a URL. Interrupted calls are resumed, and several files move at once."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import threading
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from io import BufferedRandom
from pathlib import Path
from threading import Event
from typing import cast

from pytest_mlebench.catalog import Competition
from pytest_mlebench.catalog.competition import command
from pytest_mlebench.data.dataset import SIDES, Dataset, listing_errors, set_times
from pytest_mlebench.data.download.transfers import in_parallel
from pytest_mlebench.data.preparing import Head, NotPushed
from pytest_mlebench.errors import DataError, UsageError
from pytest_mlebench.extras.remote_data import index
from pytest_mlebench.extras.remote_data.storage import ObjectNotFound, Storage
from pytest_mlebench.io.files import digest_of, remove_tree, shuffled
from pytest_mlebench.io.progress import ByteCounter, Reporter, Step
from pytest_mlebench.io.values import loads

_HASHING_THREADS = 4
_Files = list[tuple[str, index.ListedFile]]
"""Files with their parts: ``public`` or ``private``."""


class RemoteSource(Storage):
    """The objects below a URL, from and to which prepared data is copied (see ``data.preparing.DataSource``)."""

    def head(self, competition: Competition, reporter: Reporter) -> index.IndexHead:
        """Read the head of a competition's data. Raises NotPushed, or DataError if its index is damaged."""
        name = index.Layout(competition).head
        try:
            return index.parse_head(self.read(name, index.HEAD_BYTES, reporter), competition)
        except ObjectNotFound:
            raise NotPushed(
                f"{competition.id}: {self.url} has no data for it ({name} is missing); "
                f"push it from where it is prepared: {_push_command(self, competition)}"
            ) from None
        except index.IndexDamaged as error:
            raise _damaged(self, competition, name, str(error)) from error

    def bytes_there(self, work: Path) -> int:
        """Bytes in the files that an earlier call of ``pull`` left."""
        found = (os.path.join(folder, name) for folder, _, names in os.walk(work) for name in names)  # noqa: PTH118
        return sum(os.lstat(path).st_size for path in found)

    def pull(
        self,
        competition: Competition,
        head: Head,
        work: Path,
        reporter: Reporter,
        only: Collection[str] = SIDES,
    ) -> Path:
        """See ``DataSource.pull``. Lists of parts that are not requested are not read, since access may be denied.

        Files that an earlier call left in ``work`` are reused if their digests match. The caller must keep other
        processes out of this folder. If DataError is raised, the files that have arrived are kept.
        """
        known, layout = cast("index.IndexHead", head), index.Layout(competition)
        _discard_other_data(work, known)
        prepared, parts = work / Path(layout.folder).name, work / "parts"
        parts.mkdir(parents=True, exist_ok=True)
        todo: _Files = []
        sides = [side for side in SIDES if any(name.partition("/")[0] == side for name in only)]
        for side in sides:
            (prepared / side).mkdir(parents=True, exist_ok=True)
            name = layout.list_of(side)
            try:
                entries = index.read_list(self.read(name, index.LIST_BYTES, reporter), known.parts[side])
            except (ObjectNotFound, index.IndexDamaged) as error:
                raise _damaged(self, competition, name, str(error)) from error
            wanted = (entry for entry in entries if side in only or f"{side}/{entry.name}" in only)
            todo += ((side, entry) for entry in shuffled(wanted))
        count = _SharedCount(reporter, competition, "pulling", todo)
        pulling = _Pull(self, competition, prepared, parts, count, reporter)
        reporter(Step(competition.id, "pulling"))
        in_parallel(lambda one: pulling.file(*one), todo, self.files_at_once, pulling.stopped)
        shutil.rmtree(parts)
        for side in sides:
            set_times(prepared / side)
        return prepared

    def push(self, dataset: Dataset, *, replace: bool, reporter: Reporter) -> int:
        """Write the files that are missing at the URL, and the index last; returns the number of files.

        The caller must hold the data set's lock. Raises DataError if the URL has other data, unless ``replace`` is set:
        then all of that data is removed first.
        """
        if self.scheme in ("http", "https"):
            raise UsageError(f"{self.url}: data cannot be pushed to {self.scheme}://; use s3://, gs:// or file://")
        if changed := listing_errors(dataset):
            raise DataError(
                f"{dataset.competition.id}: {changed[0]}; data that has changed since it was prepared is not pushed: "
                "see `mlebench verify`"
            )
        pushing = _Push(self, dataset, reporter)
        if replace:
            pushing.clear()
        is_complete = not replace and pushing.is_there()
        if not is_complete:
            pushing.claim()
        count = pushing.files()
        if not is_complete:
            pushing.finish()
        return count


class _SharedCount:
    """Reports the bytes that several threads have transferred."""

    def __init__(self, reporter: Reporter, competition: Competition, activity: str, files: _Files) -> None:
        self._count = ByteCounter(reporter, competition.id, activity, sum(entry.size for _, entry in files))
        self._lock, self._done = threading.Lock(), 0

    def __call__(self, size: int) -> None:
        with self._lock:
            self._done += size
            if size > 0:
                self._count(self._done)


def _discard_other_data(work: Path, head: index.IndexHead) -> None:
    """Empty the folder if it was used to pull other data."""
    note = work / "data"
    with suppress(OSError):
        if note.read_text() == head.digest:
            return
    remove_tree(work)
    work.mkdir(parents=True)
    note.write_text(head.digest)


@dataclass
class _Pull:
    """The transfer of one competition's files from the URL."""

    storage: Storage
    competition: Competition
    prepared: Path
    parts: Path
    count: _SharedCount
    reporter: Reporter
    stopped: Event = field(default_factory=Event)

    def file(self, side: str, entry: index.ListedFile) -> None:
        target = self.prepared / side / entry.name
        name = index.Layout(self.competition).file(side, entry)
        if target.exists():  # an earlier call has pulled it
            if target.lstat().st_size == entry.size and digest_of(target) == entry.sha256:
                self.count(entry.size)
                return
            target.unlink()  # damaged, as after a power failure
        target.parent.mkdir(parents=True, exist_ok=True)
        part = self.parts / hashlib.sha256(name.encode()).hexdigest()
        with part.open("ab+") as file:
            download = _Part(file)
            if download.size > entry.size:
                download.restart()
            self.count(download.size)
            resumed = download.size
            if download.size < entry.size:
                self._fetch(download, name, entry)
            if download.sha256 != entry.sha256 and resumed:  # the object may have been replaced since
                self.count(-download.size)
                download.restart()
                self._fetch(download, name, entry)
            if download.sha256 != entry.sha256:
                part.unlink()
                raise _damaged(self.storage, self.competition, name, "its SHA-256 differs from the index")
        part.replace(target)

    def _fetch(self, download: _Part, name: str, entry: index.ListedFile) -> None:
        def transfer() -> None:
            start, blocks = self.storage.blocks(name, download.size, entry.size)
            if start < download.size:
                self.count(-download.size)
                download.restart()
            for block in blocks:
                if self.stopped.is_set():
                    raise DataError("stopped")
                download.append(block)
                self.count(len(block))

        try:
            self.storage.retry(transfer, name, self.reporter, lambda: download.size, self.stopped)
        except ObjectNotFound:
            raise _damaged(self.storage, self.competition, name, "it is missing, and the index lists it") from None
        if download.size < entry.size:
            why = f"{self.storage.where(name)} has {download.size} bytes instead of {entry.size}"
            raise _damaged(self.storage, self.competition, name, why)


class _Part:
    """A partial file, with the digest of its content."""

    def __init__(self, file: BufferedRandom) -> None:
        self._file = file
        file.seek(0)
        self._digest = hashlib.file_digest(file, "sha256")
        self.size = file.tell()

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def append(self, block: bytes) -> None:
        self._file.write(block)
        self._file.flush()
        self._digest.update(block)
        self.size += len(block)

    def restart(self) -> None:
        self._file.truncate(0)
        self.size, self._digest = 0, hashlib.sha256()


class _Push:
    """The transfer of one competition's data to the URL."""

    def __init__(self, storage: RemoteSource, dataset: Dataset, reporter: Reporter) -> None:
        self._storage, self._dataset, self._reporter = storage, dataset, reporter
        self._competition, self._layout = dataset.competition, index.Layout(dataset.competition)
        reporter(Step(self._competition.id, "hashing"))
        self._entries = [(side, entry) for side in SIDES for entry in _entries(dataset.prepared / side)]
        lists = {side: index.write_list(entry for part, entry in self._entries if part == side) for side in SIDES}
        self._lists = {side: packed for side, (packed, _) in lists.items()}
        self._head = index.IndexHead(
            id=self._competition.id,
            version=self._competition.version,
            parts={side: part for side, (_, part) in lists.items()},
            description=dataset.description,
            verified=dataset.is_verified,
        )

    def clear(self) -> None:
        """Remove the data at the URL: the index first, so that the rest does not appear complete."""
        for name in (self._layout.head, self._layout.pushing, *map(self._layout.list_of, SIDES)):
            self._storage.remove(name, reporter=self._reporter)
        self._storage.remove(self._layout.folder, recursive=True, reporter=self._reporter)

    def is_there(self) -> bool:
        """Whether the URL has an index of the same data. Raises DataError if it has one of other data."""
        try:
            found = self._storage.head(self._competition, self._reporter)
        except NotPushed:
            return False
        if found.digest != self._head.digest:
            raise self._refused("has other data for it")
        return True

    def claim(self) -> None:
        """Write a note of the data that will be pushed. Raises DataError if the URL has files of other data."""
        try:
            if self._claimed() != self._head.digest:
                raise self._refused("has a part of other data for it, from an interrupted or running push")
        except ObjectNotFound:
            if self._storage.sizes(self._layout.folder, self._reporter):
                raise self._refused("has files for it that no index lists") from None
            note = json.dumps({"sha256": self._head.digest}).encode()
            self._storage.write(self._layout.pushing, note, self._reporter)

    def _claimed(self) -> str:
        """The digest of the data that is being pushed; empty if the note is invalid."""
        note = self._storage.read(self._layout.pushing, index.HEAD_BYTES, self._reporter)
        try:
            return str(loads(note)["sha256"])
        except (ValueError, LookupError, TypeError):
            return ""

    def _missing(self) -> _Files:
        """The files that are missing at the URL, or have another size there."""
        sizes = self._storage.sizes(self._layout.folder, self._reporter)
        return [(side, entry) for side, entry in self._entries if sizes.get(f"{side}/{entry.name}") != entry.size]

    def files(self) -> int:
        """Write the missing files; returns their number."""
        todo = self._missing()
        count = _SharedCount(self._reporter, self._competition, "pushing", todo)
        stopped = Event()

        def upload(one: tuple[str, index.ListedFile]) -> None:
            side, entry = one
            file = self._dataset.prepared / side / entry.name
            self._storage.upload(file, self._layout.file(side, entry), self._reporter, stopped)
            count(entry.size)

        in_parallel(upload, todo, self._storage.files_at_once, stopped)
        if todo and (lost := self._missing()):
            raise DataError(
                f"{self._competition.id}: {self._storage.url} did not store {lost[0][1].name} as it was written; "
                f"push again: {_push_command(self._storage, self._competition)}"
            )
        return len(todo)

    def finish(self) -> None:
        """Write the index, the head last."""
        if self._claimed() != self._head.digest:
            raise self._refused("has received other data for it meanwhile")
        for side, packed in self._lists.items():
            self._storage.write(self._layout.list_of(side), packed, self._reporter)
        self._storage.write(self._layout.head, self._head.to_json(), self._reporter)
        self._storage.remove(self._layout.pushing, reporter=self._reporter)

    def _refused(self, reason: str) -> DataError:
        return DataError(
            f"{self._competition.id}: {self._storage.url} {reason}; nothing is overwritten: push to another URL, or "
            f"replace it: {_push_command(self._storage, self._competition, '--replace')}"
        )


def _entries(folder: Path) -> list[index.ListedFile]:
    files = [Path(inside, name) for inside, _, names in os.walk(folder) for name in names]
    return sorted(in_parallel(partial(_entry, folder), files, _HASHING_THREADS), key=lambda entry: entry.name)


def _entry(folder: Path, path: Path) -> index.ListedFile:
    name = path.relative_to(folder).as_posix()
    if path.is_symlink() or not path.is_file() or not index.is_inside(name):
        raise DataError(f"{path} is not a plain file, or its name is too long or not UTF-8: it cannot be pushed")
    return index.ListedFile(name, path.stat().st_size, digest_of(path))


def _push_command(storage: Storage, competition: Competition, *options: str) -> str:
    return command("push", competition, shlex.quote(storage.url), *options)


def _damaged(storage: Storage, competition: Competition, name: str, problem: str) -> DataError:
    again = _push_command(storage, competition, "--replace")
    text = problem if storage.url in problem else f"{storage.where(name)} is damaged: {problem}"
    return DataError(f"{competition.id}: {text}; push the data again from where it is prepared: {again}")
