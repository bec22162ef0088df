"""The data store: each competition's raw and prepared data, either absent or complete."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypedDict, Unpack

from pytest_mlebench.catalog.competition import Competition
from pytest_mlebench.data import disk, durable, locks
from pytest_mlebench.data.archives import ArchiveError, unpack_zip, unpacked_size
from pytest_mlebench.data.dataset import Dataset, Description
from pytest_mlebench.data.downloads import Downloads
from pytest_mlebench.data.preparing import READ_ONLY, run_prepare
from pytest_mlebench.data.steps import Step, Tell, counter, quiet
from pytest_mlebench.data.verification import checksum_errors, listing_errors, write_listing
from pytest_mlebench.errors import DataError

ENVIRONMENT_VARIABLE = "MLEBENCH_DATA_DIR"
PARALLEL_DOWNLOADS = 4
_LEFTOVERS = (".unpacking-*", ".preparing-*", ".describing-*", ".removing-*")


def default_data_dir() -> Path:
    """``$MLEBENCH_DATA_DIR``, else ``mlebench`` in the user's cache folder."""
    if configured := os.environ.get(ENVIRONMENT_VARIABLE):
        return Path(configured)
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "mlebench"


class PrepareOptions(TypedDict, total=False):
    """How to prepare a competition (see ``DataStore.prepare``)."""

    raw_dir: Path | None
    verify: bool
    force: bool
    keep_raw: bool | None
    description: Description | None
    check_disk: bool


class DataStore:
    """The data of all competitions below one folder; at most ``parallel_downloads`` come in at once, of any process."""

    def __init__(self, root: Path, *, parallel_downloads: int = PARALLEL_DOWNLOADS) -> None:
        self.root = root
        self.parallel_downloads = parallel_downloads

    def command(self, name: str, competition: Competition, *options: str) -> str:
        """What to type for a competition in this store: ``mlebench prepare -c ID``."""
        place = () if self.root == default_data_dir() else (f"--data-dir {self.root}",)
        return " ".join([f"mlebench {name} -c {competition.id}", *place, *options])

    def dataset(self, competition: Competition) -> Dataset:
        """Where the competition's data is, or would be."""
        return Dataset(competition, self.root / competition.id)

    @contextmanager
    def lock(self, competition: Competition, doing: str = "uses", tell: Tell | None = quiet) -> Iterator[None]:
        """Exclusive use of a competition's folder (see ``locks.hold``); without ``tell`` raises LockHeld at once."""
        with ExitStack() as held, self._in_words(competition):
            (self.root / competition.id).mkdir(parents=True, exist_ok=True)
            waiting = None if tell is None else lambda text: tell(Step(doing=text))
            held.enter_context(locks.hold(self._lock(competition), f"{doing} {competition.id}", waiting))
            yield

    def holder(self, competition: Competition) -> str | None:
        """Who uses the competition's folder exclusively, if anybody does."""
        return locks.holder(self._lock(competition))

    def is_ready(self, competition: Competition, **options: Unpack[PrepareOptions]) -> bool:
        """Whether ``prepare`` with these options has nothing to do."""
        dataset = self.dataset(competition)
        wanted = options.get("description")
        return not options.get("force") and dataset.is_prepared and wanted in (None, dataset.description)

    def needs_archive(self, competition: Competition, **options: Unpack[PrepareOptions]) -> bool:
        """Whether ``prepare`` with these options would download the competition's archive."""
        return self._needs_raw(competition, **options) and not self.dataset(competition).archive.is_file()

    def need(self, competition: Competition, downloads: Downloads, **options: Unpack[PrepareOptions]) -> disk.Need:
        """The disk that a download, or an archive that is there, takes until its data is prepared."""
        dataset = self.dataset(competition)
        keep_raw = options.get("keep_raw") or False
        if not self._needs_raw(competition, **options):
            return disk.Need(peak=0, rest=0)
        if dataset.archive.is_file():
            size = dataset.archive.stat().st_size
            try:
                unpacked = unpacked_size(dataset.archive)
            except ArchiveError:  # which unpacking it will tell
                unpacked = 0
            return disk.Need.of(download=size, unpacked=unpacked, present=size, keep_raw=keep_raw)
        sizes, part = downloads.size(competition), dataset.partial_archive
        present = part.stat().st_size if part.is_file() else 0
        return disk.Need.of(download=sizes.download, unpacked=sizes.unpacked, present=present, keep_raw=keep_raw)

    def prepare(
        self,
        competition: Competition,
        *,
        downloads: Downloads | None = None,
        tell: Tell = quiet,
        **options: Unpack[PrepareOptions],
    ) -> Dataset:
        """Prepare a competition's data, unless it is there already, going on where an earlier call was stopped.

        The raw data is the store's own, else what ``<id>.zip`` in its folder holds, else it comes from ``downloads``.
        The archive goes once it is unpacked. ``tell`` is told of every step.

        Options: ``raw_dir`` is an unpacked download outside of the store; its files are hard-linked where they can be,
        and so become read-only, and checksums are noted but need not hold. ``verify`` (True) compares checksums.
        ``force`` prepares again. ``keep_raw`` (True): if False, the store's own raw data is removed afterwards; if
        None, only what this call has unpacked or downloaded. ``description`` is whose description agents read, also
        where the data is prepared already (None: leave it, or ours). ``check_disk`` (True) asks before a download
        whether there is room for it.

        Raises DataError and leaves no half-made data behind; prepared data that is not the reference's is kept aside.
        """
        dataset = self.dataset(competition)
        if self.is_ready(competition, **options):
            return dataset
        with self.lock(competition, "prepares", tell):
            self._tidy(dataset)
            if options.get("force") or not dataset.is_prepared:  # else another process was faster
                self._make(dataset, downloads, tell, **options)
            if (description := options.get("description")) is not None:
                self._describe(dataset, description, downloads)
        return dataset

    def verify(self, competition: Competition) -> list[str]:
        """What of the prepared data is missing, has changed or should not be there; notes whether the checksums hold.

        Checksums are compared where the competition has them, else sizes with those when it was prepared.
        """
        dataset = self.dataset(competition)
        if not dataset.is_prepared:
            raise DataError(f"{competition.id}: is not prepared; run: {self.command('prepare', competition)}")
        with self._in_words(competition):
            wrong = [*checksum_errors(dataset), *listing_errors(dataset)]
        if os.access(dataset.folder, os.W_OK):
            with self.lock(competition, "verifies"):
                dataset.note(verified=not wrong)
        return wrong

    def remove(self, competition: Competition, *, raw_only: bool = False) -> int:
        """Remove a competition's data, or only what it was prepared from; returns the bytes that this frees.

        Raises LockHeld while another process uses it.
        """
        dataset = self.dataset(competition)
        if not dataset.folder.is_dir():
            return 0
        try:
            with self.lock(competition, "removes", tell=None):
                self._tidy(dataset)
                archives = set(dataset.folder.glob(f"{dataset.archive.name}*"))
                everything = {path for path in dataset.folder.iterdir() if not path.name.startswith(".lock")}
                paths = archives | {dataset.raw} if raw_only else everything
                freed = disk.used(paths)
                for path in paths:
                    _remove(path)
        except locks.LockHeld as holder:
            raise locks.LockHeld(f"{competition.id}: in use by {holder}; nothing was removed") from None
        return freed

    def _needs_raw(self, competition: Competition, **options: Unpack[PrepareOptions]) -> bool:
        dataset = self.dataset(competition)
        if competition.source == "bundled" or options.get("raw_dir") is not None:
            return False
        return not dataset.has_raw and (options.get("force", False) or not dataset.is_prepared)

    def _make(
        self, dataset: Dataset, downloads: Downloads | None, tell: Tell, **options: Unpack[PrepareOptions]
    ) -> None:
        competition = dataset.competition
        raw_dir, keep_raw = options.get("raw_dir"), options.get("keep_raw", True)
        had_raw = dataset.has_raw or dataset.archive.is_file()
        if self._needs_raw(competition, **options):
            if self.needs_archive(competition, **options):
                self._download(dataset, downloads, tell, **options)
            self._unpack(dataset, tell)
        self._prepare(dataset, raw_dir, tell, verify=options.get("verify", True))
        if not (had_raw if keep_raw is None else keep_raw):
            _remove(dataset.raw)
            _remove(dataset.archive)  # beside raw data it is what a call left that was killed just then

    def _download(
        self, dataset: Dataset, downloads: Downloads | None, tell: Tell, **options: Unpack[PrepareOptions]
    ) -> None:
        competition = dataset.competition
        if downloads is None:
            raise DataError(
                f"{competition.id}: no raw data at {dataset.raw}; download it: {self.command('prepare', competition)}, "
                f"or name an unpacked download: {self.command('prepare', competition, '--raw-dir FOLDER')}"
            )
        if options.get("check_disk", True):
            disk.require(self.root, [self.need(competition, downloads, **options)], 1)
        slots = self.root / ".downloads"
        slots.mkdir(exist_ok=True)
        paths = [slots / f"{number}.lock" for number in range(self.parallel_downloads)]
        with locks.hold_any(paths, f"downloads {competition.id}", lambda text: tell(Step(doing=text))):
            tell(Step(doing="downloading"))
            downloads.download(competition, dataset.archive, counter(tell, "downloading"))

    def _unpack(self, dataset: Dataset, tell: Tell) -> None:
        archive = dataset.archive
        try:
            size = unpacked_size(archive)
            disk.require(self.root, [disk.Need(peak=size, rest=size)], 1)
            with durable.scratch(dataset.folder, ".unpacking-") as name:
                work = Path(name, "raw")
                unpack_zip(archive, work, progress=counter(tell, "unpacking", size))
                durable.sync(dataset.folder)
                durable.publish(work, dataset.raw)
        except ArchiveError as error:
            aside = archive.replace(archive.with_name(f"{archive.name}.damaged"))
            raise DataError(
                f"{dataset.competition.id}: {error}. It is kept as {aside.name}; call again to download it anew"
            ) from error
        archive.unlink()

    def _prepare(self, dataset: Dataset, raw_dir: Path | None, tell: Tell, *, verify: bool) -> None:
        competition = dataset.competition
        tell(Step(doing="preparing"))
        with durable.scratch(dataset.folder, ".preparing-") as name:
            new = Dataset(competition, Path(name))
            run_prepare(competition, raw_dir if raw_dir is not None else dataset.raw, new)
            if verify:
                tell(Step(doing="verifying"))
            wrong = checksum_errors(new) if verify else []
            mismatch = dataset.folder / "prepared.mismatch"
            if mismatch.exists():
                mismatch.rename(new.folder / "mismatch")
            if wrong and raw_dir is None:
                new.prepared.rename(mismatch)
                raise DataError(self._mismatch(dataset, mismatch, wrong))
            size = write_listing(new.prepared, new.listing)
            durable.sync(dataset.folder)
            if dataset.prepared.exists():
                dataset.prepared.rename(new.folder / "replaced")
            new.listing.replace(dataset.listing)
            dataset.note(verified=not wrong if verify else None, description="bundled", bytes=size)
            durable.publish(new.prepared, dataset.prepared)

    def _describe(self, dataset: Dataset, source: Description, downloads: Downloads | None) -> None:
        competition = dataset.competition
        if dataset.description == source:
            return
        if source == "bundled":
            text = competition.description.read_text(encoding="utf-8")
        elif downloads is not None:
            text = downloads.description(competition)
        else:
            command = self.command("prepare", competition, "--description kaggle")
            raise DataError(f"{competition.id}: Kaggle's description must be fetched: {command}")
        # A new file that takes the old one's place: that one may be a hard link to raw data, or be read right now.
        with durable.scratch(dataset.folder, ".describing-") as name:
            new = Path(name, "description.md")
            new.write_text(text, encoding="utf-8")
            new.chmod(READ_ONLY)
            dataset.note(description=None)  # so that a call that is stopped here claims nothing
            durable.sync(dataset.folder)
            new.replace(dataset.public / "description.md")
        dataset.note(description=source)

    def _mismatch(self, dataset: Dataset, aside: Path, wrong: list[str]) -> str:
        id = dataset.competition.id
        lines = wrong[:20] + ([f"... and {len(wrong) - 20} more"] if len(wrong) > 20 else [])
        again = self.command("remove", dataset.competition, "--raw"), self.command("prepare", dataset.competition)
        anyway = self.command("prepare", dataset.competition, "--skip-verification")
        return (
            f"{id}: prepared data is not the reference's:\n  "
            + "\n  ".join(lines)
            + f"\nIt is kept in {aside}. If the "
            f"raw data in {dataset.raw} may be incomplete, get it anew: {again[0]} && {again[1]}. "
            f"To use the data as it is: {anyway}"
        )

    def _tidy(self, dataset: Dataset) -> None:
        """Remove what a process left that was killed; whoever holds the lock may."""
        for pattern in _LEFTOVERS:
            for path in dataset.folder.glob(pattern):
                shutil.rmtree(path, ignore_errors=True)

    def _lock(self, competition: Competition) -> Path:
        return self.root / competition.id / ".lock"

    @contextmanager
    def _in_words(self, competition: Competition) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if disk.is_full(error, self.root):
                raise disk.full(competition.id, self.root) from error
            where = error.filename or self.root
            raise DataError(
                f"{competition.id}: data directory {self.root} cannot be written: {error.strerror or error} ({where})"
            ) from error


def _remove(path: Path) -> None:
    """Remove a file or folder so that at no moment half of it lies under its name."""
    doomed = path.with_name(f".removing-{path.name}")
    try:
        path.rename(doomed)
    except FileNotFoundError:
        return
    if doomed.is_dir() and not doomed.is_symlink():
        shutil.rmtree(doomed)
    else:
        doomed.unlink()
