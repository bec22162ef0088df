import pandas as pd
from sklearn.metrics import roc_auc_score

from pytest_mlebench.grading import predictions

SCORED = [
    *("ETT - Abnormal", "ETT - Borderline", "ETT - Normal"),
    *("NGT - Abnormal", "NGT - Borderline", "NGT - Incompletely Imaged", "NGT - Normal"),
    *("CVC - Abnormal", "CVC - Borderline"),
]


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    scores = predictions(submission, answers, SCORED, on="StudyInstanceUID", between=(0, 1))
    return roc_auc_score(answers[SCORED], scores, average="macro")
