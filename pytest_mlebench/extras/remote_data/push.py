"""Pushing a competition's prepared data to a URL, as it is; the index comes last."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from threading import Event

from pytest_mlebench.data.dataset import SIDES, Dataset, listing_errors
from pytest_mlebench.data.download.contract import in_parallel
from pytest_mlebench.data.preparing import NotPushed
from pytest_mlebench.errors import DataError, UsageError
from pytest_mlebench.extras.remote_data.index import (
    HEAD_BYTES,
    IndexHead,
    IndexPart,
    Layout,
    ListedFile,
    is_inside,
    write_list,
)
from pytest_mlebench.extras.remote_data.pull import SharedCount, digest_of, push_command, read_head
from pytest_mlebench.extras.remote_data.storage import Absent, Storage
from pytest_mlebench.io.progress import Reporter, Step, silent
from pytest_mlebench.io.values import loads

_HASHERS = 4


def push(storage: Storage, dataset: Dataset, *, replace: bool = False, reporter: Reporter = silent) -> int:
    """Write what is missing at the URL, and return how many files that were. The caller holds the data set's lock.

    An earlier call that was stopped is resumed. Other data that is there already stays, and is a DataError, unless
    it is to be replaced: then all of it is removed first.
    """
    if storage.scheme in ("http", "https"):
        raise UsageError(f"{storage.url}: data cannot be pushed to {storage.scheme}://; use s3://, gs:// or file://")
    competition = dataset.competition
    if wrong := listing_errors(dataset):
        raise DataError(
            f"{competition.id}: {wrong[0]}; what has changed since it was prepared is not pushed: see `mlebench verify`"
        )
    pushing = _Push(storage, dataset, reporter)
    reporter(Step(competition.id, "hashing"))
    lists, head = pushing.index()
    if replace:
        pushing.clear()
    is_complete = not replace and pushing.is_there(head)
    if not is_complete:
        pushing.claim(head)
    count = pushing.files()
    if not is_complete:
        pushing.finish(lists, head)
    return count


class _Push:
    """One competition's data on its way."""

    def __init__(self, storage: Storage, dataset: Dataset, reporter: Reporter) -> None:
        self._storage, self._dataset, self._reporter = storage, dataset, reporter
        self._competition, self._layout = dataset.competition, Layout(dataset.competition)
        self._entries: list[tuple[str, ListedFile]] = []

    def index(self) -> tuple[Mapping[str, bytes], IndexHead]:
        """The lists of both parts, and their head."""
        lists: dict[str, bytes] = {}
        parts: dict[str, IndexPart] = {}
        for side in SIDES:
            folder = self._dataset.prepared / side
            files = [Path(inside, name) for inside, _, names in os.walk(folder) for name in names]
            entries = in_parallel(partial(_entry, folder), files, _HASHERS)
            entries.sort(key=lambda entry: entry.name)
            self._entries += ((side, entry) for entry in entries)
            lists[side], parts[side] = write_list(entries)
        head = IndexHead(
            id=self._competition.id,
            version=self._competition.version,
            parts=parts,
            description=self._dataset.description,
            verified=self._dataset.is_verified,
        )
        return lists, head

    def clear(self) -> None:
        """Remove what is there: the index first, so that nobody takes the rest for complete."""
        for name in (self._layout.head, self._layout.pushing, *map(self._layout.list_of, SIDES)):
            self._storage.remove(name, reporter=self._reporter)
        self._storage.remove(self._layout.folder, recursive=True, reporter=self._reporter)

    def is_there(self, head: IndexHead) -> bool:
        """Whether the URL has an index of the same data. Raises DataError for that of other data."""
        try:
            found = read_head(self._storage, self._competition, self._reporter)
        except NotPushed:
            return False
        if found.digest != head.digest:
            raise self._refused("has other data of it")
        return True

    def claim(self, head: IndexHead) -> None:
        """Note which data is going to be written. Raises DataError where files of other data are."""
        name = self._layout.pushing
        try:
            known = _digest_of(self._storage.read(name, HEAD_BYTES, self._reporter))
        except Absent:
            if self._storage.sizes(self._layout.folder, self._reporter):
                raise self._refused("has files of it that no index lists") from None
            self._storage.write(name, json.dumps({"sha256": head.digest}).encode(), self._reporter)
            return
        if known != head.digest:
            raise self._refused("has a part of other data of it, whose push was stopped or continues")

    def files(self) -> int:
        """Write the files that are missing, or have another size."""
        there = self._storage.sizes(self._layout.folder, self._reporter)
        todo = [(side, entry) for side, entry in self._entries if there.get(f"{side}/{entry.name}") != entry.size]
        count = SharedCount(self._reporter, self._competition, "pushing", sum(entry.size for _, entry in todo))
        stopped = Event()

        def upload(one: tuple[str, ListedFile]) -> None:
            side, entry = one
            file = self._dataset.prepared / side / entry.name
            self._storage.upload(file, self._layout.file(side, entry), self._reporter, stopped)
            count(entry.size)

        in_parallel(upload, todo, self._storage.files_at_once, stopped)
        if todo:
            there = self._storage.sizes(self._layout.folder, self._reporter)
            if lost := [entry.name for side, entry in self._entries if there.get(f"{side}/{entry.name}") != entry.size]:
                raise DataError(
                    f"{self._competition.id}: {self._storage.url} has not kept {lost[0]} as it was written; "
                    f"call again: {push_command(self._storage, self._competition)}"
                )
        return len(todo)

    def finish(self, lists: Mapping[str, bytes], head: IndexHead) -> None:
        """Write the index, the head last."""
        if _digest_of(self._storage.read(self._layout.pushing, HEAD_BYTES, self._reporter)) != head.digest:
            raise self._refused("was given other data of it meanwhile")
        for side in SIDES:
            self._storage.write(self._layout.list_of(side), lists[side], self._reporter)
        self._storage.write(self._layout.head, head.to_json(), self._reporter)
        self._storage.remove(self._layout.pushing, reporter=self._reporter)

    def _refused(self, what: str) -> DataError:
        return DataError(
            f"{self._competition.id}: {self._storage.url} {what}, which is not overwritten; push to another URL, or "
            f"replace it: {push_command(self._storage, self._competition)} --replace"
        )


def _digest_of(note: bytes) -> str:
    try:
        return str(loads(note)["sha256"])
    except (ValueError, LookupError, TypeError):
        return ""


def _entry(folder: Path, path: Path) -> ListedFile:
    name = path.relative_to(folder).as_posix()
    if path.is_symlink() or not path.is_file() or not is_inside(name):
        raise DataError(f"{path} is not a plain file, or its name is too long: it cannot be pushed")
    return ListedFile(name, path.stat().st_size, digest_of(path))
