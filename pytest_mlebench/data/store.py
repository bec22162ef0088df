"""The data store: each competition's raw and prepared data, either absent or complete."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, get_args

from pytest_mlebench.authoring.archives import ArchiveError, unpack_zip, unpacked_size
from pytest_mlebench.catalog.competition import FIRST, Competition, command
from pytest_mlebench.data import dataset as data
from pytest_mlebench.data.dataset import ENVIRONMENT_VARIABLE, Dataset, Description, checksum_errors, default_data_dir
from pytest_mlebench.data.preparing import (
    DataSource,
    Head,
    NotPushed,
    key_of,
    make_synthetic,
    open_source,
    read_description,
    run_prepare,
)
from pytest_mlebench.data.tables import changed_cells, count_sides, is_comparable
from pytest_mlebench.errors import CompetitionError, DataError, UsageError, expect
from pytest_mlebench.io import files, locks
from pytest_mlebench.io.files import AnyPath, expanded
from pytest_mlebench.io.progress import ByteCounter, Note, Reporter, Step, WarningNote, silent
from pytest_mlebench.io.units import pluralize

if TYPE_CHECKING:
    from pytest_mlebench.data.download.kaggle import KaggleDownloads
    from pytest_mlebench.data.download.transfers import RetryPolicy

DiskCheck = bool | Literal["unpacking"]
PARALLEL_DOWNLOADS = 4
_LEFTOVERS = (".unpacking-*", ".making-*", ".preparing-*", ".describing-*", ".removing-*", ".levelling-*")


class PrepareOptions(TypedDict, total=False):
    """How to prepare a competition (see ``DataStore.prepare``)."""

    raw_dir: Path | None
    synthetic: int | None
    verify: bool
    force: bool
    keep_raw: bool | None
    description: Description | None
    check_disk: DiskCheck


DEFAULT_JOBS = 4
"""Number of competitions prepared at once."""


class DataStore:
    """The data of all competitions in one folder, by default ``default_data_dir()``.

    At most ``parallel_downloads`` downloads run at once, across all processes. ``source`` is a URL from which missing
    prepared data is pulled (see ``data.preparing``); ``policy`` says how often requests are retried.

    >>> from pytest_mlebench import default_catalogue
    >>> DataStore().prepare(default_catalogue()["smoke-digits"]).sample_submission.name
    'sample_submission.csv'
    """

    def __init__(
        self,
        root: AnyPath | None = None,
        *,
        parallel_downloads: int = PARALLEL_DOWNLOADS,
        source: str | None = None,
        policy: RetryPolicy | None = None,
    ) -> None:
        self.root = default_data_dir() if root is None else expanded(root)
        self.parallel_downloads = parallel_downloads
        self.source = source
        self._policy = policy

    def __repr__(self) -> str:
        return f"DataStore({str(self.root)!r})"

    def __getstate__(self) -> dict[str, Any]:
        """Leave out connections when the store is sent to another process."""
        return {name: value for name, value in self.__dict__.items() if name != "_opened_source"}

    @property
    def is_default(self) -> bool:
        """Whether the folder is the default of ``--data-dir``."""
        try:
            return self.root == default_data_dir()
        except DataError:
            return False

    def command(self, name: str, competition: Competition, *options: str) -> str:
        """Return the command line for a competition in this store, such as ``mlebench prepare -c ID``."""
        data_dir = () if self.is_default else (f"--data-dir {shlex.quote(str(self.root))}",)
        return command(name, competition, *data_dir, *options)

    def check(self) -> None:
        """Check that the store's folder is a folder or can be created, without creating it; raises DataError."""
        try:
            nearest = next(path for path in (self.root, *self.root.absolute().parents) if path.exists())
            is_folder = nearest.is_dir()
        except OSError:  # reported when the folder is used
            return
        if not is_folder:
            raise DataError(
                f"data folder {self.root} cannot be written: Not a directory; "
                f"choose another one with --data-dir or {ENVIRONMENT_VARIABLE}"
            )

    def check_all(
        self,
        competitions: Iterable[Competition],
        downloads: KaggleDownloads,
        *,
        jobs: int = DEFAULT_JOBS,
        skip_denied: bool = False,
        reporter: Reporter = silent,
        **options: Unpack[PrepareOptions],
    ) -> dict[str, DataError]:
        """Check credentials, accepted rules, disk space and required modules before anything is downloaded.

        Raises DataError that lists everything that is missing, at the store's source too. Returns a reason by id for
        each competition that is unavailable (see ``KaggleDownloads.check``). Sends no request to Kaggle if nothing is
        needed from there.
        """
        waiting = [competition for competition in competitions if not self.is_ready(competition, **options)]
        if waiting:
            self.check()
        for check in (Competition.require_modules, partial(self.find, reporter=reporter, **options)):
            errors = []
            for competition in waiting:
                try:
                    check(competition)
                except (CompetitionError, DataError) as error:
                    errors.append(str(error))
            if errors:
                raise DataError("\n".join(errors))
        asked = [competition for competition in waiting if self.needs_archive(competition, **options)]
        absent: dict[str, DataError] = {}
        if asked or (waiting and options.get("description") == "kaggle"):  # the pages need only credentials
            reporter(Note(f"checking access to {pluralize(len(asked), 'competition')} on Kaggle"))
            try:
                absent = downloads.check(asked, skip_denied=skip_denied, reporter=reporter)
            except DataError as error:
                advice = [self._advice(each, force=options.get("force", False)) for each in asked if not each.url]
                raise DataError("\n".join([str(error), *advice])) from error
        if options.get("check_disk", True):
            rest = [competition for competition in waiting if competition.id not in absent]
            needs = [self.need(competition, downloads, reporter, **options) for competition in rest]
            files.require_space(self.root, needs, jobs)
        return absent

    def _advice(self, competition: Competition, *, force: bool) -> str:
        """Return advice for a competition that is not on Kaggle."""
        options = ("--force",) if force else ()
        synthetic = f": `{self.command('prepare', competition, '--synthetic', *options)}`"
        return (
            f"If the data is your own: `{self.command('prepare', competition, '--raw-dir=FOLDER', *options)}`; "
            f"to try without it{', add --data=twin' if competition.has_twin else synthetic}"
        )

    def dataset(self, competition: Competition) -> Dataset:
        """Return the competition's data, which need not exist."""
        expect(competition, Competition, "the competition", "default_catalogue()['smoke-digits'] is one")
        return Dataset(competition, self.root / competition.id)

    @contextmanager
    def lock(
        self, competition: Competition, activity: str = "uses", reporter: Reporter | None = silent
    ) -> Iterator[None]:
        """Lock a competition's folder (see ``locks.hold_lock``). With ``reporter=None``, raises LockHeld if in use."""
        with self._os_errors_translated(competition):
            (self.root / competition.id).mkdir(parents=True, exist_ok=True)
            with locks.hold_lock(self.dataset(competition).lock_file, activity, competition.id, reporter):
                yield

    def holder(self, competition: Competition) -> str | None:
        """Return the process that has locked the competition's folder, if any."""
        return locks.lock_holder(self.dataset(competition).lock_file)

    def is_ready(self, competition: Competition, **options: Unpack[PrepareOptions]) -> bool:
        """Return whether ``prepare`` with these options has nothing to do."""
        dataset = self.dataset(competition)
        wanted = options.get("description")
        return not options.get("force") and dataset.is_level and wanted in (None, dataset.description)

    def is_usable(self, competition: Competition, **options: Unpack[PrepareOptions]) -> bool:
        """Return whether the data can be used without preparation; other programs' data may have any description."""
        dataset = self.dataset(competition)
        return self.is_ready(competition, **options) or (dataset.is_level and dataset.description == data.OTHER)

    def not_prepared(self, competition: Competition, *options: str) -> str:
        """Return the error message for data that is not prepared: the command, and MLE-bench's data folder if any."""
        if self.dataset(competition).is_prepared and not self.dataset(competition).is_level:
            return self._not_level(competition)
        text = f"{competition.id} is not prepared; run: {self.command('prepare', competition, *options)}"
        if elsewhere := self._prepared_by_mle_bench(competition):
            text += f"; or use the data that MLE-bench has prepared: --data-dir {shlex.quote(str(elsewhere))}"
        return text

    def _not_level(self, competition: Competition) -> str:
        return (
            f"{competition.id}: the times and inodes of files in {self.dataset(competition).prepared} may reveal "
            "answers: an earlier version or another program prepared them. To copy them in another order, run as a "
            f"user with write access: {self.command('prepare', competition)}"
        )

    def _prepared_by_mle_bench(self, competition: Competition) -> Path | None:
        """Return MLE-bench's data folder, if it has the competition's data and is not this store's folder."""
        try:
            folder = data.mle_bench_data_dir()
            found = folder != self.root and DataStore(folder).dataset(competition).is_prepared
        except DataError:  # for example, the folder belongs to another user
            return None
        return folder if found else None

    def needs_archive(self, competition: Competition, **options: Unpack[PrepareOptions]) -> bool:
        """Return whether ``prepare`` with these options would download the competition's archive."""
        return self._needs_raw(competition, **options) and not files.is_file(self.dataset(competition).archive)

    def need(
        self,
        competition: Competition,
        downloads: KaggleDownloads,
        reporter: Reporter = silent,
        **options: Unpack[PrepareOptions],
    ) -> files.SpaceNeed:
        """Return the disk space that preparation needs, including the download."""
        dataset = self.dataset(competition)
        if (head := self._source_head(competition, reporter, **options)) is not None:
            return self._need_to_pull(dataset, head)
        if dataset.is_prepared and not options.get("force"):
            return self._need_to_level(dataset)
        if not self._needs_raw(competition, **options):
            return files.SpaceNeed(peak=0, rest=0)
        if files.is_file(dataset.archive):
            download = present = dataset.archive.stat().st_size
            try:
                unpacked = unpacked_size(dataset.archive)
            except ArchiveError:  # reported when it is unpacked
                unpacked = 0
        else:
            sizes, part = downloads.size(competition, reporter), dataset.partial_archive
            download, unpacked = sizes.download, sizes.unpacked
            present = part.stat().st_size if files.is_file(part) else 0
        # In the worst case, prepared data is as large as raw data. Preparers link files where possible.
        both = unpacked + unpacked
        rest = both if options.get("keep_raw") else unpacked
        return files.SpaceNeed(peak=max(download + unpacked, both) - present, rest=rest - present)

    def prepare(
        self,
        competition: Competition,
        *,
        downloads: KaggleDownloads | None = None,
        reporter: Reporter = silent,
        **options: Unpack[PrepareOptions],
    ) -> Dataset:
        """Prepare a competition's data, unless it is already prepared. Resumes an interrupted call.

        The raw data comes from the store, else from ``<id>.zip`` in its folder, else from ``downloads``. The archive is
        removed once it is unpacked. Every step, wait and warning goes to ``reporter``.

        Data from an earlier version or another program is copied once, because its files' times and inodes may reveal
        answers (see ``data.dataset``).

        Options: ``raw_dir`` is an unpacked download outside of the store, which is not modified; checksums are compared
        and recorded, but need not match. ``synthetic`` is a seed for the competition's ``synthetic.py``, whose data
        counts as not verified. ``verify`` (True) compares checksums. ``force`` prepares again. ``keep_raw`` (True): if
        False, raw data in the store is removed afterwards; if None, it is removed only if this call downloaded or
        unpacked it. ``description`` selects the description that agents read, also for data that is already prepared
        (None: the existing one, else the bundled one). ``check_disk`` (True) checks disk space before a download, and
        before data is unpacked or copied; ``"unpacking"`` leaves out the first, for example after ``check_all``.

        Raises DataError, and leaves no incomplete data behind. Prepared data that differs from the reference is moved
        to ``prepared.mismatch`` (see ``Dataset.mismatch``).
        """
        if unknown := sorted(options.keys() - PrepareOptions.__annotations__.keys()):
            raise TypeError(
                f"prepare has no option {', '.join(unknown)}; it has {', '.join(PrepareOptions.__annotations__)}"
            )
        if (chosen := options.get("description")) not in (None, *get_args(Description)):
            raise UsageError(f"description {chosen!r} must be one of {', '.join(get_args(Description))}")
        if options.get("raw_dir") is not None and options.get("synthetic") is not None:
            raise UsageError("synthetic raw data is generated: leave out either raw_dir or synthetic")
        dataset = self.dataset(competition)
        if self.is_ready(competition, **options):
            _require_seed(dataset, options.get("synthetic"))
            return dataset
        if dataset.is_prepared and not dataset.is_level and not os.access(dataset.folder, os.W_OK):
            raise DataError(self._not_level(competition))
        with self.lock(competition, "prepares", reporter):
            _remove_leftovers(dataset)
            if options.get("force") or not dataset.is_prepared:  # another process may have prepared it
                self._make(dataset, downloads, reporter, **options)
                files.remove_tree(dataset.pulling)
            else:
                _require_seed(dataset, options.get("synthetic"))
                if not dataset.is_level:
                    self._level_again(dataset, reporter, check_disk=options.get("check_disk", True))
            if (description := options.get("description")) is not None:
                self._replace_description(dataset, description, downloads, reporter)
        return self.dataset(competition)

    def push(
        self, competition: Competition, source: DataSource, *, replace: bool = False, reporter: Reporter = silent
    ) -> int:
        """Upload a competition's prepared data; returns how many files the source lacked. Raises DataError."""
        dataset = self.dataset(competition)
        if not dataset.is_prepared:
            raise DataError(self.not_prepared(competition))
        if dataset.is_synthetic:
            raise DataError(f"{competition.id}: its data is synthetic, and only real data is pushed")
        with ExitStack() as locked, self._os_errors_translated(competition):
            if os.access(dataset.folder, os.W_OK):
                locked.enter_context(self.lock(competition, "pushes", reporter))
            return source.push(dataset, replace=replace, reporter=reporter)

    def verify(self, competition: Competition, reporter: Reporter = silent) -> list[str]:
        """Return which prepared files are missing, changed or unexpected, and record whether there are any.

        Files with a checksum are compared by checksum, the others by their size at the time of preparation.
        """
        dataset = self.dataset(competition)
        if not dataset.is_prepared:
            raise DataError(self.not_prepared(competition))
        reporter(Step(competition.id, "verifying"))
        with self._os_errors_translated(competition):
            wrong = [*checksum_errors(dataset), *data.listing_errors(dataset)]
        if os.access(dataset.folder, os.W_OK):
            with self.lock(competition, "verifies", reporter):
                dataset.note(verified=not wrong and not dataset.is_synthetic)
        return wrong

    def remove(self, competition: Competition, *, raw_only: bool = False) -> int:
        """Remove a competition's data, or only its raw data; returns the number of bytes freed.

        For a version that corrects the competition, only its own prepared data is removed, not data shared by versions.
        Raises LockHeld while another process uses it.
        """
        dataset = self.dataset(competition)
        if not files.is_dir(dataset.folder):
            return 0
        try:
            with self.lock(competition, "removes", reporter=None):
                _remove_leftovers(dataset)
                archives = set(dataset.folder.glob(f"{dataset.archive.name}*"))
                everything = {path for path in dataset.folder.iterdir() if not path.name.startswith(".lock")}
                if competition.is_corrected and not raw_only:
                    everything &= dataset.own_paths
                paths = archives | {dataset.raw} if raw_only else everything
                freed = files.used_bytes(paths)
                for path in paths:
                    _remove(path)
        except locks.LockHeld as holder:
            raise locks.LockHeld(f"{competition.id}: in use by {holder}; nothing was removed") from None
        return freed

    def find(self, competition: Competition, reporter: Reporter = silent, **options: Unpack[PrepareOptions]) -> None:
        """Check that the store's source has the data that ``prepare`` would pull; raises DataError."""
        self._source_head(competition, reporter, **options)

    def _source_head(
        self, competition: Competition, reporter: Reporter, **options: Unpack[PrepareOptions]
    ) -> Head | None:
        """Return the summary of the data to pull; None if it is prepared, or would be prepared locally.

        Bundled data that the source lacks is prepared locally: this needs no download.
        """
        is_done = self.dataset(competition).is_prepared and not options.get("force")
        if self.source is None or _names_raw_data(**options) or is_done:
            return None
        try:
            return self._opened_source.head(competition, reporter)
        except NotPushed:
            if competition.source == "bundled":
                return None
            raise

    @cached_property
    def _opened_source(self) -> DataSource:
        assert self.source is not None
        return open_source(self.source, self._policy)

    def _need_to_pull(self, dataset: Dataset, head: Head) -> files.SpaceNeed:
        missing = max(0, head.size - self._opened_source.bytes_there(dataset.pulling))
        return files.SpaceNeed(peak=missing, rest=missing)

    def _pull(self, dataset: Dataset, head: Head, reporter: Reporter, *, check_disk: DiskCheck) -> None:
        competition, source = dataset.competition, self._opened_source
        if check_disk is True:
            files.require_space(self.root, [self._need_to_pull(dataset, head)], 1)
        source.pull(competition, head, dataset.pulling, reporter)
        new = Dataset(competition, dataset.pulling)
        if missing := next((path for path in new.required if not path.is_file()), None):
            raise DataError(f"{competition.id}: {source.url} has no {missing.relative_to(new.prepared)}")
        reporter(Step(competition.id, "verifying"))
        if wrong := checksum_errors(new):
            reporter(WarningNote(f"{competition.id}: data from {source.url} differs from the reference: {wrong[0]}"))
        description = "kaggle" if head.description == "kaggle" else None
        self._publish(dataset, new, verified=not wrong, description=description, source=source.url)

    def _needs_raw(self, competition: Competition, **options: Unpack[PrepareOptions]) -> bool:
        dataset = self.dataset(competition)
        if competition.source == "bundled" or _names_raw_data(**options) or self.source is not None:
            return False
        return not dataset.has_raw and (options.get("force", False) or not dataset.is_prepared)

    def _make(
        self, dataset: Dataset, downloads: KaggleDownloads | None, reporter: Reporter, **options: Unpack[PrepareOptions]
    ) -> None:
        competition = dataset.competition
        raw_dir, keep_raw = options.get("raw_dir"), options.get("keep_raw", True)
        if (head := self._source_head(competition, reporter, **options)) is not None:
            self._pull(dataset, head, reporter, check_disk=options.get("check_disk", True))
            return
        competition.require_modules()  # fail before hours of download
        if (seed := options.get("synthetic")) is not None:
            self._make_synthetic(dataset, seed, reporter)
            return
        had_raw = dataset.has_raw or files.is_file(dataset.archive)
        is_kept, is_mixed = (had_raw if keep_raw is None else keep_raw), False
        if self._needs_raw(competition, **options):
            if self.needs_archive(competition, **options):
                self._download(dataset, downloads, reporter, **options)
            self._unpack(dataset, reporter, check_disk=options.get("check_disk", True))
            is_mixed = True
        self._prepare(dataset, raw_dir, reporter, verify=options.get("verify", True), moves=is_mixed and not is_kept)
        if not is_kept:
            _remove(dataset.raw)
            _remove(dataset.archive)  # left by a call that was killed just after unpacking
        if dataset.has_moved_files:
            self._finish_moving(dataset)

    def _finish_moving(self, dataset: Dataset) -> None:
        """Set the times of moved files, after removing their raw data, which would change the times again."""
        _remove(dataset.raw)
        _remove(dataset.archive)
        dataset.note(moved=None)  # if this call is stopped below, the next one copies all files
        for side in (dataset.private, dataset.public):
            data.set_times(side)

    def _download(
        self, dataset: Dataset, downloads: KaggleDownloads | None, reporter: Reporter, **options: Unpack[PrepareOptions]
    ) -> None:
        competition = dataset.competition
        if downloads is None:
            raise DataError(
                f"{competition.id}: no raw data at {dataset.raw}; download it: {self.command('prepare', competition)}, "
                f"or name an unpacked download: {self.command('prepare', competition, '--raw-dir FOLDER')}"
            )
        if options.get("check_disk", True) is True:
            files.require_space(self.root, [self.need(competition, downloads, reporter, **options)], 1)
        slots = self.root / ".downloads"
        slots.mkdir(exist_ok=True)
        paths = [slots / f"{number}.lock" for number in range(self.parallel_downloads)]
        if elsewhere := self._prepared_by_mle_bench(competition):
            reporter(Note(f"{competition.id}: MLE-bench has already prepared it: --data-dir {elsewhere}"))
        with locks.hold_any_lock(paths, "downloads", competition.id, reporter):
            reporter(Step(competition.id, "downloading"))
            downloads.download(competition, dataset.archive, reporter)

    def _unpack(self, dataset: Dataset, reporter: Reporter, *, check_disk: DiskCheck) -> None:
        archive = dataset.archive
        try:
            size = unpacked_size(archive)
            if check_disk:
                files.require_space(self.root, [files.SpaceNeed(peak=size, rest=size)], 1)
            with files.scratch(dataset.folder, ".unpacking-") as name:
                work = Path(name, "raw")
                (mixed := Path(name, "mixed")).mkdir()
                progress = ByteCounter(reporter, dataset.competition.id, "unpacking", size)
                unpack_zip(archive, work, progress=progress, mixed_in=mixed)
                files.sync(dataset.folder)
                files.publish(work, dataset.raw)
        except ArchiveError as error:
            damaged = archive.replace(archive.with_name(f"{archive.name}.damaged"))
            raise DataError(
                f"{dataset.competition.id}: {error}. It is kept as {damaged.name}; call again to download a new copy"
            ) from error
        archive.unlink()

    def _make_synthetic(self, dataset: Dataset, seed: int, reporter: Reporter) -> None:
        """Create only prepared data: raw data in the store is always real."""
        competition = dataset.competition
        with files.scratch(dataset.folder, ".making-") as name:
            raw, new = Path(name, "raw"), Dataset(competition, Path(name))
            raw.mkdir()
            reporter(Step(competition.id, "generating synthetic data"))
            make_synthetic(competition, raw, seed)
            reporter(Step(competition.id, "preparing"))
            run_prepare(competition, raw, new, maker="synthetic.py")
            self._level(new, Path(name))
            self._publish(dataset, new, verified=False, description="bundled", synthetic=True, seed=seed)

    def _prepare(
        self, dataset: Dataset, raw_dir: Path | None, reporter: Reporter, *, verify: bool, moves: bool
    ) -> None:
        """Prepare raw data. With ``moves``, linked files may be moved (see ``dataset.replace_by_level``)."""
        competition = dataset.competition
        reporter(Step(competition.id, "preparing"))
        with files.scratch(dataset.folder, ".preparing-") as name:
            new = Dataset(competition, Path(name))
            raw, key = raw_dir if raw_dir is not None else dataset.raw, key_of(competition, self.root)
            run_prepare(competition, raw, new, key=key)
            if verify:
                reporter(Step(competition.id, "verifying"))
            wrong = checksum_errors(new) if verify else []
            mismatch = dataset.mismatch
            if mismatch.exists():
                mismatch.rename(new.folder / "mismatch")
            if wrong and raw_dir is None:
                new.prepared.rename(mismatch)
                raise DataError(self._mismatch_message(dataset, mismatch, wrong))
            sides = count_sides(new)
            has_moved = self._level(new, new.folder, raw if moves else None)
            more = {"moved": new.public.stat().st_ino} if has_moved else {}
            verified = not wrong if verify else None
            self._publish(dataset, new, verified=verified, description="bundled", sides=sides, **more)
        if is_comparable(competition) and "cells_are_kept" not in competition.exceptions:
            for problem in changed_cells(competition, dataset.raw if raw_dir is None else raw_dir, dataset):
                reporter(WarningNote(f"{competition.id}: prepare.py changed cells: {problem}"))

    def _level_again(self, dataset: Dataset, reporter: Reporter, *, check_disk: DiskCheck) -> None:
        """Level data from an earlier version or another program, which remains complete throughout."""
        if dataset.has_moved_files:  # a call was killed before it set their times
            self._finish_moving(dataset)
            return
        if check_disk:
            files.require_space(self.root, [self._need_to_level(dataset)], 1)
        reporter(Step(dataset.competition.id, "copying in another order, because times and inodes may reveal answers"))
        with files.scratch(dataset.folder, ".levelling-") as name:
            self._level(dataset, Path(name))

    @staticmethod
    def _need_to_level(dataset: Dataset) -> files.SpaceNeed:
        is_done = dataset.is_level or dataset.has_moved_files
        size = 0 if is_done else sum(size for _, size in data.prepared_files(dataset.prepared))
        return files.SpaceNeed(peak=size, rest=0)

    def _level(self, dataset: Dataset, scratch: Path, mixed_raw: Path | None = None) -> bool:
        """Level both sides; returns whether public files were moved (see ``dataset.replace_by_level``)."""
        data.keep_level(scratch)
        if not data.is_level(scratch):
            raise DataError(
                f"{scratch.parent.name}: the file system of {self.root} does not keep modification times that are "
                "set; choose another one with --data-dir or MLEBENCH_DATA_DIR"
            )
        data.replace_by_level(dataset.private, scratch)
        return data.replace_by_level(dataset.public, scratch, mixed_raw)

    def _publish(self, dataset: Dataset, new: Dataset, **state: Any) -> None:
        """Move complete data to the dataset's folder, durably; replaced data is moved to the folder of ``new``."""
        size = data.write_listing(new.prepared, new.listing)
        files.sync(dataset.folder)
        if dataset.prepared.exists():
            dataset.prepared.rename(new.folder / "replaced")
        new.listing.replace(dataset.listing)
        old, keys = dataset.state, ("source", "synthetic", "seed", "sides", "moved")
        replaced = {name: None for name in keys if old.get(name) is not None}
        dataset.note(**{**replaced, **state}, fingerprint=data.make_fingerprint(new), bytes=size)
        files.publish(new.prepared, dataset.prepared)

    def _replace_description(
        self, dataset: Dataset, source: Description, downloads: KaggleDownloads | None, reporter: Reporter
    ) -> None:
        competition = dataset.competition
        if dataset.description == source:
            return
        if source == "bundled":
            text = read_description(competition)
        elif downloads is not None:
            text = downloads.description(competition, reporter)
        else:
            command = self.command("prepare", competition, "--description kaggle")
            raise DataError(f"{competition.id}: Kaggle's description must be fetched: {command}")
        # Replace the file instead of writing to it: it may be a hard link to raw data, or open in another process.
        with files.scratch(dataset.folder, ".describing-") as name:
            new = Path(name, "description.md")
            new.write_text(text, encoding="utf-8", newline="")
            data.level_file(new)
            dataset.note(description=None)  # in case this call is stopped before the next note
            files.sync(dataset.folder)
            new.replace(dataset.public / "description.md")
            data.keep_level(dataset.public)
        dataset.note(description=source)

    def _mismatch_message(self, dataset: Dataset, kept: Path, wrong: list[str]) -> str:
        id, first = dataset.competition.id, dataset.competition.of_version(FIRST)
        lines = wrong[:20] + ([f"... and {len(wrong) - 20} more"] if len(wrong) > 20 else [])
        again = self.command("remove", first, "--raw"), self.command("prepare", dataset.competition)
        anyway = self.command("prepare", dataset.competition, "--skip-verification")
        return (
            f"{id}: prepared data differs from the reference:\n  "
            + "\n  ".join(lines)
            + f"\nIt is kept in {kept}. If the raw data in {dataset.raw} may be incomplete, download it again: "
            f"{again[0]} && {again[1]}. To use the data anyway: {anyway}"
        )

    @contextmanager
    def _os_errors_translated(self, competition: Competition) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if files.is_disk_full(error, self.root):
                raise files.disk_full(competition.id, self.root) from error
            where = error.filename or self.root
            raise DataError(
                f"{competition.id}: data folder {self.root} cannot be written: {error.strerror or error} ({where}); "
                "choose another one with --data-dir or MLEBENCH_DATA_DIR"
            ) from error


def _remove_leftovers(dataset: Dataset) -> None:
    """Remove the temporary folders and files of killed processes. The caller holds the lock."""
    for pattern in _LEFTOVERS:
        for path in dataset.folder.glob(pattern):
            if path.is_dir():
                files.remove_tree(path)
            else:
                path.unlink()


def _require_seed(dataset: Dataset, seed: int | None) -> None:
    """Raise DataError unless synthetic data of this seed is prepared; None accepts any data."""
    is_right = dataset.is_synthetic and dataset.state.get("seed") in (None, seed)  # earlier versions recorded no seed
    if seed is not None and not is_right:
        raise DataError(
            f"{dataset.competition.id}: other data is prepared in {dataset.prepared}; create synthetic data in another "
            "folder (--data-dir), or replace the existing data (--force)"
        )


def _names_raw_data(**options: Unpack[PrepareOptions]) -> bool:
    """Return whether the options give the raw data: a folder, or a seed for synthetic data."""
    return options.get("raw_dir") is not None or options.get("synthetic") is not None


def _remove(path: Path) -> None:
    """Remove a file or folder. It is renamed first, so that a partial folder never has its original name."""
    renamed = path.with_name(f".removing-{path.name}")
    try:
        path.rename(renamed)
    except FileNotFoundError:
        return
    if renamed.is_dir() and not renamed.is_symlink():
        files.remove_tree(renamed, ignore_errors=False)
    else:
        renamed.unlink()
