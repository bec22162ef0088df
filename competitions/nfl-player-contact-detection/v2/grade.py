import numpy as np
import pandas as pd

from pytest_mlebench.authoring import require_between
from pytest_mlebench.authoring.resampling import RowScores

from .. import grade as first


def check(submission: pd.DataFrame, template: pd.DataFrame) -> np.ndarray:
    contacts = first.check(submission, template)
    require_between(contacts.astype(float), "contact", 0, 1)
    return contacts


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    check(submission, answers)
    return first.grade(submission, answers)


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> RowScores:
    check(submission, answers)
    return first.row_scores(submission, answers)
