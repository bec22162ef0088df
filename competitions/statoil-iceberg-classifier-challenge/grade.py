import pandas as pd
from sklearn.metrics import log_loss

from pytest_mlebench.grading import predictions


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    is_iceberg = predictions(submission, answers, "is_iceberg", on="id", between=(0, 1))
    return log_loss(answers["is_iceberg"], is_iceberg, labels=[0, 1])
