import numpy as np
import pandas as pd

from pytest_mlebench.authoring import predictions
from pytest_mlebench.authoring.resampling import RowScores

from .. import grade as first


def check(submission: pd.DataFrame, template: pd.DataFrame) -> None:
    first.check(submission, template)
    predictions(submission, template, ["FVC", "Confidence"], on="Patient_Week")


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> np.float64:
    check(submission, answers)
    return first.grade(submission, answers)


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> RowScores:
    check(submission, answers)
    return first.row_scores(submission, answers)
