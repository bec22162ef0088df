import numpy as np
import pandas as pd

from pytest_mlebench.authoring import require_finite
from pytest_mlebench.authoring.resampling import RowScores
from pytest_mlebench.errors import InvalidSubmission

from .. import grade as first


def check(submission: pd.DataFrame, template: pd.DataFrame) -> np.ndarray:
    scores = first.check(submission, template)
    require_finite(scores, "score")
    if len(np.unique(scores)) < 2:
        raise InvalidSubmission("column 'score': all values are the same, which leaves the correlation undefined")
    return scores


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> np.float64:
    check(submission, answers)
    return first.grade(submission, answers)


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> RowScores:
    check(submission, answers)
    return first.row_scores(submission, answers)
