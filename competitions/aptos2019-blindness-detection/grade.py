import pandas as pd
from sklearn.metrics import cohen_kappa_score

from pytest_mlebench.grading import numeric, predictions, require_columns, require_whole


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    require_columns(submission, ["id_code", "diagnosis"])
    require_whole(numeric(submission, "diagnosis"), "diagnosis")
    diagnosis = predictions(submission, answers, "diagnosis", on="id_code")
    return cohen_kappa_score(answers["diagnosis"], diagnosis, weights="quadratic")
