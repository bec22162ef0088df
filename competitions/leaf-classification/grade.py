import numpy as np
import pandas as pd

from pytest_mlebench.authoring import class_probabilities, require_columns
from pytest_mlebench.authoring.metrics.classification import log_loss, log_losses


def check(submission: pd.DataFrame, template: pd.DataFrame) -> np.ndarray:
    species = list(template.columns.drop("id"))
    require_columns(submission, ["id", *species], exactly=True)
    return class_probabilities(submission, template, species, on="id", atol=1e-6)


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return log_loss(answers.drop(columns="id"), check(submission, answers))


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> np.ndarray:
    return log_losses(answers.drop(columns="id"), check(submission, answers))
