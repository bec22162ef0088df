"""Running a competition's ``prepare.py`` into an empty folder."""

from __future__ import annotations

import shutil
from pathlib import Path

from pytest_mlebench.catalog import Competition
from pytest_mlebench.data import disk
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.errors import DataError, MLEBenchError

READ_ONLY = 0o444


def run_prepare(competition: Competition, raw: Path, dataset: Dataset) -> None:
    """Run a competition's ``prepare`` from ``raw`` into the folder of an empty dataset; adds the bundled description.

    Raises DataError that names what is missing or failed.
    """
    for side in (dataset.public, dataset.private):
        side.mkdir(parents=True)
    try:
        competition.function("prepare", "prepare")(raw, dataset.public, dataset.private)
        if not (dataset.public / "description.md").exists() and competition.description.is_file():
            shutil.copyfile(competition.description, dataset.public / "description.md")
    except Exception as error:
        raise _translated(competition, error, raw, dataset.folder) from error
    for path in dataset.required:
        if not path.is_file():
            raise DataError(f"{competition.id}: prepare.py did not write {path.relative_to(dataset.prepared)}")
    for path in dataset.prepared.rglob("*"):
        if path.is_file():
            path.chmod(READ_ONLY)


def _translated(competition: Competition, error: Exception, raw: Path, folder: Path) -> DataError:
    if disk.is_full(error, folder):
        return disk.full(competition.id, folder.parent)
    if isinstance(error, MLEBenchError):
        return DataError(f"{competition.id}: {error}")
    if isinstance(error, OSError):
        name = f" ({error.filename})" if error.filename else ""
        return DataError(f"{competition.id}: preparation stopped: {error.strerror or error}{name}")
    return DataError(
        f"{competition.id}: prepare.py raised {competition.describe_error(error)}; "
        f"is {raw} the complete, unpacked download?"
    )
