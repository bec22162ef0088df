import pandas as pd
from sklearn.metrics import root_mean_squared_error

from pytest_mlebench.grading import predictions


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    scores = predictions(submission, answers, "Pawpularity", on="Id", between=(1, 100))
    return root_mean_squared_error(answers["Pawpularity"], scores)
