import pandas as pd
from sklearn.metrics import accuracy_score

from pytest_mlebench.grading import class_labels


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return accuracy_score(answers["Cover_Type"], class_labels(submission, answers, "Cover_Type", on="Id"))
