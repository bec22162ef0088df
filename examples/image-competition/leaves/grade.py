from functools import partial

import pandas as pd
from sklearn.metrics import roc_auc_score

from pytest_mlebench.authoring import predictions

check = partial(predictions, columns="rusty", on="id", between=(0, 1))


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return roc_auc_score(answers["rusty"], check(submission, answers))
