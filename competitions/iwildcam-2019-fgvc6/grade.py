import pandas as pd
from sklearn.metrics import f1_score

from pytest_mlebench.grading import class_labels


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    animals = class_labels(submission, answers, "Category", on="Id", truncate=True)
    return f1_score(answers["Category"], animals, average="macro")
