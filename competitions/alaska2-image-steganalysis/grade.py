import pandas as pd

from pytest_mlebench.grading import predictions
from pytest_mlebench.grading.metrics.roc import weighted_roc_auc


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    labels = predictions(submission, answers, "Label", on="Id")
    return weighted_roc_auc(answers["Label"], labels, tpr_thresholds=(0, 0.4, 1), weights=(2, 1))
