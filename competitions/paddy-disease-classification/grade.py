import numpy as np
import pandas as pd
from sklearn.metrics import accuracy_score

from pytest_mlebench.authoring import align, require_columns, require_text, texts


def check(submission: pd.DataFrame, template: pd.DataFrame) -> "pd.Series[str]":
    require_columns(submission, ["image_id", "label"])
    if submission["label"].notna().all():  # as in the reference, where empty fields turn numbers into strings
        require_text(submission, "label")
    return texts(align(submission, template, on="image_id"), "label")  # an empty label counts as wrong


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return accuracy_score(answers["label"], check(submission, answers))


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> np.ndarray:
    return check(submission, answers).to_numpy() == answers["label"].to_numpy()
