import pandas as pd
from sklearn.metrics import root_mean_squared_error

from pytest_mlebench.authoring import predictions


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    price = predictions(submission, answers, "price", on="id")
    return root_mean_squared_error(answers["price"], price)
