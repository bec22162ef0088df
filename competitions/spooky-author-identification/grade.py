import pandas as pd

from pytest_mlebench.grading import InvalidSubmission, class_probabilities, require_columns
from pytest_mlebench.grading.metrics.classification import log_loss

AUTHORS = ["EAP", "HPL", "MWS"]


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    require_columns(submission, ["id", *AUTHORS], exactly=True)
    if submission.columns[0] != "id":
        raise InvalidSubmission(f"column 'id' must be the first, which is {submission.columns[0]!r}")
    probabilities = class_probabilities(submission, answers, AUTHORS, on="id", atol=1e-6)
    return log_loss(answers[AUTHORS], probabilities)
