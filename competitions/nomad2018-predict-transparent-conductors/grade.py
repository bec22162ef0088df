import numpy as np
import pandas as pd
from sklearn.metrics import root_mean_squared_log_error

from pytest_mlebench.authoring import numeric, require_above, require_columns, require_finite, require_row_count
from pytest_mlebench.authoring.resampling import RowScores, root_mean

from .columns import TARGETS


def check(submission: pd.DataFrame, template: pd.DataFrame) -> np.ndarray:
    require_columns(submission, TARGETS)
    require_row_count(submission, template)
    energies = numeric(submission, TARGETS)
    require_finite(energies, TARGETS)
    require_above(energies, TARGETS, -1)
    return energies


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> np.float64:
    return np.float64(
        root_mean_squared_log_error(answers[TARGETS], check(submission, answers))  # by position: ids are not compared
    )


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> RowScores:
    return root_mean((np.log1p(answers[TARGETS].to_numpy()) - np.log1p(check(submission, answers))) ** 2)
