import numpy as np
import pandas as pd

from pytest_mlebench.grading import InvalidSubmission, predictions, require_columns
from pytest_mlebench.grading.metrics.geometry import angular_error

from .columns import ANGLES


def check(submission: pd.DataFrame, template: pd.DataFrame) -> np.ndarray:
    require_columns(submission, ["event_id", *ANGLES], exactly=True)
    for angle in ANGLES:
        if submission[angle].dtype == bool:
            raise InvalidSubmission(f"column {angle!r} holds True and False; numbers were expected")
    return predictions(submission, template, ANGLES, on="event_id")


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> np.float64:
    return np.float64(angular_error(answers[ANGLES], check(submission, answers)).mean())


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> np.ndarray:
    return angular_error(answers[ANGLES], check(submission, answers))
