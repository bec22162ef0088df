import pandas as pd
from sklearn.metrics import accuracy_score

from pytest_mlebench.grading import InvalidSubmission, align, require_columns, require_not_missing


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    require_columns(submission, ["fname", "label"])
    require_not_missing(submission, "label")
    if pd.api.types.is_numeric_dtype(submission["label"]):
        raise InvalidSubmission("column 'label' holds numbers; names of labels were expected")
    return accuracy_score(answers["label"], align(submission, answers, on="fname")["label"])
