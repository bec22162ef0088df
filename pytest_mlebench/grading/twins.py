"""Making twins: learnable raw data from a competition's ``twin.py``, prepared, with medals of its own.

``twin.py`` has ``make(raw, rng, size)``, which returns the predictions ``simple`` and ``ceiling`` (see
``twin_medals``), and where its form asks for them ``units(submission)``, ``deal(submission, rng)`` and
``mix(submission, other, share, rng)``.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.private_random import keyed
from pytest_mlebench.catalog import Competition
from pytest_mlebench.catalog.leaderboard import Leaderboard
from pytest_mlebench.data.confined import call, is_third_party
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.data.download.contract import Downloads
from pytest_mlebench.data.preparing import call_module, check_prepared, prepare_here
from pytest_mlebench.data.source import Head
from pytest_mlebench.data.store import DataStore, PrepareOptions
from pytest_mlebench.data.twins import Twins
from pytest_mlebench.errors import CompetitionError, DataError
from pytest_mlebench.grading.twin_medals import NoMedals, Predictions, TwinMedals, twin_medals
from pytest_mlebench.io import durable
from pytest_mlebench.io.json_files import loads
from pytest_mlebench.io.progress import Reporter, Step, silent

ATTEMPTS = 10
"""How many worlds are drawn until one tells skill from luck."""


@dataclass(frozen=True, kw_only=True)
class MadeTwin:
    dataset: Dataset
    medals: TwinMedals | None
    """None where none were asked for."""
    predictions: Predictions = field(default_factory=dict)
    """Not of third-party competitions, whose code runs in a process of its own."""
    refused: tuple[str, ...]
    """Why earlier worlds of the same seed were refused."""
    seconds: tuple[float, float, float]
    """CPU seconds of making, preparing and computing the medals, refused worlds left out."""


def has_twin(competition: Competition) -> bool:
    """Whether the competition's folder has a ``twin.py``."""
    return competition.file("twin.py").is_file()


def no_twin(competition: Competition) -> str:
    """What to do about a competition without twins."""
    return f"{competition.id} has no twin: {competition.file('twin.py')} is missing; choose --data=real"


def make_twin(competition: Competition, folder: Path, seed: int, size: str, *, medals: bool = True) -> MadeTwin:
    """Make and prepare a twin in a folder that does not exist yet, from the first world that has medals.

    Raises CompetitionError where there is no ``twin.py``, and with file and line where it fails, NoMedals where ten
    worlds were refused.
    """
    if not has_twin(competition):
        raise CompetitionError(no_twin(competition))
    competition.require_modules()
    refused: list[str] = []
    for attempt in range(ATTEMPTS):
        folder.mkdir(parents=True)
        arguments = (str(folder.absolute()), seed, attempt, size, medals)
        predictions: Predictions = {}
        if is_third_party(competition):
            reply = call(make_world_here, competition, *arguments, write=[folder])
        else:
            reply, predictions = _make_world(competition, *arguments)
        if "refused" in reply:
            refused.append(str(reply["refused"])[:1000])
            shutil.rmtree(folder)
            continue
        dataset = Dataset(competition, folder)
        check_prepared(dataset)
        return MadeTwin(
            dataset=dataset,
            medals=None if reply["medals"] is None else medals_from_json(competition, reply["medals"]),
            predictions=predictions,
            refused=tuple(refused),
            seconds=reply["seconds"],
        )
    raise NoMedals(f"{competition.id}: no world of this seed and size {size} has medals: {refused[-1]}")


def make_world_here(
    competition: Competition, folder: str, seed: int, attempt: int, size: str, medals: bool
) -> dict[str, Any]:
    """One world in an empty folder, made in this process, as JSON: ``medals`` and ``seconds``, or ``refused``."""
    return _make_world(competition, folder, seed, attempt, size, medals)[0]


def _make_world(
    competition: Competition, folder: str, seed: int, attempt: int, size: str, medals: bool
) -> tuple[dict[str, Any], Predictions]:
    dataset = Dataset(competition, Path(folder))
    dataset.raw.mkdir()
    started = time.process_time()
    rng = np.random.default_rng([seed, attempt])
    key = hashlib.sha256(f"private randomness of world {attempt} of {seed}".encode()).hexdigest()
    with keyed(bytes.fromhex(key)):  # which a twin that knows how rows are split draws as well
        predictions = _checked(competition, call_module(competition, "twin", "make", dataset.raw, rng, size))
    made = time.process_time()
    prepare_here(competition, str(dataset.raw), folder, "twin.py", key)
    check_prepared(dataset)
    prepared = time.process_time()
    won = None
    if medals:
        own = {name: _own(competition, name) for name in ("units", "deal", "mix")}
        try:
            rng = np.random.default_rng([seed, attempt, 1])
            won = twin_medals(dataset, predictions, rng, **own, indicative=size == "micro")
        except NoMedals as error:
            return {"refused": str(error)}, {}
    seconds = made - started, prepared - made, time.process_time() - prepared
    return {"medals": None if won is None else asdict(won), "seconds": seconds}, predictions


def _own(competition: Competition, name: str) -> Any:
    """A function that ``twin.py`` need not have; its errors name the line that failed."""
    if not hasattr(competition.module("twin"), name):
        return None
    return lambda *arguments: call_module(competition, "twin", name, *arguments)


def _checked(competition: Competition, made: Any) -> Predictions:
    """What ``make`` returned. Raises CompetitionError."""
    file = competition.file("twin.py")
    if not isinstance(made, Mapping) or not made.keys() >= {"simple", "ceiling"}:
        found = sorted(map(str, made)) if isinstance(made, Mapping) else type(made).__name__
        raise CompetitionError(f"{file}: make must return a dictionary with simple and ceiling, not {found}")
    for name in ("simple", "ceiling"):
        if not isinstance(made[name], pd.DataFrame) or None in made[name].index.names:
            raise CompetitionError(f"{file}: make: {name} must be a table whose index is named as the id's column")
    return {name: made[name] for name in ("simple", "ceiling")}


def medals_from_json(competition: Competition, values: Any) -> TwinMedals:
    """The reverse of ``asdict``. Raises CompetitionError: third-party code may have written them."""
    try:
        board = values["leaderboard"]
        numbers = {name: float(board[name]) for name in ("gold", "silver", "bronze", "median")}
        percentiles = tuple(map(float, board["percentiles"]))
        curve, controls = (tuple(map(float, values[name])) for name in ("curve", "controls"))
        if not all(map(math.isfinite, (*numbers.values(), *percentiles, *curve))):
            raise ValueError("a threshold is not finite")
        leaderboard = Leaderboard(
            teams=int(board["teams"]),
            lower_is_better=competition.lower_is_better,
            percentiles=percentiles,
            source="twin",
            **numbers,
        )
        return TwinMedals(leaderboard=leaderboard, curve=curve, controls=controls, floor=str(values["floor"])[:100])
    except (TypeError, ValueError, LookupError) as error:
        raise CompetitionError(f"{competition.id}: the medals of its twin cannot be read: {error}") from error


class TwinStore(DataStore):
    """The twins of one seed and size, below the data folder but apart from real data.

    Each is made when it is first prepared. Its datasets have the twin's own leaderboard. The record of how it was made,
    ``twin.json``, lies beside the prepared data, where no sandbox sees it; raw data is not kept.
    """

    def __init__(self, data_dir: Path, twins: Twins) -> None:
        super().__init__(twins.folder(data_dir))
        self.data_dir, self.twins = data_dir, twins

    def __repr__(self) -> str:
        return f"TwinStore({str(self.data_dir)!r}, {str(self.twins)!r})"

    def command(self, name: str, competition: Competition, *options: str) -> str:
        """See DataStore."""
        per_seed = () if self.twins.run_seed is None else ("--twin-per-seed",)
        return DataStore(self.data_dir).command(name, competition, f"--data={self.twins}", *per_seed, *options)

    def dataset(self, competition: Competition) -> Dataset:
        """See DataStore; prepared data has the twin's leaderboard. Raises DataError where its record is broken."""
        dataset = super().dataset(competition)
        if not dataset.is_prepared:
            return dataset
        try:
            record = loads(dataset.twin_record.read_bytes())
            board = medals_from_json(competition, record["medals"]).leaderboard
        except (OSError, ValueError, LookupError, TypeError, CompetitionError) as error:
            raise DataError(
                f"{dataset.twin_record} cannot be read: {error}; remove {dataset.folder} to make the twin again"
            ) from error
        return Dataset(competition.as_twin(board), dataset.folder)

    def find(self, competition: Competition, reporter: Reporter = silent, **options: Unpack[PrepareOptions]) -> None:
        """See that the competition has a twin; raises DataError."""
        if not has_twin(competition):
            raise DataError(no_twin(competition))

    def _source_head(
        self, competition: Competition, reporter: Reporter, **options: Unpack[PrepareOptions]
    ) -> Head | None:
        return None

    def _needs_raw(self, competition: Competition, **options: Unpack[PrepareOptions]) -> bool:
        return False

    def _prepared_by_mle_bench(self, competition: Competition) -> Path | None:
        return None

    def _make(
        self, dataset: Dataset, downloads: Downloads | None, reporter: Reporter, **options: Unpack[PrepareOptions]
    ) -> None:
        competition = dataset.competition
        self.find(competition)
        seed = self.twins.world_seed(self.data_dir)
        with durable.scratch(dataset.folder, ".making-") as name:
            reporter(Step(competition.id, "making its twin"))
            made = make_twin(competition, Path(name, "made"), seed, self.twins.size)
            assert made.medals is not None
            shutil.rmtree(made.dataset.raw)
            self._level(made.dataset, Path(name))
            record = {
                "seed": seed,
                "size": self.twins.size,
                "attempts": len(made.refused) + 1,
                "refused": made.refused,
                "seconds": made.seconds,
                "medals": asdict(made.medals),
            }
            durable.write_text(dataset.twin_record, json.dumps(record) + "\n")
            dataset.twin_record.chmod(0o600)
            twin = {"key": self.twins.key, "size": self.twins.size, "run_seed": self.twins.run_seed}
            self._publish(dataset, made.dataset, verified=False, description="bundled", twin=twin)
