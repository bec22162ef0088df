from functools import partial

import pandas as pd
from sklearn.metrics import roc_auc_score

from pytest_mlebench.grading import predictions

SCORED = [
    *("ETT - Abnormal", "ETT - Borderline", "ETT - Normal"),
    *("NGT - Abnormal", "NGT - Borderline", "NGT - Incompletely Imaged", "NGT - Normal"),
    *("CVC - Abnormal", "CVC - Borderline"),
]

check = partial(predictions, columns=SCORED, on="StudyInstanceUID", between=(0, 1))


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return roc_auc_score(answers[SCORED], check(submission, answers), average="macro")
