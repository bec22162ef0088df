import numpy as np
import pandas as pd
from sklearn.metrics import cohen_kappa_score

from pytest_mlebench.authoring import require_between
from pytest_mlebench.authoring.resampling import RowScores, confusion, quadratic_kappa

from .. import grade as first

SCORES = range(1, 7)


def check(submission: pd.DataFrame, template: pd.DataFrame) -> np.ndarray:
    scores = first.check(submission, template)
    require_between(scores.astype(float), "score", min(SCORES), max(SCORES))
    return scores


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return cohen_kappa_score(answers["score"], check(submission, answers), labels=list(SCORES), weights="quadratic")


def row_scores(submission: pd.DataFrame, answers: pd.DataFrame) -> RowScores:
    return confusion(answers["score"], check(submission, answers), quadratic_kappa, labels=SCORES)
