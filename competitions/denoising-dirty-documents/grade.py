from functools import partial

import pandas as pd
from sklearn.metrics import root_mean_squared_error

from pytest_mlebench.grading import predictions

check = partial(predictions, columns="value", on="id")


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return root_mean_squared_error(answers["value"], check(submission, answers))
