from functools import partial

import pandas as pd
from sklearn.metrics import roc_auc_score

from pytest_mlebench.authoring import predictions
from pytest_mlebench.authoring.resampling import RowScores, roc_auc

check = partial(predictions, columns="target", on="image_name", between=(0, 1))


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return roc_auc_score(answers["target"], check(submission, answers))


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> RowScores:
    return roc_auc(answers["target"], check(submission, answers))
