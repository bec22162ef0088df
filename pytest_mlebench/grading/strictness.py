"""Whether a grader matches rows by their ids, refuses rows that do not fit, and gives nothing for nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from pytest_mlebench.catalog.competition import Competition
from pytest_mlebench.data.dataset import Dataset
from pytest_mlebench.errors import InvalidSubmission
from pytest_mlebench.grading.scorer import GraderDefect, Scorer

_SAME = 5.1e-6
_MOSTLY = 0.6
_FEW = 20


def row_problems(competition: Competition, dataset: Dataset, scratch: Path) -> list[str]:
    """What a grader does wrong with the rows of the perfect submission, a sentence for each; empty if nothing.

    In another order they must score the same; a missing, a surplus and a repeated row must be refused. ``scratch`` is
    a folder for the submissions.
    """
    rows = _read(dataset.perfect_submission)
    if rows is None or len(rows) < 2:
        return []
    grader = _Graded(competition, dataset, scratch)
    score, backwards = grader.score(rows), grader.score(rows[::-1])
    found = []
    if score is None:  # then nothing can be told
        return []
    if backwards is None or not math.isclose(score, backwards, rel_tol=1e-9, abs_tol=_SAME):
        found.append(
            f"the order of rows matters: the perfect submission scores {_shown(score)}, backwards {_shown(backwards)}"
        )
    for what, wrong in (
        ("without its last row", rows[:-1]),
        ("with its last row twice", pd.concat([rows, rows.tail(1)])),
        ("with its last row in place of the first", pd.concat([rows[1:], rows.tail(1)])),
    ):
        if (given := grader.score(wrong)) is not None:
            found.append(f"the perfect submission {what} scores {given:g}; it must be refused")
    return found


def medals_for_guesses(competition: Competition, dataset: Dataset, scratch: Path) -> list[str]:
    """Medals that the sample submission earns, or one value in all rows, a sentence for each; empty if none.

    Synthetic data tells it only if it has some rows, and no value is the true one in most of them.
    """
    grader = _Graded(competition, dataset, scratch)
    return [
        f"{what} earns {medal}: it scores {score:g}"
        for what, rows in _guesses(dataset)
        if (score := grader.score(rows)) is not None and (medal := competition.leaderboard.medal(round(score, 5)))
    ]


def _guesses(dataset: Dataset) -> Iterator[tuple[str, pd.DataFrame]]:
    sample, perfect = _read(dataset.sample_submission), _read(dataset.perfect_submission)
    if sample is None or perfect is None:
        return
    asked = [column for column in sample.columns[1:] if column in perfect.columns and perfect[column].nunique() > 1]
    yield "the sample submission", sample
    shares = [perfect[column].value_counts(normalize=True).iloc[0] for column in asked]
    if asked and len(perfect) >= _FEW and max(shares) <= _MOSTLY:
        usual = {column: perfect[column].mode()[0] for column in asked}
        yield "the most frequent true value in all rows", perfect.assign(**usual)


class _Graded:
    def __init__(self, competition: Competition, dataset: Dataset, scratch: Path) -> None:
        self._scorer = Scorer(competition, dataset.answers)
        self._path = scratch / "rows.csv"

    def score(self, rows: pd.DataFrame) -> float | None:
        """None where it is refused, or has no score."""
        rows.to_csv(self._path, index=False)
        try:
            score = float(self._scorer.score(self._path))
        except (InvalidSubmission, GraderDefect):
            return None
        return None if math.isnan(score) else score


def _shown(score: float | None) -> str:
    return "nothing" if score is None else f"{score:g}"


def _read(path: Path) -> pd.DataFrame | None:
    try:
        return pd.read_csv(path, dtype=str, keep_default_na=False)
    except (ValueError, pd.errors.ParserError):
        return None
