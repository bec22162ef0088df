"""The data store's source for data at a URL. Data is pushed unchanged, and the index is written last."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path
from threading import Event

from pytest_mlebench.data.dataset import SIDES, Dataset, listing_errors
from pytest_mlebench.data.download.transfers import in_parallel
from pytest_mlebench.data.preparing import NotPushed
from pytest_mlebench.errors import DataError, UsageError
from pytest_mlebench.extras.remote_data import index
from pytest_mlebench.extras.remote_data.pull import PullSource, SharedCount, digest_of, push_command
from pytest_mlebench.extras.remote_data.storage import ObjectNotFound
from pytest_mlebench.io.progress import Reporter, Step
from pytest_mlebench.io.values import loads

_HASHING_THREADS = 4


class RemoteSource(PullSource):
    """A source to which prepared data can also be pushed (see ``data.preparing.DataSource``)."""

    def push(self, dataset: Dataset, *, replace: bool, reporter: Reporter) -> int:
        """Write the files that are missing at the URL; returns their number. The caller must hold the data set's lock.

        An interrupted call is resumed. Raises DataError if the URL has other data, unless ``replace`` is set: then all
        of that data is removed first.
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


class _Push:
    """The transfer of one competition's data."""

    def __init__(self, storage: PullSource, dataset: Dataset, reporter: Reporter) -> None:
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

    def _missing(self) -> list[tuple[str, index.ListedFile]]:
        """The files that are missing at the URL, or have another size there."""
        sizes = self._storage.sizes(self._layout.folder, self._reporter)
        return [(side, entry) for side, entry in self._entries if sizes.get(f"{side}/{entry.name}") != entry.size]

    def files(self) -> int:
        """Write the missing files; returns their number."""
        todo = self._missing()
        count = SharedCount(self._reporter, self._competition, "pushing", sum(entry.size for _, entry in todo))
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
                f"push again: {push_command(self._storage, self._competition)}"
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
            f"replace it: {push_command(self._storage, self._competition, '--replace')}"
        )


def _entries(folder: Path) -> list[index.ListedFile]:
    files = [Path(inside, name) for inside, _, names in os.walk(folder) for name in names]
    return sorted(in_parallel(partial(_entry, folder), files, _HASHING_THREADS), key=lambda entry: entry.name)


def _entry(folder: Path, path: Path) -> index.ListedFile:
    name = path.relative_to(folder).as_posix()
    if path.is_symlink() or not path.is_file() or not index.is_inside(name):
        raise DataError(f"{path} is not a plain file, or its name is too long or not UTF-8: it cannot be pushed")
    return index.ListedFile(name, path.stat().st_size, digest_of(path))
