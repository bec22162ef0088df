import numpy as np
import pandas as pd
from sklearn.metrics import accuracy_score

from pytest_mlebench.authoring import align, require_columns, require_not_missing, require_text


def check(submission: pd.DataFrame, template: pd.DataFrame) -> "pd.Series[str]":
    require_columns(submission, ["fname", "label"])
    require_not_missing(submission, "label")
    require_text(submission, "label")
    return align(submission, template, on="fname")["label"]


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return accuracy_score(answers["label"], check(submission, answers))


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> np.ndarray:
    return check(submission, answers).to_numpy() == answers["label"].to_numpy()
