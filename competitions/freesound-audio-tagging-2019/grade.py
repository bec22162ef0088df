import pandas as pd

from pytest_mlebench.grading import InvalidSubmission, predictions, require_columns
from pytest_mlebench.grading.metrics.audio import lwlrap


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    require_columns(submission, list(answers.columns), exactly=True)
    for found, expected in zip(submission.columns, answers.columns, strict=True):
        if found != expected:
            raise InvalidSubmission(
                f"column {found!r} stands where {expected!r} was expected; keep the sample submission's order"
            )
    classes = list(answers.columns[1:])
    if all(pd.api.types.is_bool_dtype(submission[name]) for name in classes):
        raise InvalidSubmission("the class columns hold True and False only; numbers were expected")
    scores = predictions(submission, answers, classes, on="fname")
    return lwlrap(answers[classes].to_numpy(), scores)
