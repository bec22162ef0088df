import pandas as pd
from sklearn.metrics import log_loss

from pytest_mlebench.grading import predictions


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    label = predictions(submission, answers, "label", on="id", between=(0, 1))
    return log_loss(answers["label"], label, labels=[0, 1])
