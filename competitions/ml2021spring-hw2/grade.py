import pandas as pd
from sklearn.metrics import accuracy_score

from pytest_mlebench.grading import numeric, predictions, require_columns, require_whole


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    require_columns(submission, ["Id", "ClassId"])
    require_whole(numeric(submission, "ClassId"), "ClassId")
    return accuracy_score(answers["ClassId"], predictions(submission, answers, "ClassId", on="Id"))
