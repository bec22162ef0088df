"""Medals of a twin: thresholds from predictions of known quality, in the competition's own metric.

A twin's maker knows what somebody would predict who knows its world (``ceiling``), or only the obvious part of it
(``simple``). The floor needs no data: the best of the sample submission, the mode, the mean, the median, and the
ceiling's own predictions dealt out to other rows. An entrant of skill s ≤ 1/2 has the simple prediction for a share 2s
of the test's units and the floor's for the others; above, the ceiling's for a share 2s - 1, and the simple one for the
others. The mean score over some draws, made monotone by isotonic regression, is what a skill is worth; thresholds and
percentiles are those of 100 teams of fixed skills.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from pytest_mlebench.catalog import Competition
from pytest_mlebench.catalog.leaderboard import Leaderboard
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.errors import CompetitionError, InvalidSubmission, MLEBenchError
from pytest_mlebench.grading.scorer import GraderDefect, Scorer

TEAMS = 100
_RANKS, _SKILLS = (1, 10, 20, 40, 51, 75, 100), (0.95, 0.85, 0.70, 0.50, 0.40, 0.20, 0.0)
"""Of 100 teams the tenth earns gold, the twentieth silver, the fortieth bronze: the skill of each."""
BRONZE = 0.5
_STEPS, _DRAWS, _CONTROLS = 13, 5, 30
_SURE = 0.98
"""The share of entrants without skill who must not earn a medal."""
_CLEAR = 2.0
"""So many standard errors must lie between the simple prediction and the ceiling."""

Predictions = Mapping[str, pd.DataFrame]
"""``ceiling`` and ``simple``: tables of the submission's columns, whose index is the id; other ids may be there.

The index has several levels where it takes several columns to identify a row.
"""
Units = Callable[[pd.DataFrame], Sequence[object]]
"""Says of a submission's rows which belong together, as those of a patient: one has them all right or none."""
Deal = Callable[[pd.DataFrame, np.random.Generator], pd.DataFrame]
"""Deals a submission's predictions out to other rows, in forms where exchanging whole cells makes it invalid."""

Mix = Callable[[pd.DataFrame, pd.DataFrame, float, np.random.Generator], pd.DataFrame]
"""Takes a share of what it predicts from a second submission: for tasks of so few rows that rows must be mixed too."""


class NoMedals(MLEBenchError):
    """A twin cannot tell skill from luck: it has too few test rows, or too little signal."""


@dataclass(frozen=True, kw_only=True)
class TwinMedals:
    leaderboard: Leaderboard
    curve: tuple[float, ...]
    """The score that each skill is worth: skills from 0 to 1 at equal steps."""
    controls: tuple[float, ...]
    """Scores of entrants who deal the ceiling's predictions out at random."""
    floor: str
    """Which prediction without data scores best."""

    def skill(self, score: float) -> float:
        """The skill, from 0 to 1, that a score stands for."""
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
    """The medals of a prepared twin. Raises NoMedals where its world does not tell skill from luck.

    ``indicative`` medals may be luck: then a world only has to reward its ceiling.
    """
    competition = dataset.competition
    sample = read_sample(dataset)
    best, simple = (
        as_submission(predictions[name], sample, f"{competition.id}: twin.py") for name in ("ceiling", "simple")
    )
    trial = _Trial(dataset, list(predictions["ceiling"].columns), best, units, rng, deal, mix)
    with tempfile.TemporaryDirectory() as folder:
        trial.path = Path(folder, dataset.sample_submission.name)
        controls = np.array([trial.score(trial.dealt()) for _ in range(_CONTROLS)])
        tables = _uninformed(sample, best, trial.asked)
        constant = {name: (table, trial.score(table, may_break=True)) for name, table in tables.items()}
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
    # Where a score is a mean over rows, mixing half of them spreads by half of the standard error of the difference.
    error = 2 * float(np.sqrt(np.mean([np.var(scores, ddof=1) for scores in draws[_STEPS // 2 + 1 : -1]])))
    above = curve[-1] - curve[_STEPS // 2]
    if above < _CLEAR * error and not indicative:
        raise NoMedals(f"{what}; {above:.4f} between simple and ceiling is too little for an error of {error:.4f}")
    finite = controls[np.isfinite(controls)]
    lucky = float(np.quantile(finite, _SURE)) if len(finite) else curve[0]
    if lucky >= np.interp(BRONZE, shares, curve) and not indicative:
        raise NoMedals(f"{what}; guessing scores {sign * lucky:.5f}: it takes more test rows, or more signal")
    skills = np.interp(np.arange(1, TEAMS + 1), _RANKS, _SKILLS)
    teams = np.round(np.interp(skills, shares, curve), 5)  # as scores are compared
    board = Leaderboard.from_scores(sign * teams, lower_is_better=sign < 0, source="twin")
    rounded = tuple(float(score) for score in np.round(sign * curve, 7))
    return TwinMedals(leaderboard=board, curve=rounded, controls=tuple(float(c) for c in sign * controls), floor=floor)


class _Trial:
    """Scores submissions, higher is better, and mixes them by units."""

    path: Path

    def __init__(
        self,
        dataset: Dataset,
        asked: list[str],
        best: pd.DataFrame,
        units: Units | None,
        rng: np.random.Generator,
        deal: Deal | None,
        mix: Mix | None,
    ) -> None:
        self.asked = asked
        self._best = best
        self._rng = rng
        self._deal = deal
        self._mix = mix
        self._unit = np.unique(np.asarray(units(best)), return_inverse=True)[1] if units else np.arange(len(best))
        self._sign = -1 if dataset.competition.leaderboard.lower_is_better else 1
        self._scorer = Scorer(dataset.competition, dataset.answers)

    def score(self, table: pd.DataFrame, *, may_break: bool = False) -> float:
        """``may_break``: a table that the grader may not be made for, such as means of classes."""
        table.to_csv(self.path, index=False)
        try:
            return self._sign * float(self._scorer.score(self.path))
        except InvalidSubmission:
            return -np.inf
        except GraderDefect as error:
            if may_break:
                return -np.inf
            raise NoMedals(str(error)) from error

    def mixed(self, base: pd.DataFrame, share: float, other: pd.DataFrame) -> pd.DataFrame:
        """The base with a share of the units as in the other one."""
        if self._mix is not None:
            return self._mix(base, other, share, self._rng)
        count = int(self._unit.max()) + 1
        taken = self._rng.permutation(count)[self._unit] < share * count
        table = base.copy()
        table.loc[taken, self.asked] = other.loc[taken, self.asked]
        return table

    def dealt(self) -> pd.DataFrame:
        """The ceiling's predictions, each for another row."""
        if self._deal is not None:
            return self._deal(self._best, self._rng)
        table = self._best.copy()
        table[self.asked] = self._best[self.asked].to_numpy()[self._rng.permutation(len(table))]
        return table


def read_sample(dataset: Dataset) -> pd.DataFrame:
    """The sample submission, all of it as text."""
    return pd.read_csv(dataset.sample_submission, dtype=object, keep_default_na=False)


def as_submission(predictions: pd.DataFrame, sample: pd.DataFrame, where: str = "twin.py") -> pd.DataFrame:
    """Predictions by id in the form and order of the sample submission. Raises CompetitionError if ids are missing."""
    names = [str(name) for name in predictions.index.names]
    if odd := sorted({*names} - set(sample.columns)):  # it may lack columns that the grader asks for
        raise CompetitionError(f"{where}: the sample submission has no column {odd[0]!r}")
    by_id = predictions.set_axis(row_keys(predictions.index.to_frame()), axis=0)
    keys = row_keys(sample[names])
    if missing := sorted(set(keys) - set(by_id.index)):
        raise CompetitionError(
            f"{where}: a prediction lacks {len(missing)} of {len(keys)} rows, such as {missing[0]!r}"
        )
    rows = by_id.reindex(keys) if by_id.index.is_unique else by_id[~by_id.index.duplicated()].reindex(keys)
    others = sample.drop(columns=[name for name in rows.columns if name in sample.columns])
    made = pd.concat([others, rows.astype(object).set_axis(sample.index, axis=0)], axis=1)
    return made[[*sample.columns, *(name for name in rows.columns if name not in sample.columns)]].astype(object)


def row_keys(ids: pd.DataFrame) -> pd.Index:
    """One text for each row of the columns that identify it."""
    texts = ids.astype(str)
    keys: pd.Index = pd.Index(texts.iloc[:, 0] if texts.shape[1] == 1 else texts.agg(" ".join, axis=1))
    return keys


def _rising(values: np.ndarray) -> np.ndarray:
    """The means of neighbours where values fall (isotonic regression), none above the last or below the first.

    >>> _rising(np.array([0.0, 2.0, 1.0, 4.0, 3.0])).tolist()
    [0.0, 1.5, 1.5, 3.0, 3.0]
    """
    from sklearn.isotonic import isotonic_regression

    return np.asarray(np.clip(isotonic_regression(values), values[0], values[-1]))


def _uninformed(sample: pd.DataFrame, best: pd.DataFrame, asked: list[str]) -> dict[str, pd.DataFrame]:
    """What can be predicted without looking at a row."""
    made = {"sample": sample.astype(object)}
    if best[asked].duplicated().any():  # else a row's own answer would be the most frequent one
        made["mode"] = best.assign(**{name: best[name].mode(dropna=False).iloc[0] for name in asked})
    numbers = best[asked].apply(pd.to_numeric, errors="coerce")
    if numbers.notna().all(axis=None):
        made |= {"mean": best.assign(**numbers.mean()), "median": best.assign(**numbers.median())}
    return {name: table.astype(object) for name, table in made.items()}
