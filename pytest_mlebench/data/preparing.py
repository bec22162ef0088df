"""Running a competition's ``prepare.py`` into an empty folder, on real data or on that of its ``synthetic.py``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pytest_mlebench.catalog import Competition
from pytest_mlebench.data import disk
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.errors import CompetitionError, DataError, MLEBenchError, reason

READ_ONLY = 0o444


def call_synthetic(competition: Competition, name: str, *arguments: Any) -> Any:
    """Call a function of ``synthetic.py``; raises CompetitionError with the line that failed."""
    function = competition.function("synthetic", name)
    try:
        return function(*arguments)
    except (Exception, SystemExit) as error:
        raise CompetitionError(f"{competition.id}: synthetic.py raised {competition.describe_error(error)}") from error


def run_prepare(competition: Competition, raw: Path, dataset: Dataset, *, is_synthetic: bool = False) -> None:
    """Run a competition's ``prepare`` from ``raw`` into the folder of an empty dataset; adds the bundled description.

    ``is_synthetic`` says where ``raw`` comes from. Raises DataError that names what is missing or failed.
    """
    for side in (dataset.public, dataset.private):
        side.mkdir(parents=True)
    try:
        competition.function("prepare", "prepare")(raw, dataset.public, dataset.private)
        if not (dataset.public / "description.md").exists() and competition.description.is_file():
            (dataset.public / "description.md").write_text(_description(competition), encoding="utf-8", newline="")
    except (Exception, SystemExit) as error:
        source = " on the data of synthetic.py" if is_synthetic else f"; is {raw} the complete, unpacked download?"
        raise _translated(competition, error, source, dataset.folder) from error
    for path in dataset.required:
        if not path.is_file():
            raise DataError(f"{competition.id}: prepare.py did not write {path.relative_to(dataset.prepared)}")
    for path in dataset.prepared.rglob("*"):
        if path.is_file():
            path.chmod(READ_ONLY)


def _description(competition: Competition) -> str:
    """What agents read of the task. Raises DataError where the file holds no text."""
    try:
        with competition.description.open(encoding="utf-8", newline="") as file:
            text = file.read()
    except UnicodeDecodeError as error:
        raise DataError(f"{competition.description}: {reason(error)}") from error
    if "\0" in text:
        raise DataError(f"{competition.description} is no text: it is what agents read of the task")
    if not text.strip():
        raise DataError(f"{competition.description} is empty: it is what agents read of the task")
    return text


def _translated(competition: Competition, error: BaseException, source: str, folder: Path) -> DataError:
    if disk.is_full(error, folder):
        return disk.full(competition.id, folder.parent)
    if isinstance(error, MLEBenchError):
        return DataError(f"{competition.id}: {error}")
    if isinstance(error, OSError):
        name = f" ({error.filename})" if error.filename else ""
        place = f" in {found}" if (found := competition.place_of(error)) else ""
        return DataError(f"{competition.id}: preparation stopped: {error.strerror or error}{name}{place}")
    return DataError(f"{competition.id}: prepare.py raised {competition.describe_error(error)}{source}")
