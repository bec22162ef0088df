import numpy as np
import pandas as pd

from pytest_mlebench.authoring import predictions
from pytest_mlebench.authoring.metrics.classification import probabilistic_f1
from pytest_mlebench.authoring.resampling import RowScores, ratio


def check(submission: pd.DataFrame, template: pd.DataFrame) -> np.ndarray:
    return np.clip(predictions(submission, template, "cancer", on="prediction_id"), 0, 1)


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> np.float64:
    return np.float64(probabilistic_f1(answers["cancer"], check(submission, answers)))


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> RowScores:
    truth, predicted = answers["cancer"].to_numpy(), check(submission, answers)
    return ratio(2 * truth * predicted, truth + predicted)
