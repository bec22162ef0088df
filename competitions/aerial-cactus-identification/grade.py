import pandas as pd
from sklearn.metrics import roc_auc_score

from pytest_mlebench.grading import predictions


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    has_cactus = predictions(submission, answers, "has_cactus", on="id", between=(0, 1))
    return roc_auc_score(answers["has_cactus"], has_cactus)
