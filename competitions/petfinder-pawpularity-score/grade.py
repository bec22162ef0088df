from functools import partial

import pandas as pd
from sklearn.metrics import root_mean_squared_error

from pytest_mlebench.authoring import predictions
from pytest_mlebench.authoring.resampling import RowScores, root_mean

check = partial(predictions, columns="Pawpularity", on="Id", between=(1, 100))


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return root_mean_squared_error(answers["Pawpularity"], check(submission, answers))


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> RowScores:
    return root_mean((answers["Pawpularity"].to_numpy() - check(submission, answers)) ** 2)
