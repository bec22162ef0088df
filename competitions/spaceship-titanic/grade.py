import pandas as pd
from sklearn.metrics import accuracy_score

from pytest_mlebench.grading import class_labels


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    transported = class_labels(submission, answers, "Transported", on="PassengerId")  # True and False are 1 and 0
    return accuracy_score(answers["Transported"].astype(int), transported)
