import pandas as pd
from sklearn.metrics import accuracy_score

from pytest_mlebench.grading import InvalidSubmission, align, require_columns, require_not_missing


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    require_columns(submission, ["PassengerId", "Transported"])
    require_not_missing(submission, "Transported")
    if not pd.api.types.is_numeric_dtype(submission["Transported"]):  # booleans are numeric
        raise InvalidSubmission("column 'Transported' must hold True and False only")
    return accuracy_score(answers["Transported"], align(submission, answers, on="PassengerId")["Transported"])
