import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

from pytest_mlebench.authoring import predictions, require_columns
from pytest_mlebench.authoring.resampling import RowScores, roc_auc

STATES = ["healthy", "multiple_diseases", "rust", "scab"]


def check(submission: pd.DataFrame, template: pd.DataFrame) -> np.ndarray:
    require_columns(submission, ["image_id", *STATES], exactly=True)
    return predictions(submission, template, STATES, on="image_id")


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return roc_auc_score(answers[STATES], check(submission, answers), average="macro")


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> RowScores:
    return roc_auc(answers[STATES], check(submission, answers))
