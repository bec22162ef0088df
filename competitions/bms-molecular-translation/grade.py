import pandas as pd

from pytest_mlebench.grading import align, require_columns
from pytest_mlebench.grading.metrics.text import mean_levenshtein_distance


def grade(submission: pd.DataFrame, answers: pd.DataFrame) -> float:
    require_columns(submission, ["image_id", "InChI"])
    submission = align(submission, answers, on="image_id")
    # the reference's text of an empty cell is "nan", whatever the version of pandas
    missing = submission["InChI"].isna()
    predicted = submission["InChI"].astype(str).mask(missing, "nan")
    return mean_levenshtein_distance(answers["InChI"].tolist(), predicted.tolist())
