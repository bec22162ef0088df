import numpy as np
import pandas as pd

from pytest_mlebench.grading import predictions
from pytest_mlebench.grading.metrics.probabilistic import probabilistic_f1


def check(submission: pd.DataFrame, template: pd.DataFrame) -> np.ndarray:
    return np.clip(predictions(submission, template, "cancer", on="prediction_id"), 0, 1)


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> np.float64:
    return np.float64(probabilistic_f1(answers["cancer"], check(submission, answers)))
