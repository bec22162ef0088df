import pandas as pd

from pytest_mlebench.authoring.resampling import RowScores
from pytest_mlebench.errors import InvalidSubmission

from .. import grade as first

LIMIT = 1200


def check(submission: pd.DataFrame, template: pd.DataFrame) -> list[first.Labelled]:
    points = first.check(submission, template)
    if (most := max((len(characters) for characters, _ in points), default=0)) > LIMIT:
        raise InvalidSubmission(f"column 'labels': a page has {most:,} predictions; at most {LIMIT:,} are allowed")
    return points


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    check(submission, answers)
    return first.grade(submission, answers)


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> RowScores:
    check(submission, answers)
    return first.row_scores(submission, answers)
