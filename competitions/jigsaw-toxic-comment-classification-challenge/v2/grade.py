from functools import partial

import pandas as pd
from sklearn.metrics import roc_auc_score

from pytest_mlebench.authoring import predictions
from pytest_mlebench.authoring.resampling import RowScores, roc_auc

from ..labels import CLASSES

check = partial(predictions, columns=CLASSES, on="id")


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return roc_auc_score(answers[CLASSES], check(submission, answers), average="macro")


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> RowScores:
    return roc_auc(answers[CLASSES], check(submission, answers))
