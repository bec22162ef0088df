import pandas as pd

from pytest_mlebench.grading import InvalidSubmission, predictions, require_columns
from pytest_mlebench.grading.metrics.geometry import angular_error

ANGLES = ["azimuth", "zenith"]


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    require_columns(submission, ["event_id", *ANGLES], exactly=True)
    for angle in ANGLES:
        if submission[angle].dtype == bool:
            raise InvalidSubmission(f"column {angle!r} holds True and False; numbers were expected")
    directions = predictions(submission, answers, ANGLES, on="event_id")
    return angular_error(answers[ANGLES], directions).mean()
