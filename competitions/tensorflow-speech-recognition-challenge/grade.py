import pandas as pd
from sklearn.metrics import accuracy_score

from pytest_mlebench.grading import align, require_columns, require_not_missing, require_text


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    require_columns(submission, ["fname", "label"])
    require_not_missing(submission, "label")
    require_text(submission, "label")
    return accuracy_score(answers["label"], align(submission, answers, on="fname")["label"])
