import pandas as pd
from sklearn.metrics import f1_score

from pytest_mlebench.grading import class_labels


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    species = class_labels(submission, answers, "Predicted", on="Id", truncate=True)
    return f1_score(answers["Predicted"], species, average="macro")
