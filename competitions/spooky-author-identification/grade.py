import numpy as np
import pandas as pd

from pytest_mlebench.authoring import InvalidSubmission, class_probabilities, require_columns
from pytest_mlebench.authoring.metrics.classification import log_loss, log_losses

from .labels import AUTHORS


def check(submission: pd.DataFrame, template: pd.DataFrame) -> np.ndarray:
    require_columns(submission, ["id", *AUTHORS], exactly=True)
    if submission.columns[0] != "id":
        raise InvalidSubmission(f"the first column must be 'id', not {submission.columns[0]!r}")
    return class_probabilities(submission, template, AUTHORS, on="id", atol=1e-6)


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return log_loss(answers[AUTHORS], check(submission, answers))


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> np.ndarray:
    return log_losses(answers[AUTHORS], check(submission, answers))
