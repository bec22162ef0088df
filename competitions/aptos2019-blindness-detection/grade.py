import pandas as pd
from sklearn.metrics import cohen_kappa_score

from pytest_mlebench.grading import class_labels


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    diagnosis = class_labels(submission, answers, "diagnosis", on="id_code")
    return cohen_kappa_score(answers["diagnosis"], diagnosis, weights="quadratic")
