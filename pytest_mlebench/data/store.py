"""The data store: each competition's raw and prepared data, either absent or complete."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from pytest_mlebench.catalog.competition import Competition
from pytest_mlebench.data.checksums import digest
from pytest_mlebench.errors import DataError, MLEBenchError

ENVIRONMENT_VARIABLE = "MLEBENCH_DATA_DIR"


def default_data_dir() -> Path:
    """``$MLEBENCH_DATA_DIR``, else ``mlebench`` in the user's cache folder."""
    if configured := os.environ.get(ENVIRONMENT_VARIABLE):
        return Path(configured)
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "mlebench"


@dataclass(frozen=True)
class Dataset:
    """One competition's data in the store, in MLE-bench's layout: ``raw/``, ``prepared/public``, ``prepared/private``.

    Only ``public`` may be shown to an agent.
    """

    competition: Competition
    folder: Path

    @property
    def raw(self) -> Path:
        return self.folder / "raw"

    @property
    def prepared(self) -> Path:
        return self.folder / "prepared"

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
    def is_prepared(self) -> bool:
        return self.public.is_dir() and self.private.is_dir()

    @property
    def is_verified(self) -> bool | None:
        """Whether the checksums held when the data was prepared; None where nobody checked."""
        try:
            verified = json.loads(self._state.read_text())["verified"]
        except (OSError, ValueError, KeyError):
            return None
        return verified if isinstance(verified, bool) else None

    @property
    def _state(self) -> Path:
        return self.folder / "state.json"


class DataStore:
    """The data of all competitions below one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def dataset(self, competition: Competition) -> Dataset:
        """Where the competition's data is, or would be."""
        return Dataset(competition, self.root / competition.id)

    @contextmanager
    def lock(self, competition: Competition) -> Iterator[None]:
        """Exclusive use of a competition's folder, among threads and processes."""
        folder = self.root / competition.id
        try:
            folder.mkdir(parents=True, exist_ok=True)
            lock = FileLock(folder / ".lock")
            lock.acquire()
        except OSError as error:
            raise DataError(f"data directory {self.root} cannot be written: {error.strerror or error}") from error
        try:
            yield
        finally:
            lock.release()

    def prepare(
        self,
        competition: Competition,
        *,
        raw_dir: Path | None = None,
        verify: bool = True,
        force: bool = False,
        keep_raw: bool = True,
    ) -> Dataset:
        """Prepare a competition's data from its raw data, unless it is there already.

        ``raw_dir`` is an unpacked download outside of the store. Its files are hard-linked where they can be, and so
        become read-only; checksums are noted but need not hold. Without ``keep_raw`` the store's own raw data is
        removed afterwards. Raises DataError and leaves no half-made data behind.
        """
        dataset = self.dataset(competition)
        if dataset.is_prepared and not force:
            return dataset
        with self.lock(competition):
            if dataset.is_prepared and not force:  # another process was faster
                return dataset
            raw = raw_dir if raw_dir is not None else dataset.raw
            if competition.source == "kaggle" and not raw.is_dir():
                raise DataError(
                    f"{competition.id}: no raw data at {raw}; unpack the download from {competition.url} there, "
                    f"or name its folder: mlebench prepare -c {competition.id} --raw-dir FOLDER"
                )
            self._prepare(dataset, raw, verify=verify, must_verify=raw_dir is None)
            if not keep_raw:
                shutil.rmtree(dataset.raw, ignore_errors=True)
        return dataset

    def _prepare(self, dataset: Dataset, raw: Path, *, verify: bool, must_verify: bool) -> None:
        competition = dataset.competition
        for stale in dataset.folder.glob(".preparing-*"):  # left by a process that was killed: we hold the lock
            shutil.rmtree(stale, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=".preparing-", dir=dataset.folder, ignore_cleanup_errors=True) as name:
            new = Dataset(competition, Path(name))
            run_prepare(competition, raw, new)
            wrong = checksum_errors(new) if verify else []
            if wrong and must_verify:
                raise DataError(
                    f"{competition.id}: prepared data is not the reference's:\n  " + "\n  ".join(wrong[:20])
                )
            if dataset.prepared.exists():
                dataset.prepared.rename(new.folder / "replaced")
            dataset._state.write_text(json.dumps({"verified": not wrong if verify else None}) + "\n")
            new.prepared.rename(dataset.prepared)


def run_prepare(competition: Competition, raw: Path, dataset: Dataset) -> None:
    """Run a competition's ``prepare`` from ``raw`` into an empty data set's folder; adds the description.

    Raises DataError that names what is missing, full or broken.
    """
    for side in (dataset.public, dataset.private):
        side.mkdir(parents=True)
    try:
        competition.module("prepare").prepare(raw, dataset.public, dataset.private)
        if not (dataset.public / "description.md").exists() and competition.description.is_file():
            shutil.copyfile(competition.description, dataset.public / "description.md")
    except MLEBenchError as error:
        raise DataError(f"{competition.id}: {error}") from error
    except OSError as error:
        name = f" ({error.filename})" if error.filename else ""
        raise DataError(f"{competition.id}: preparation stopped: {error.strerror or error}{name}") from error
    except Exception as error:
        raise DataError(
            f"{competition.id}: preparation failed with {type(error).__name__}: {error}; "
            f"is {raw} the complete, unpacked download?"
        ) from error
    for path in (dataset.answers, dataset.perfect_submission, dataset.sample_submission):
        if not path.is_file():
            raise DataError(f"{competition.id}: prepare.py did not write {path.relative_to(dataset.prepared)}")
    for path in dataset.prepared.rglob("*"):
        if path.is_file():
            path.chmod(0o444)


def checksum_errors(dataset: Dataset) -> list[str]:
    """How the prepared files differ from the competition's checksums; empty if they hold or there are none."""
    wrong = []
    for side in ("public", "private"):
        for name, expected in _flatten(dataset.competition.checksums.get(side) or {}):
            path = dataset.prepared / side / name
            if not path.is_file():
                wrong.append(f"{side}/{name} is missing")
            elif (found := digest(path)) != expected:
                wrong.append(f"{side}/{name}: expected {expected}, found {found}")
    return wrong


def _flatten(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{name}/")
        else:
            yield prefix + name, value
