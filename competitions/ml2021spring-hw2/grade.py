import pandas as pd
from sklearn.metrics import accuracy_score

from pytest_mlebench.grading import class_labels


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return accuracy_score(answers["ClassId"], class_labels(submission, answers, "ClassId", on="Id"))
