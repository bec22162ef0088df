from functools import partial

import pandas as pd
from sklearn.metrics import cohen_kappa_score

from pytest_mlebench.authoring import class_labels
from pytest_mlebench.authoring.resampling import RowScores, confusion, quadratic_kappa

check = partial(class_labels, column="diagnosis", on="id_code")


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return cohen_kappa_score(answers["diagnosis"], check(submission, answers), weights="quadratic")


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> RowScores:
    return confusion(answers["diagnosis"], check(submission, answers), quadratic_kappa)
