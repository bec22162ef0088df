import pandas as pd

from pytest_mlebench.grading import alignment, numeric, require_columns
from pytest_mlebench.grading.metrics.correlation import pearson


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    require_columns(submission, ["id", "score"])
    score = numeric(submission, "score")  # without a correlation (constant, empty, infinite) it has no score: NaN
    return float(pearson(answers["score"], score[alignment(submission, answers, on="id")]))
