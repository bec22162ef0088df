import numpy as np
import pandas as pd

from pytest_mlebench.authoring import InvalidSubmission, alignment, numeric, require_columns
from pytest_mlebench.authoring.metrics.classification import probabilistic_f1
from pytest_mlebench.authoring.resampling import RowScores, ratio


def check(submission: pd.DataFrame, template: pd.DataFrame) -> np.ndarray:
    require_columns(submission, ["prediction_id", "cancer"])
    cancer = numeric(submission, "cancer")
    if len(cancer) and (cancer < 0).all():
        raise InvalidSubmission("column 'cancer': all values are below 0; probabilities were expected")
    return np.clip(cancer, 0, 1)[alignment(submission, template, on="prediction_id")]


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> np.float64:
    return np.float64(probabilistic_f1(answers["cancer"], check(submission, answers)))  # 0 if a value is missing


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> RowScores:
    truth, predicted = answers["cancer"].to_numpy(), check(submission, answers)
    return ratio(2 * truth * predicted, truth + predicted)
