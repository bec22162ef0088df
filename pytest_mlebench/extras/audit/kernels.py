"""Lists and downloads the public notebooks of a competition.

They are stored next to the prepared data, in ``kernels/AUTHOR/SLUG.ipynb``, where agents never see them.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_mlebench.catalog import Competition
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.data.download.kaggle import KaggleDownloads
from pytest_mlebench.data.download.transfers import CredentialsError, Notebook, NotebookGone, in_parallel
from pytest_mlebench.data.store import DataStore
from pytest_mlebench.errors import DataError, reason
from pytest_mlebench.io import files
from pytest_mlebench.io.progress import Reporter, Step, silent
from pytest_mlebench.io.units import format_size
from pytest_mlebench.io.values import json_text, loads

MAX_BYTES = 32 << 20
"""Maximum size of a notebook. Larger ones contain images or data, which are not compared."""
_SUFFIXES: Mapping[tuple[str, str], str] = {
    ("script", "python"): ".py",
    ("script", "r"): ".R",
    ("script", "rmarkdown"): ".Rmd",
    ("script", "julia"): ".jl",
    ("notebook", "python"): ".ipynb",
    ("notebook", "r"): ".irnb",
    ("notebook", "julia"): ".ijlnb",
}
"""File suffix by kind and language of a notebook, as Kaggle's own client assigns it."""
_GONE = "gone.json"
_PARALLEL = 4
_FAILURES = 3
"""Consecutive failures that stop the download, since the connection or Kaggle is down."""


@dataclass(frozen=True, kw_only=True)
class Kernels:
    """The state of a competition's notebooks on this machine. Names are ``AUTHOR/SLUG``."""

    listed: tuple[str, ...]
    """All notebooks in its ``kernels.json``."""
    files: Mapping[str, Path]
    """Notebooks that were downloaded."""
    gone: Mapping[str, str]
    """Notebooks that Kaggle did not provide, and why."""
    failed: Mapping[str, str]
    """Notebooks whose download failed this time, and why."""

    @property
    def missing(self) -> tuple[str, ...]:
        """Notebooks that have yet to be downloaded."""
        return tuple(name for name in self.listed if name not in self.files and name not in self.gone)


def kernels(dataset: Dataset) -> Kernels:
    """Return the state of a competition's notebooks. Raises CompetitionError, or DataError if it cannot be read."""
    found: dict[str, Path] = {}
    for name in dataset.competition.kernels:
        paths = (dataset.kernels / f"{name}{suffix}" for suffix in _SUFFIXES.values())
        if path := next(filter(files.is_file, paths), None):
            found[name] = path
    lacking = {*dataset.competition.kernels} - found.keys()
    gone = {name: why for name, why in _gone(dataset).items() if name in lacking}
    return Kernels(listed=dataset.competition.kernels, files=found, gone=gone, failed={})


def download(
    store: DataStore,
    competition: Competition,
    source: KaggleDownloads,
    reporter: Reporter = silent,
    max_bytes: int = MAX_BYTES,
) -> Kernels:
    """Download the missing notebooks. Each file is complete or absent, so that an interrupted call can be resumed.

    Notebooks larger than ``max_bytes`` count as gone. Gone and private notebooks are requested again once in each call.
    Raises DataError if nothing can be downloaded; the result contains the failures of single notebooks.
    """
    dataset = store.dataset(competition)
    with store.lock(competition, "downloads notebooks", reporter):
        here = kernels(dataset)
        wanted = [name for name in here.listed if name not in here.files]
        if not wanted:
            return here
        job = _Job(dataset, source, reporter, len(wanted), max_bytes)
        try:
            dataset.kernels.mkdir(exist_ok=True)
            for partial in dataset.kernels.rglob(".*"):  # left by a killed call
                if not partial.is_dir():  # such as Jupyter's .ipynb_checkpoints
                    partial.unlink(missing_ok=True)
            in_parallel(job, wanted, _PARALLEL)
            files.write_text(dataset.kernels / _GONE, json_text(dict(sorted(job.gone.items()))) + "\n")
        except OSError as error:
            raise DataError(f"{competition.id}: {dataset.kernels} cannot be written: {reason(error)}") from error
    return replace(kernels(dataset), failed=job.failed)


class _Job:
    """Downloads notebooks one at a time, in several threads."""

    def __init__(
        self, dataset: Dataset, source: KaggleDownloads, reporter: Reporter, total: int, max_bytes: int
    ) -> None:
        self.gone: dict[str, str] = {}
        self.failed: dict[str, str] = {}
        self._dataset, self._source, self._reporter, self._total = dataset, source, reporter, total
        self._max_bytes = max_bytes
        self._failures, self._stopped, self._lock = 0, False, threading.Lock()

    def __call__(self, name: str) -> None:
        if self._stopped:
            return
        try:
            self._write(name, self._source.notebook(name, self._reporter))
        except CredentialsError:  # no other download would succeed
            raise
        except NotebookGone as error:
            self.gone[name] = str(error)
        except DataError as error:
            with self._lock:
                self.failed[name] = str(error)
                self._failures += 1
                self._stopped = self._failures >= _FAILURES
            return
        with self._lock:
            self._failures = 0
            self._reporter(Step(self._dataset.competition.id, f"downloading notebooks ({self._total} are missing)"))

    def _write(self, name: str, notebook: Notebook) -> None:
        suffix = _SUFFIXES.get((notebook.kind, notebook.language))
        if suffix is None:
            raise NotebookGone(f"a {notebook.kind} in {notebook.language} contains no program")
        content = notebook.source.encode("utf-8", "replace")
        if len(content) > self._max_bytes:
            raise NotebookGone(f"it has {format_size(len(content))}, more than {format_size(self._max_bytes)}")
        path = self._dataset.kernels / f"{name}{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write_bytes(path, content)


def _gone(dataset: Dataset) -> dict[str, str]:
    try:
        found = loads((dataset.kernels / _GONE).read_bytes())
    except (OSError, ValueError):
        return {}
    return {str(name): str(why) for name, why in found.items()} if isinstance(found, dict) else {}
