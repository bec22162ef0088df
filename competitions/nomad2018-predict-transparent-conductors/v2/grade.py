import numpy as np
import pandas as pd
from sklearn.metrics import root_mean_squared_log_error

from pytest_mlebench.authoring import predictions
from pytest_mlebench.authoring.resampling import RowScores, root_mean

from .. import grade as first
from ..columns import TARGETS


def check(submission: pd.DataFrame, template: pd.DataFrame) -> np.ndarray:
    first.check(submission, template)
    return predictions(submission, template, TARGETS, on="id")


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> np.float64:
    return np.float64(root_mean_squared_log_error(answers[TARGETS], check(submission, answers)))


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> RowScores:
    return root_mean((np.log1p(answers[TARGETS].to_numpy()) - np.log1p(check(submission, answers))) ** 2)
