"""Running a competition's ``prepare.py`` into an empty folder, on real data or on that of its ``synthetic.py`` or
``twin.py``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pytest_mlebench.authoring.private_random import keyed
from pytest_mlebench.catalog import Competition
from pytest_mlebench.data.confined import call, is_third_party
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.errors import CompetitionError, DataError, MLEBenchError, reason
from pytest_mlebench.io import disk


def make_synthetic(competition: Competition, raw: Path, seed: int) -> None:
    """Have ``synthetic.py`` make raw data in an empty folder; raises CompetitionError with the line that failed."""
    if is_third_party(competition):
        competition.require_modules()
        call(make_synthetic_here, competition, str(raw.absolute()), seed, write=[raw])
    else:
        make_synthetic_here(competition, str(raw), seed)


def make_synthetic_here(competition: Competition, raw: str, seed: int) -> None:
    """As ``make_synthetic``, in this process."""
    call_module(competition, "synthetic", "make", Path(raw), seed)


def call_module(competition: Competition, module: str, name: str, *arguments: Any) -> Any:
    """Call a function of ``synthetic.py`` or ``twin.py`` in this process; raises CompetitionError with the line that
    failed."""
    function = competition.function(module, name)
    try:
        return function(*arguments)
    except (Exception, SystemExit) as error:
        raise CompetitionError(f"{competition.id}: {module}.py raised {competition.describe_error(error)}") from error


def run_prepare(
    competition: Competition, raw: Path, dataset: Dataset, *, maker: str = "", key: bytes | None = None
) -> None:
    """Run a competition's ``prepare`` from ``raw`` into the folder of an empty dataset; adds the bundled description.

    ``maker`` names the program that made ``raw``, if one did; ``key`` is that of private randomness (see
    ``data.private_key``). Raises DataError that names what is missing or failed.
    """
    text = key.hex() if key else None
    if is_third_party(competition):
        competition.require_modules()
        arguments = (str(raw.absolute()), str(dataset.folder.absolute()), maker, text)
        call(prepare_here, competition, *arguments, read=[raw], write=[dataset.folder])
    else:
        prepare_here(competition, str(raw), str(dataset.folder), maker, text)
    check_prepared(dataset)


def check_prepared(dataset: Dataset) -> None:
    """See that the prepared data has all that a dataset needs, and no links; raises DataError."""
    id = dataset.competition.id
    for path in dataset.required:
        if not path.is_file():
            raise DataError(f"{id}: prepare.py did not write {path.relative_to(dataset.prepared)}")
    for path in dataset.prepared.rglob("*"):
        if path.is_symlink():
            raise DataError(f"{id}: prepare.py made the link {path.relative_to(dataset.prepared)}")


def prepare_here(competition: Competition, raw: str, folder: str, maker: str, key: str | None = None) -> None:
    """The part of ``run_prepare`` that runs the competition's code, in this process. ``key`` is hexadecimal."""
    dataset = Dataset(competition, Path(folder))
    for side in (dataset.public, dataset.private):
        side.mkdir(parents=True)
    try:
        with keyed(bytes.fromhex(key) if key else None):
            competition.function("prepare", "prepare")(Path(raw), dataset.public, dataset.private)
        if not (dataset.public / "description.md").exists() and competition.description.is_file():
            (dataset.public / "description.md").write_text(_description(competition), encoding="utf-8", newline="")
    except (Exception, SystemExit) as error:
        source = f" on the data of {maker}" if maker else f"; is {raw} the complete, unpacked download?"
        raise _translated(competition, error, source, dataset.folder) from error


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
