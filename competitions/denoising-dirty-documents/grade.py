from functools import partial

import pandas as pd
from sklearn.metrics import root_mean_squared_error

from pytest_mlebench.authoring import predictions
from pytest_mlebench.authoring.resampling import RowScores, root_mean

check = partial(predictions, columns="value", on="id")


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return root_mean_squared_error(answers["value"], check(submission, answers))


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> RowScores:
    errors = answers["value"].to_numpy() - check(submission, answers)
    return root_mean(errors**2, units=answers["id"].str.partition("_")[0])  # resample whole images
