import pandas as pd

from pytest_mlebench.grading import numeric, predictions, require_columns, require_row_sums
from pytest_mlebench.grading.metrics.classification import log_loss


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    species = list(answers.columns.drop("id"))
    require_columns(submission, ["id", *species], exactly=True)
    require_row_sums(numeric(submission, species), atol=1e-6)
    probabilities = predictions(submission, answers, species, on="id", between=(0, 1))
    return log_loss(answers[species], probabilities)
