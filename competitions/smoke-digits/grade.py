import numpy as np
import pandas as pd
from sklearn.metrics import accuracy_score

from pytest_mlebench.authoring import InvalidSubmission, predictions


def check(submission: pd.DataFrame, template: pd.DataFrame) -> np.ndarray:
    digit = predictions(submission, template, "digit", on="id", between=(0, 9))
    if (digit % 1 != 0).any():
        raise InvalidSubmission("column 'digit' must contain integers from 0 to 9")
    return digit


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return accuracy_score(answers["digit"], check(submission, answers))


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> np.ndarray:
    return check(submission, answers) == answers["digit"].to_numpy()
