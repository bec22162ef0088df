import pandas as pd

from pytest_mlebench.grading import numeric, predictions, require_row_sums
from pytest_mlebench.grading.metrics.classification import log_loss

VERDICTS = ["winner_model_a", "winner_model_b", "winner_tie"]


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    probabilities = predictions(submission, answers, VERDICTS, on="id", between=(0, 1))
    require_row_sums(numeric(submission, VERDICTS), rtol=0, atol=5e-7)
    return log_loss(answers[VERDICTS], probabilities)
