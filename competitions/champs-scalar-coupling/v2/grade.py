import numpy as np
import pandas as pd

from pytest_mlebench.authoring import predictions
from pytest_mlebench.authoring.resampling import RowScores, mean_of_groups

from ..columns import TARGET

FLOOR = 1e-9


def check(submission: pd.DataFrame, template: pd.DataFrame) -> np.ndarray:
    return predictions(submission, template, TARGET, on="id")


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> np.float64:
    errors = (answers[TARGET] - check(submission, answers)).abs().groupby(answers["type"]).mean()
    return np.float64(np.log(errors.clip(lower=FLOOR)).mean())


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> RowScores:
    errors = (answers[TARGET] - check(submission, answers)).abs()
    return mean_of_groups(errors, answers["type"], then=lambda means: np.log(means.clip(min=FLOOR)))
