from functools import partial

import pandas as pd
from sklearn.metrics import log_loss

from pytest_mlebench.grading import predictions

check = partial(predictions, columns="label", on="id", between=(0, 1))


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return log_loss(answers["label"], check(submission, answers), labels=[0, 1])
