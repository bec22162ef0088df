from functools import partial

import pandas as pd
from sklearn.metrics import roc_auc_score

from pytest_mlebench.authoring import predictions
from pytest_mlebench.authoring.resampling import RowScores, roc_auc

from .. import grade as first

SCORED = [*first.SCORED, "CVC - Normal", "Swan Ganz Catheter Present"]

check = partial(predictions, columns=SCORED, on="StudyInstanceUID", between=(0, 1))


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return roc_auc_score(answers[SCORED], check(submission, answers), average="macro")


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> RowScores:
    return roc_auc(answers[SCORED], check(submission, answers), units=answers["PatientID"])
