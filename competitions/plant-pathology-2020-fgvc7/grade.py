import pandas as pd
from sklearn.metrics import roc_auc_score

from pytest_mlebench.grading import predictions, require_columns

STATES = ["healthy", "multiple_diseases", "rust", "scab"]


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    require_columns(submission, ["image_id", *STATES], exactly=True)
    scores = predictions(submission, answers, STATES, on="image_id")
    return roc_auc_score(answers[STATES], scores, average="macro")
