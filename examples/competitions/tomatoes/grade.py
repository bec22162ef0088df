from functools import partial

import pandas as pd
from sklearn.metrics import root_mean_squared_error

from pytest_mlebench.authoring import predictions
from pytest_mlebench.authoring.resampling import RowScores, root_mean

check = partial(predictions, columns="harvest", on="id", between=(0, 100))


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return root_mean_squared_error(answers["harvest"], check(submission, answers))


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> RowScores:
    return root_mean((answers["harvest"].to_numpy() - check(submission, answers)) ** 2)
