import pandas as pd

from pytest_mlebench.grading import class_probabilities
from pytest_mlebench.grading.metrics.classification import log_loss


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    breeds = list(answers.columns.drop("id"))
    probabilities = class_probabilities(submission, answers, breeds, on="id", atol=1e-6)
    return log_loss(answers[breeds], probabilities)
