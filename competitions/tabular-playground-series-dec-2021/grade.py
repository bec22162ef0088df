import pandas as pd
from sklearn.metrics import accuracy_score

from pytest_mlebench.grading import numeric, predictions, require_columns, require_whole


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    require_columns(submission, ["Id", "Cover_Type"])
    require_whole(numeric(submission, "Cover_Type"), "Cover_Type")
    return accuracy_score(answers["Cover_Type"], predictions(submission, answers, "Cover_Type", on="Id"))
