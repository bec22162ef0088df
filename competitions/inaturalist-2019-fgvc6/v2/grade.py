import numpy as np
import pandas as pd
from sklearn.metrics import zero_one_loss

from pytest_mlebench.authoring import class_labels, require_columns, require_not_missing
from pytest_mlebench.authoring.checks import AS_TEXT

READ_OPTIONS = AS_TEXT


def check(submission: pd.DataFrame, template: pd.DataFrame) -> np.ndarray:
    require_columns(submission, ["id", "predicted"])
    first = submission["predicted"].str.split().str[0]
    require_not_missing(submission.assign(predicted=first), "predicted")
    return class_labels(submission.assign(predicted=first), template, "predicted", on="id")


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return zero_one_loss(answers["predicted"].astype(int), check(submission, answers))


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> np.ndarray:
    return check(submission, answers) != answers["predicted"].astype(int).to_numpy()
