"""Pulls a competition's prepared data from a URL, several files at once. An interrupted call is resumed."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import threading
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from io import BufferedRandom
from pathlib import Path
from threading import Event
from typing import cast

from pytest_mlebench.catalog import Competition
from pytest_mlebench.catalog.competition import command
from pytest_mlebench.data.dataset import SIDES, set_times
from pytest_mlebench.data.download.transfers import in_parallel
from pytest_mlebench.data.preparing import Head, NotPushed
from pytest_mlebench.errors import DataError
from pytest_mlebench.extras.remote_data import index
from pytest_mlebench.extras.remote_data.storage import ObjectNotFound, Storage
from pytest_mlebench.io.files import remove_tree, shuffled
from pytest_mlebench.io.progress import ByteCounter, Reporter, Step


class PullSource(Storage):
    """The objects below a URL, from which prepared data can be pulled (see ``data.preparing.DataSource``)."""

    def head(self, competition: Competition, reporter: Reporter) -> index.IndexHead:
        """Read the head of a competition's data. Raises NotPushed, or DataError if its index is damaged."""
        name = index.Layout(competition).head
        try:
            return index.parse_head(self.read(name, index.HEAD_BYTES, reporter), competition)
        except ObjectNotFound:
            raise NotPushed(
                f"{competition.id}: {self.url} has no data for it ({name} is missing); "
                f"push it from where it is prepared: {push_command(self, competition)}"
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
        todo: list[tuple[str, index.ListedFile]] = []
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
        count = SharedCount(reporter, competition, "pulling", sum(entry.size for _, entry in todo))
        pulling = _Pull(self, competition, prepared, parts, count, reporter)
        reporter(Step(competition.id, "pulling"))
        in_parallel(lambda one: pulling.file(*one), todo, self.files_at_once, pulling.stopped)
        shutil.rmtree(parts)
        for side in sides:
            set_times(prepared / side)
        return prepared


def _discard_other_data(work: Path, head: index.IndexHead) -> None:
    """Empty the folder if it was used to pull other data."""
    note = work / "data"
    with suppress(OSError):
        if note.read_text() == head.digest:
            return
    remove_tree(work)
    work.mkdir(parents=True)
    note.write_text(head.digest)


class SharedCount:
    """Reports the bytes that several threads have transferred."""

    def __init__(self, reporter: Reporter, competition: Competition, activity: str, total: int) -> None:
        self._count = ByteCounter(reporter, competition.id, activity, total)
        self._lock, self._done = threading.Lock(), 0

    def __call__(self, size: int) -> None:
        with self._lock:
            self._done += size
            if size > 0:
                self._count(self._done)


@dataclass
class _Pull:
    """The transfer of one competition's files."""

    storage: Storage
    competition: Competition
    prepared: Path
    parts: Path
    count: SharedCount
    reporter: Reporter
    stopped: Event = field(default_factory=Event)

    def file(self, side: str, entry: index.ListedFile) -> None:
        target = self.prepared / side / entry.name
        name = index.Layout(self.competition).file(side, entry)
        if self._is_pulled(target, entry):
            return
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

    def _is_pulled(self, target: Path, entry: index.ListedFile) -> bool:
        """Whether an earlier call has pulled the file. A damaged file, as after a power failure, is removed."""
        if not target.exists():
            return False
        if target.lstat().st_size == entry.size and digest_of(target) == entry.sha256:
            self.count(entry.size)
            return True
        target.unlink()
        return False

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


def digest_of(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def push_command(storage: Storage, competition: Competition, *options: str) -> str:
    return command("push", competition, shlex.quote(storage.url), *options)


def _damaged(storage: Storage, competition: Competition, name: str, problem: str) -> DataError:
    again = push_command(storage, competition, "--replace")
    text = problem if storage.url in problem else f"{storage.where(name)} is damaged: {problem}"
    return DataError(f"{competition.id}: {text}; push the data again from where it is prepared: {again}")
