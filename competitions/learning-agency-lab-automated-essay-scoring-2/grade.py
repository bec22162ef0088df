from functools import partial

import pandas as pd
from sklearn.metrics import cohen_kappa_score

from pytest_mlebench.authoring import class_labels
from pytest_mlebench.authoring.resampling import RowScores, confusion, quadratic_kappa

check = partial(class_labels, column="score", on="essay_id")


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    # As in the reference, the weights depend on ranks among the scores in the answers and the submission.
    return cohen_kappa_score(answers["score"], check(submission, answers), weights="quadratic")


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> RowScores:
    return confusion(answers["score"], check(submission, answers), quadratic_kappa)
