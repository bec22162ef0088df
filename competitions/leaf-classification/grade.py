import pandas as pd

from pytest_mlebench.grading import class_probabilities, require_columns
from pytest_mlebench.grading.metrics.classification import log_loss


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    species = list(answers.columns.drop("id"))
    require_columns(submission, ["id", *species], exactly=True)
    probabilities = class_probabilities(submission, answers, species, on="id", atol=1e-6)
    return log_loss(answers[species], probabilities)
