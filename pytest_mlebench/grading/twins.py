"""Generates twins: learnable raw data from a competition's ``twin.py`` (see docs/twins.md), with their own medals.

The floor is the best prediction that needs no data: the sample submission, the mode, the mean, the median, the twin's
own ``floor``, or the ceiling's predictions assigned to other rows. An entrant of skill s ≤ 1/2 has the simple
prediction for a share 2s of the test's units, and the floor's for the others. Above 1/2, it has the ceiling's
prediction for a share 2s - 1, and the simple one for the others. The mean score over some draws, made monotone by
isotonic regression, is the score of a skill. Thresholds and percentiles are those of 100 teams of fixed skills.
"""

from __future__ import annotations

import hashlib
import json
import math
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import pandas as pd

from pytest_mlebench.authoring.archives import archive_errors
from pytest_mlebench.authoring.corrections import keyed
from pytest_mlebench.catalog import Competition
from pytest_mlebench.catalog.schema import Leaderboard
from pytest_mlebench.data import preparing
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.data.store import DataStore, PrepareOptions
from pytest_mlebench.errors import (
    CompetitionError,
    DataError,
    GraderDefect,
    InvalidSubmission,
    MLEBenchError,
    UsageError,
)
from pytest_mlebench.grading.scorer import Scorer
from pytest_mlebench.io import files
from pytest_mlebench.io.progress import Reporter, Step, silent
from pytest_mlebench.io.values import loads, parse

if TYPE_CHECKING:
    from pytest_mlebench.data.download.kaggle import KaggleDownloads

TEAMS = 100
_RANKS, _SKILLS = (1, 10, 20, 40, 51, 75, 100), (0.95, 0.85, 0.70, 0.50, 0.40, 0.20, 0.0)
"""Ranks among 100 teams, and their skills: the tenth earns gold, the twentieth silver, the fortieth bronze."""
BRONZE = 0.5
_STEPS, _DRAWS, _CONTROLS = 13, 5, 30
_SURE = 0.98
"""Minimum share of entrants without skill that earn no medal."""
_CLEAR = 2.0
"""Minimum distance between the simple prediction and the ceiling, in standard errors."""

Predictions = Mapping[str, pd.DataFrame]
"""``ceiling``, ``simple`` and perhaps ``floor``: tables of the submission's columns by id; other ids are allowed.

The index has several levels if several columns identify a row.
"""
Units = Callable[[pd.DataFrame], Sequence[object]]
"""Returns the unit of each row of a submission, such as its patient: an entrant has all of a unit right, or nothing."""
Deal = Callable[[pd.DataFrame, np.random.Generator], pd.DataFrame]
"""Assigns a submission's predictions to other rows, if exchanging whole cells would make the submission invalid."""

Mix = Callable[[pd.DataFrame, pd.DataFrame, float, np.random.Generator], pd.DataFrame]
"""Takes a share of the predictions from a second submission, for tasks with so few rows that rows must be mixed too."""


class NoMedals(MLEBenchError):
    """A twin cannot distinguish skill from luck: it has too few test rows, or too little signal."""


@dataclass(frozen=True, kw_only=True)
class TwinMedals:
    leaderboard: Leaderboard
    curve: tuple[float, ...]
    """The score of each skill: skills from 0 to 1 in equal steps."""
    controls: tuple[float, ...]
    """Scores of entrants who assign the ceiling's predictions to random rows."""
    floor: str
    """Name of the best prediction that needs no data."""

    def skill(self, score: float) -> float:
        """Return the skill, from 0 to 1, that has this score."""
        sign = -1 if self.leaderboard.lower_is_better else 1
        return float(np.interp(sign * score, sign * np.array(self.curve), np.linspace(0, 1, len(self.curve))))


def twin_medals(
    dataset: Dataset,
    predictions: Predictions,
    rng: np.random.Generator,
    units: Units | None = None,
    deal: Deal | None = None,
    mix: Mix | None = None,
    *,
    indicative: bool = False,
) -> TwinMedals:
    """Compute the medals of a prepared twin. Raises NoMedals if its world does not distinguish skill from luck.

    With ``indicative``, medals may be luck, and the world only has to reward its ceiling.
    """
    competition = dataset.competition
    sample = read_sample(dataset)
    best, simple = (
        as_submission(predictions[name], sample, f"{competition.id}: twin.py") for name in ("ceiling", "simple")
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, dataset.sample_submission.name)
        trial = _Trial(dataset, list(predictions["ceiling"].columns), best, units, rng, deal, mix, path)
        controls = np.array([trial.score(trial.dealt()) for _ in range(_CONTROLS)])
        tables = _uninformed(sample, best, trial.asked)
        if (own_floor := predictions.get("floor")) is not None:
            tables["its own"] = as_submission(own_floor, sample, f"{competition.id}: twin.py")
        constant = {name: (table, trial.score(table, may_fail=True)) for name, table in tables.items()}
        floor, (base, least) = max(constant.items(), key=lambda item: np.nan_to_num(item[1][1], nan=-np.inf))
        start: Callable[[], pd.DataFrame] = partial(pd.DataFrame.copy, base)
        if not least >= np.mean(controls):
            floor, start, least = "dealt out", trial.dealt, float(np.mean(controls))

        def entrant(skill: float) -> float:
            if skill < BRONZE:
                return trial.score(trial.mixed(start(), 2 * skill, simple))
            return trial.score(trial.mixed(simple, 2 * skill - 1, best))

        shares = np.linspace(0, 1, _STEPS)
        draws = [[least], *([entrant(s) for _ in range(_DRAWS)] for s in shares[1:-1]), [trial.score(best)]]
    return _medals(competition, draws, controls, floor, indicative=indicative)


def _medals(
    competition: Competition, draws: list[list[float]], controls: np.ndarray, floor: str, *, indicative: bool
) -> TwinMedals:
    sign = -1 if competition.leaderboard.lower_is_better else 1
    shares = np.linspace(0, 1, _STEPS)
    means = np.array([np.mean(scores) for scores in draws])
    what = f"{competition.id}: the ceiling scores {sign * means[-1]:.5f}, {floor} {sign * means[0]:.5f}"
    if not np.isfinite(means).all() or means[-1] <= means[0]:
        raise NoMedals(what)
    curve = _rising(means)
    # If a score is a mean over rows, mixing half of them spreads by half the standard error of the difference.
    error = 2 * float(np.sqrt(np.mean([np.var(scores, ddof=1) for scores in draws[_STEPS // 2 + 1 : -1]])))
    above = curve[-1] - curve[_STEPS // 2]
    if above < _CLEAR * error and not indicative:
        raise NoMedals(f"{what}; {above:.4f} from simple to ceiling is too little for a standard error of {error:.4f}")
    finite = controls[np.isfinite(controls)]
    lucky = float(np.quantile(finite, _SURE)) if len(finite) else curve[0]
    if lucky >= np.interp(BRONZE, shares, curve) and not indicative:
        raise NoMedals(f"{what}; guessing scores {sign * lucky:.5f}: add test rows or signal")
    skills = np.interp(np.arange(1, TEAMS + 1), _RANKS, _SKILLS)
    teams = np.round(np.interp(skills, shares, curve), 5)  # scores are compared after rounding
    board = Leaderboard.from_scores(sign * teams, lower_is_better=sign < 0, source="twin")
    rounded = tuple(float(score) for score in np.round(sign * curve, 7))
    return TwinMedals(leaderboard=board, curve=rounded, controls=tuple(float(c) for c in sign * controls), floor=floor)


@dataclass
class _Trial:
    """Scores submissions (higher is better), and mixes them by units."""

    dataset: Dataset
    asked: list[str]
    best: pd.DataFrame
    units: Units | None
    rng: np.random.Generator
    deal: Deal | None
    mix: Mix | None
    path: Path

    def __post_init__(self) -> None:
        units, best = self.units, self.best
        self._unit = np.unique(np.asarray(units(best)), return_inverse=True)[1] if units else np.arange(len(best))
        self._sign = -1 if self.dataset.competition.leaderboard.lower_is_better else 1
        self._scorer = Scorer(self.dataset.competition, self.dataset.answers)

    def score(self, table: pd.DataFrame, *, may_fail: bool = False) -> float:
        """Score a table. ``may_fail`` is for tables that the grader may not support, such as means of classes."""
        table.to_csv(self.path, index=False)
        try:
            return self._sign * float(self._scorer.score(self.path))
        except InvalidSubmission:
            return -np.inf
        except GraderDefect as error:
            if may_fail:
                return -np.inf
            raise NoMedals(str(error)) from error

    def mixed(self, base: pd.DataFrame, share: float, other: pd.DataFrame) -> pd.DataFrame:
        """Return ``base`` with a share of its units taken from ``other``."""
        if self.mix is not None:
            return self.mix(base, other, share, self.rng)
        count = int(self._unit.max()) + 1
        taken = self.rng.permutation(count)[self._unit] < share * count
        table = base.copy()
        table.loc[taken, self.asked] = other.loc[taken, self.asked]
        return table

    def dealt(self) -> pd.DataFrame:
        """Return the ceiling's predictions, assigned to random rows."""
        if self.deal is not None:
            return self.deal(self.best, self.rng)
        table = self.best.copy()
        table[self.asked] = self.best[self.asked].to_numpy()[self.rng.permutation(len(table))]
        return table


def read_sample(dataset: Dataset) -> pd.DataFrame:
    """Read the sample submission, with all values as strings."""
    with archive_errors(dataset.sample_submission):
        return pd.read_csv(dataset.sample_submission, dtype=object, keep_default_na=False)


def as_submission(predictions: pd.DataFrame, sample: pd.DataFrame, where: str = "twin.py") -> pd.DataFrame:
    """Return predictions in the sample submission's format and order. Raises CompetitionError if ids are missing."""
    names = [str(name) for name in predictions.index.names]
    if unknown := sorted({*names} - set(sample.columns)):  # it may lack other columns that the grader needs
        raise CompetitionError(f"{where}: the sample submission has no column {unknown[0]!r}")
    if not {*predictions.columns} & {*sample.columns} and (asked := [*sample.columns.difference(names, sort=False)]):
        raise CompetitionError(
            f"{where}: the predictions have the columns {[*predictions.columns]}; the sample submission has {asked}"
        )
    by_id = predictions.set_axis(row_keys(predictions.index.to_frame()), axis=0)
    keys = row_keys(sample[names])
    if missing := sorted(set(keys) - set(by_id.index)):
        raise CompetitionError(
            f"{where}: a prediction lacks {len(missing)} of {len(keys)} rows, such as {missing[0]!r}"
        )
    rows = by_id.reindex(keys) if by_id.index.is_unique else by_id[~by_id.index.duplicated()].reindex(keys)
    others = sample.drop(columns=[name for name in rows.columns if name in sample.columns])
    table = pd.concat([others, rows.astype(object).set_axis(sample.index, axis=0)], axis=1)
    return table[[*sample.columns, *(name for name in rows.columns if name not in sample.columns)]].astype(object)


def row_keys(ids: pd.DataFrame) -> pd.Index:
    """Return one string per row from the columns that identify it."""
    texts = ids.astype(str)
    keys: pd.Index = pd.Index(texts.iloc[:, 0] if texts.shape[1] == 1 else texts.agg(" ".join, axis=1))
    return keys


def _rising(values: np.ndarray) -> np.ndarray:
    """Return the isotonic regression of values, clipped to the range from the first to the last.

    >>> _rising(np.array([0.0, 2.0, 1.0, 4.0, 3.0])).tolist()
    [0.0, 1.5, 1.5, 3.0, 3.0]
    """
    from sklearn.isotonic import isotonic_regression

    return np.asarray(np.clip(isotonic_regression(values), values[0], values[-1]))


def _uninformed(sample: pd.DataFrame, best: pd.DataFrame, asked: list[str]) -> dict[str, pd.DataFrame]:
    """Return predictions that need no data of the rows, by name."""
    tables = {"sample": sample.astype(object)}
    if best[asked].duplicated().any():  # else the mode would be one row's own answer
        tables["mode"] = best.assign(**{name: best[name].mode(dropna=False).iloc[0] for name in asked})
    numbers = best[asked].apply(pd.to_numeric, errors="coerce")
    if numbers.notna().all(axis=None):
        tables |= {"mean": best.assign(**numbers.mean()), "median": best.assign(**numbers.median())}
    return {name: table.astype(object) for name, table in tables.items()}


SOLUTION = "solution.csv"
ATTEMPTS = 10
"""Maximum number of worlds that are drawn until one distinguishes skill from luck."""


@dataclass(frozen=True, kw_only=True)
class GeneratedTwin:
    dataset: Dataset
    medals: TwinMedals | None
    """None if not requested."""
    predictions: Predictions = field(default_factory=dict)
    """Empty for third-party competitions, whose code runs in a separate process."""
    refused: tuple[str, ...]
    """Why earlier worlds of the same seed were rejected."""
    seconds: tuple[float, ...]
    """CPU seconds to generate the data, prepare it and compute the medals, without rejected worlds."""


@dataclass(frozen=True)
class _World:
    """A reply of ``make_world_here``."""

    refused: str | None = None
    medals: Any = None
    seconds: tuple[float, ...] = ()


def make_twin(
    competition: Competition, folder: Path, seed: int, size: str, *, medals: bool = True, solution: bool = False
) -> GeneratedTwin:
    """Generate and prepare a twin in a folder that must not exist yet, from the first world that has medals.

    With ``solution``, the folder also has a file ``SOLUTION``: the ceiling as a submission. Third-party code may have
    written something else under this name.

    Raises CompetitionError if there is no ``twin.py``, or with file and line if it fails. Raises NoMedals if ten
    worlds were rejected.
    """
    if not competition.has_twin:
        raise CompetitionError(preparing.no_twin(competition))
    competition.require_modules()
    refused: list[str] = []
    for attempt in range(ATTEMPTS):
        folder.mkdir(parents=True)
        arguments = (str(folder.absolute()), seed, attempt, size, medals, solution)
        predictions: Predictions = {}
        if preparing.is_third_party(competition):
            reply: _World = preparing.call(make_world_here, competition, *arguments, kind=_World, write=[folder])
        else:
            values, predictions = _make_world(competition, *arguments)
            reply = parse(_World, values)
        if reply.refused is not None:
            refused.append(reply.refused[:1000])
            files.remove_tree(folder, ignore_errors=False)
            continue
        dataset = Dataset(competition, folder)
        preparing.check_prepared(dataset)
        return GeneratedTwin(
            dataset=dataset,
            medals=medals_from_json(competition, reply.medals) if medals else None,
            predictions=predictions,
            refused=tuple(refused),
            seconds=reply.seconds,
        )
    raise NoMedals(f"{competition.id}: no world of this seed and size {size} has medals: {refused[-1]}")


def make_world_here(
    competition: Competition, folder: str, seed: int, attempt: int, size: str, medals: bool, solution: bool = False
) -> dict[str, Any]:
    """Generate a world in an empty folder, in this process; returns ``medals`` and ``seconds``, or ``refused``."""
    return _make_world(competition, folder, seed, attempt, size, medals, solution)[0]


def _make_world(
    competition: Competition, folder: str, seed: int, attempt: int, size: str, medals: bool, solution: bool
) -> tuple[dict[str, Any], Predictions]:
    dataset = Dataset(competition, Path(folder))
    dataset.raw.mkdir()
    started = time.process_time()
    rng = np.random.default_rng([seed, attempt])
    key = hashlib.sha256(f"private randomness of world {attempt} of {seed}".encode()).hexdigest()
    with keyed(bytes.fromhex(key)):  # twins that know how rows are split use it too
        predictions = _checked(competition, preparing.call_module(competition, "twin", "make", dataset.raw, rng, size))
    made = time.process_time()
    preparing.prepare_here(competition, str(dataset.raw), folder, "twin.py", key)
    preparing.check_prepared(dataset)
    prepared = time.process_time()
    won = None
    if medals:
        functions = {
            name: partial(preparing.call_module, competition, "twin", name)  # its errors name the line that failed
            for name in ("units", "deal", "mix")
            if hasattr(competition.module("twin"), name)
        }
        try:
            rng = np.random.default_rng([seed, attempt, 1])
            won = twin_medals(dataset, predictions, rng, **functions, indicative=size == "micro")
        except NoMedals as error:
            return {"refused": str(error)}, {}
    seconds = made - started, prepared - made, time.process_time() - prepared
    if solution:
        ceiling = as_submission(predictions["ceiling"], read_sample(dataset), f"{competition.id}: twin.py")
        ceiling.to_csv(dataset.folder / SOLUTION, index=False)
    return {"medals": None if won is None else asdict(won), "seconds": seconds}, predictions


def _checked(competition: Competition, made: Any) -> Predictions:
    """Validate the result of ``make``, and return its known tables. Raises CompetitionError."""
    file = competition.file("twin.py")
    if not isinstance(made, Mapping) or not made.keys() >= {"simple", "ceiling"}:
        found = sorted(map(str, made)) if isinstance(made, Mapping) else type(made).__name__
        raise CompetitionError(f"{file}: make must return a dictionary with simple and ceiling, not {found}")
    known = {name: made[name] for name in ("floor", "simple", "ceiling") if name in made}
    for name, table in known.items():
        if not isinstance(table, pd.DataFrame) or None in table.index.names:
            raise CompetitionError(f"{file}: make: {name} must be a table whose index has the id column's name")
    return known


def medals_from_json(competition: Competition, values: Any) -> TwinMedals:
    """Reverse ``asdict``. Raises CompetitionError for invalid values: third-party code may have written them."""
    try:
        medals = parse(TwinMedals, values)
        board = medals.leaderboard
        thresholds = board.gold, board.silver, board.bronze, board.median, *board.percentiles
        if not all(map(math.isfinite, (*thresholds, *medals.curve))):
            raise ValueError("a threshold is not finite")
    except ValueError as error:
        raise CompetitionError(f"{competition.id}: the medals of its twin cannot be read: {error}") from error
    board = replace(board, lower_is_better=competition.lower_is_better, source="twin")
    return replace(medals, leaderboard=board, floor=medals.floor[:100])


class TwinStore(DataStore):
    """The twins of one seed and size, in the data folder but apart from real data.

    Each is generated when it is first prepared. Its dataset has the twin's own leaderboard. The record ``twin.json`` is
    next to the prepared data, where no sandbox sees it. Raw data is not kept.
    """

    def __init__(self, data_dir: Path, twins: preparing.Twins) -> None:
        super().__init__(twins.folder(data_dir))
        self.data_dir, self.twins = data_dir, twins

    def __repr__(self) -> str:
        return f"TwinStore({str(self.data_dir)!r}, {str(self.twins)!r})"

    def command(self, name: str, competition: Competition, *options: str) -> str:
        """See DataStore."""
        per_seed = () if self.twins.run_seed is None else ("--twin-per-seed",)
        return DataStore(self.data_dir).command(name, competition, f"--data={self.twins}", *per_seed, *options)

    def dataset(self, competition: Competition) -> Dataset:
        """See DataStore. Prepared data has the twin's leaderboard. Raises DataError if the twin's record is broken."""
        dataset = super().dataset(competition)
        if not dataset.is_prepared:
            return dataset
        try:
            record = loads(dataset.twin_record.read_bytes())
            board = medals_from_json(competition, record["medals"]).leaderboard
        except (OSError, ValueError, LookupError, TypeError, CompetitionError) as error:
            raise DataError(
                f"{dataset.twin_record} cannot be read: {error}; remove {dataset.folder} to generate the twin again"
            ) from error
        return Dataset(competition.as_twin(board), dataset.folder)

    def find(self, competition: Competition, reporter: Reporter = silent, **options: Unpack[PrepareOptions]) -> None:
        """Check that the competition has a twin; raises DataError."""
        if not competition.has_twin:
            raise DataError(preparing.no_twin(competition))

    def _needs_raw(self, competition: Competition, **options: Unpack[PrepareOptions]) -> bool:
        return False

    def _prepared_by_mle_bench(self, competition: Competition) -> Path | None:
        return None

    def _make(
        self, dataset: Dataset, downloads: KaggleDownloads | None, reporter: Reporter, **options: Unpack[PrepareOptions]
    ) -> None:
        competition = dataset.competition
        if options.get("raw_dir") is not None or options.get("synthetic") is not None:
            raise UsageError("the raw data of a twin is generated: leave out raw_dir and synthetic")
        self.find(competition)
        seed = self.twins.world_seed(self.data_dir)
        with files.scratch(dataset.folder, ".making-") as name:
            reporter(Step(competition.id, "generating its twin"))
            made = make_twin(competition, Path(name, "made"), seed, self.twins.size)
            assert made.medals is not None
            files.remove_tree(made.dataset.raw, ignore_errors=False)
            self._level(made.dataset, Path(name))
            record = {
                "seed": seed,
                "size": self.twins.size,
                "attempts": len(made.refused) + 1,
                "refused": made.refused,
                "seconds": made.seconds,
                "medals": asdict(made.medals),
            }
            files.write_text(dataset.twin_record, json.dumps(record) + "\n")
            dataset.twin_record.chmod(0o600)
            twin = {"key": self.twins.key, "size": self.twins.size, "run_seed": self.twins.run_seed}
            self._publish(dataset, made.dataset, verified=False, description="bundled", twin=twin)
