import numpy as np
import pandas as pd

from pytest_mlebench.authoring import InvalidSubmission, predictions, require_columns
from pytest_mlebench.authoring.metrics.ranking import lwlrap, precisions_and_labels
from pytest_mlebench.authoring.resampling import RowScores, ratio


def check(submission: pd.DataFrame, template: pd.DataFrame) -> np.ndarray:
    require_columns(submission, list(template.columns), exactly=True)
    for found, expected in zip(submission.columns, template.columns, strict=True):
        if found != expected:
            raise InvalidSubmission(
                f"found column {found!r} instead of {expected!r}; keep the sample submission's order"
            )
    classes = list(template.columns[1:])
    if all(pd.api.types.is_bool_dtype(submission[name]) for name in classes):
        raise InvalidSubmission("the class columns contain only True and False; numbers were expected")
    return predictions(submission, template, classes, on="fname")


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> np.float64:
    return np.float64(lwlrap(answers.drop(columns="fname").to_numpy(), check(submission, answers)))


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> RowScores:
    return ratio(*precisions_and_labels(answers.drop(columns="fname"), check(submission, answers)))
