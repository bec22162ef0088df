import pandas as pd

from pytest_mlebench.grading import InvalidSubmission, numeric, predictions, require_columns, require_row_sums
from pytest_mlebench.grading.metrics.classification import log_loss

AUTHORS = ["EAP", "HPL", "MWS"]


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    require_columns(submission, ["id", *AUTHORS], exactly=True)
    if submission.columns[0] != "id":
        raise InvalidSubmission(f"column 'id' must be the first, which is {submission.columns[0]!r}")
    require_row_sums(numeric(submission, AUTHORS), atol=1e-6)
    probabilities = predictions(submission, answers, AUTHORS, on="id", between=(0, 1))
    return log_loss(answers[AUTHORS], probabilities)
