import pandas as pd
from sklearn.metrics import accuracy_score

from pytest_mlebench.authoring import predictions


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    return accuracy_score(answers["odd"], predictions(submission, answers, "odd", on="id"))
