from typing import Any

import pandas as pd
from rapidfuzz.distance import Levenshtein

from pytest_mlebench.authoring import InvalidSubmission, alignment, require_columns, require_not_missing
from pytest_mlebench.authoring.metrics.text import word_error_rate
from pytest_mlebench.authoring.resampling import RowScores, ratio


def check(submission: pd.DataFrame, template: pd.DataFrame) -> list[list[int]]:
    require_columns(submission, ["Id", "Sequence"])
    require_not_missing(submission, "Sequence")
    order = alignment(submission, template, on="Id")
    gestures = [_gestures(value, row) for row, value in enumerate(submission["Sequence"], start=1)]
    return [gestures[k] for k in order]


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    truth = answers["Sequence"].astype(str).str.split().map(lambda numbers: [int(number) for number in numbers])
    return word_error_rate(truth.tolist(), check(submission, answers))


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> RowScores:
    true = [[int(number) for number in str(sequence).split()] for sequence in answers["Sequence"]]
    pairs = zip(true, check(submission, answers), strict=True)
    return ratio([Levenshtein.distance(*pair) for pair in pairs], [len(sequence) for sequence in true])


def _gestures(value: Any, row: int) -> list[int]:
    try:
        return [int(number) for number in str(value).split()]
    except ValueError as error:
        raise InvalidSubmission(
            f"column 'Sequence', row {row}: {str(value)[:60]!r} is not a list of integers separated by spaces"
        ) from error
