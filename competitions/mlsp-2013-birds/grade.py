from functools import partial

import pandas as pd
from sklearn.metrics import roc_auc_score

from pytest_mlebench.grading import predictions

check = partial(predictions, columns="Probability", on="Id", between=(0, 1))


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return roc_auc_score(answers["Probability"], check(submission, answers))
