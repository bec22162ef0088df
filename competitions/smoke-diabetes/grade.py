import pandas as pd
from sklearn.metrics import root_mean_squared_error

from pytest_mlebench.grading import predictions


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    progression = predictions(submission, answers, "progression", on="id", between=(0, 1000))
    return root_mean_squared_error(answers["progression"], progression)
