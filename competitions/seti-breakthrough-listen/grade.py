import pandas as pd
from sklearn.metrics import roc_auc_score

from pytest_mlebench.grading import predictions


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return roc_auc_score(answers["target"], predictions(submission, answers, "target", on="id", between=(0, 1)))
