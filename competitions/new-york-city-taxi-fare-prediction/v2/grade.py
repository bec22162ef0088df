import numpy as np
import pandas as pd
from sklearn.metrics import root_mean_squared_error

from pytest_mlebench.authoring import predictions
from pytest_mlebench.authoring.resampling import RowScores, root_mean

from .. import grade as first


def check(submission: pd.DataFrame, template: pd.DataFrame) -> np.ndarray:
    first.check(submission, template)
    return predictions(submission, template, "fare_amount", on="key")


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return root_mean_squared_error(answers["fare_amount"], check(submission, answers))


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> RowScores:
    return root_mean((answers["fare_amount"].to_numpy() - check(submission, answers)) ** 2)
