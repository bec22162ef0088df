from functools import partial

import pandas as pd
from sklearn.metrics import root_mean_squared_error

from pytest_mlebench.grading import predictions

check = partial(predictions, columns="Pawpularity", on="Id", between=(1, 100))


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return root_mean_squared_error(answers["Pawpularity"], check(submission, answers))
