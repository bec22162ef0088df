import pandas as pd
from sklearn.metrics import roc_auc_score

from pytest_mlebench.grading import predictions


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    methylated = predictions(submission, answers, "MGMT_value", on="BraTS21ID", between=(0, 1))
    return roc_auc_score(answers["MGMT_value"], methylated)
